//! Go writes the table; `go tool nm` says which functions there are.

use std::collections::BTreeMap;

use object::{Object as _, ObjectSegment as _};
use relive_code::addr::LinkAddr;
use relive_image::gopclntab::{self, Pclntab};
use relive_testkit::compile::{Compiled, compile, stdout};

/// Without and with position-independent code.
const SECTION: &[&str] = &[".gopclntab", ".data.rel.ro.gopclntab"];

const SOURCE: (&str, &str) = (
    "main.go",
    r#"
    package main

    import "fmt"

    type adder struct{ a int }

    //go:noinline
    func (t *adder) Add(n int) int { return t.a + n }

    //go:noinline
    func fib(n int) int {
        if n < 2 { return n }
        return fib(n-1) + fib(n-2)
    }

    func main() {
        t := &adder{3}
        fmt.Println(fib(10), t.Add(4), func(x int) int { return x + 1 }(5))
    }
    "#,
);

/// Text symbols by address: size and names.
fn text_symbols(file: &Compiled) -> BTreeMap<LinkAddr, (u64, Vec<String>)> {
    let listing = stdout("go", &["tool".as_ref(), "nm".as_ref(), "-size".as_ref(), file.as_ref()]);
    let mut symbols = BTreeMap::<_, (u64, Vec<String>)>::new();
    for line in listing.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [address, size, "T" | "t", name @ ..] = &words[..] else { continue };
        // Markers such as `runtime.text` are no functions.
        let size: u64 = size.parse().unwrap();
        if size > 0 {
            let address = LinkAddr(u64::from_str_radix(address, 16).unwrap());
            let symbol = symbols.entry(address).or_default();
            symbol.0 = size;
            symbol.1.push(name.join(" "));
        }
    }
    symbols
}

/// What the runtime knows of a symbol's name: not the calling convention of assembly functions, nor
/// what stands in brackets (type arguments, array lengths).
fn runtime_name(symbol: &str) -> String {
    let symbol = symbol.strip_suffix(".abi0").unwrap_or(symbol);
    match (symbol.find('['), symbol.rfind(']')) {
        (Some(open), Some(close)) => format!("{}...{}", &symbol[..=open], &symbol[close..]),
        _ => symbol.to_owned(),
    }
}

fn agrees_with_nm(table: &Pclntab<'_>, file: &Compiled) {
    let symbols = text_symbols(file);
    assert!(symbols.len() > 1000, "the oracle has found only {}", symbols.len());
    let ours: Vec<LinkAddr> = table.functions.iter().map(|function| function.range.start).collect();
    assert_eq!(ours, symbols.keys().copied().collect::<Vec<_>>());
    for function in &table.functions {
        let (size, names) = &symbols[&function.range.start];
        assert!(function.range.len() >= *size, "{function:?} is shorter than {size}");
        let name = std::str::from_utf8(function.name).unwrap();
        assert!(names.iter().any(|symbol| runtime_name(symbol) == name), "{name} is called {names:?}");
    }
    assert!(table.functions.iter().any(|function| function.name == b"main.(*adder).Add"));
}

#[test]
fn every_function_of_a_program() {
    for mode in ["-buildmode=exe", "-buildmode=pie"] {
        let file = compile("go", &["build", mode], SOURCE);
        let (_, bytes) = crate::section(&file.bytes(), SECTION);
        agrees_with_nm(&gopclntab::parse(&bytes, None).unwrap(), &file);
    }
}

#[test]
fn a_stripped_program_without_section_headers() {
    let full = compile("go", &["build"], SOURCE);
    let stripped = compile("go", &["build", "-ldflags=-s -w"], SOURCE);
    let bytes = stripped.bytes();
    let elf = object::File::parse(&*bytes).unwrap();
    assert_eq!(elf.symbols().count(), 0);
    let found = elf.segments().find_map(|segment| {
        let data = segment.data().unwrap();
        gopclntab::locate(data).map(|offset| &data[offset..])
    });
    agrees_with_nm(&gopclntab::parse(found.expect("the table"), None).unwrap(), &full);
}

/// What Go 1.26 does, by way of an older Go: the header's text start is zero, the module data has
/// it.
#[test]
fn a_program_whose_header_has_no_text_start() {
    let file = compile("go", &["build"], SOURCE);
    let (address, mut table) = crate::section(&file.bytes(), SECTION);
    table[24..32].fill(0);
    assert_eq!(gopclntab::parse(&table, None), Err(gopclntab::Error::NoTextStart));
    let (_, data) = crate::section(&file.bytes(), &[".go.module", ".noptrdata"]);
    let text_start = gopclntab::text_start_from_moduledata(&data, address);
    assert_eq!(text_start, Some(crate::symbols(&file)["runtime.text"]));
    agrees_with_nm(&gopclntab::parse(&table, text_start).unwrap(), &file);
}
