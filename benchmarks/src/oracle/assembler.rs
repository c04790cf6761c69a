//! The compiler's assembler source: which code labels stand in jump tables, which are landing pads, and which
//! functions the file defines. Together with the labels' addresses (`symbols`) this is exact truth for switches and
//! computed gotos, which no disassembly can give.

use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::path::Path;

/// What one assembler file says.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Assembler {
    /// The name in its FILE symbol.
    pub(crate) source: String,
    pub(crate) functions: BTreeSet<String>,
    /// Labels that stand in data: jump tables, tables of computed gotos (and data labels, which lie in no function).
    pub(crate) in_tables: BTreeSet<String>,
    /// Labels in the exception tables.
    pub(crate) in_exception_tables: BTreeSet<String>,
}

/// Reads every `.s` file of a folder.
pub(crate) fn read_folder(folder: &Path) -> Result<Vec<Assembler>> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .with_context(|| format!("no assembler source in {}", folder.display()))?
        .map(|entry| entry.map(|e| e.path()))
        .collect::<Result<_, _>>()?;
    files.retain(|path| path.extension().is_some_and(|e| e == "s"));
    files.sort();
    files.iter().map(|path| Ok(parse(&String::from_utf8_lossy(&std::fs::read(path)?)))).collect()
}

#[derive(Clone, Copy, PartialEq)]
enum Section {
    Data,
    ExceptionTable,
    /// Code, debug information, unwind tables, the block map.
    Other,
}

fn parse(text: &str) -> Assembler {
    let mut found = Assembler::default();
    let mut section = Section::Other;
    let mut pushed = Vec::new();
    for line in text.lines() {
        let mut words = line.split([' ', '\t', ',']).filter(|word| !word.is_empty());
        let (Some(directive), operand) = (words.next(), words.next().unwrap_or_default()) else { continue };
        match directive {
            ".text" => section = Section::Other,
            ".data" => section = Section::Data,
            ".section" => section = kind_of(operand),
            ".pushsection" => {
                pushed.push(section);
                section = kind_of(operand);
            }
            ".popsection" => section = pushed.pop().unwrap_or(Section::Other),
            ".file" if found.source.is_empty() && operand.starts_with('"') => {
                operand.trim_matches('"').clone_into(&mut found.source);
            }
            ".type" if words.next().is_some_and(|kind| kind.ends_with("function")) => {
                found.functions.insert(operand.to_owned());
            }
            ".quad" | ".long" | ".uleb128" if operand.starts_with(".L") => {
                let label = operand.split(['-', '+']).next().unwrap_or(operand).to_owned();
                match section {
                    Section::Data => _ = found.in_tables.insert(label),
                    Section::ExceptionTable => _ = found.in_exception_tables.insert(label),
                    Section::Other => {}
                }
            }
            _ => {}
        }
    }
    found
}

fn kind_of(section: &str) -> Section {
    let name = section.trim_matches('"');
    if name.starts_with(".gcc_except_table") {
        Section::ExceptionTable
    } else if [".rodata", ".data", ".lrodata", ".ldata"].iter().any(|prefix| name.starts_with(prefix)) {
        Section::Data
    } else {
        Section::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(labels: &[&str]) -> BTreeSet<String> {
        labels.iter().map(|&label| label.to_owned()).collect()
    }

    #[test]
    fn gcc() {
        let found = parse(
            "\t.file\t\"a.c\"\n\t.text\n\t.type\tf, @function\nf:\n\tjmp\t*%rax\n\t.section\t.rodata\n\t.align 4\n.L4:\n\
             \t.long\t.L10-.L4\n\t.long\t.L9-.L4\n\t.text\n.L10:\n\t.section\t.gcc_except_table,\"a\",@progbits\n\
             \t.uleb128 .LEHB0-.LFB1\n\t.uleb128 .L6-.LFB1\n\t.section\t.debug_info,\"\",@progbits\n\t.quad\t.LBB3\n\
             \t.section\t.data.rel.ro.local,\"aw\"\n\t.quad\t.L20\n\t.quad\tsome_function\n",
        );
        assert_eq!(found.source, "a.c");
        assert_eq!(found.functions, set(&["f"]));
        assert_eq!(found.in_tables, set(&[".L10", ".L9", ".L20"]));
        assert_eq!(found.in_exception_tables, set(&[".LEHB0", ".L6"]));
    }

    #[test]
    fn clang() {
        let found = parse(
            "\t.text\n\t.file\t\"lvm.c\"\n\t.file\t1 \"lvm.c\"\n\t.type\tg,@function              # -- Begin\n\
             \t.section\t.rodata,\"a\",@progbits\n.LJTI0_0:\n\t.long\t.LBB0_5-.LJTI0_0\n\
             \t.section\t.llvm_bb_addr_map,\"o\",@llvm_bb_addr_map,.text\n\t.quad\t.Lfunc_begin0\n",
        );
        assert_eq!(found.source, "lvm.c");
        assert_eq!(found.functions, set(&["g"]));
        assert_eq!(found.in_tables, set(&[".LBB0_5"]));
    }
}
