//! The format readers against independent oracles: real compilers write the tables, other tools say
//! what is in them.

mod bb_addr_map;
mod gopclntab;
mod jump_table_sizes;
mod lsda;

use std::collections::HashMap;
use std::path::Path;

use object::{Object as _, ObjectSection as _};
use relive_code::addr::LinkAddr;
use relive_testkit::compile::stdout;

/// Address and bytes of the first of the sections that a file has.
fn section(file: &[u8], names: &[&str]) -> (LinkAddr, Vec<u8>) {
    let elf = object::File::parse(file).expect("an ELF file");
    let section = names.iter().find_map(|name| elf.section_by_name(name)).expect("a section of that name");
    (LinkAddr(section.address()), section.data().expect("the section's bytes").to_vec())
}

/// Symbols with their addresses, from `nm`.
fn symbols(file: &Path) -> HashMap<String, LinkAddr> {
    let listing = stdout("nm", &["--defined-only".as_ref(), file.as_os_str()]);
    listing
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            Some((words.nth(1)?.to_owned(), LinkAddr(address)))
        })
        .collect()
}
