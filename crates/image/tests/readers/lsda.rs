//! GCC and clang write the tables; their assembler output, with its labels kept as symbols, says
//! what is in them.

use std::collections::HashMap;

use gimli::{BaseAddresses, EhFrame, LittleEndian, UnwindSection as _};
use relive_code::addr::{AddrRange, LinkAddr};
use relive_image::bb_addr_map;
use relive_image::lsda::{self, Bases, CallSite, Lsda};
use relive_testkit::compile::{Compiled, compile};

const SOURCE: (&str, &str) = (
    "main.cpp",
    r#"
    #include <cstdio>
    #include <stdexcept>
    #include <string>
    struct Guard { int x; ~Guard() { std::printf("%d\n", x); } };
    __attribute__((noinline)) int thrower(int n) {
        if (n > 3) throw std::runtime_error(std::to_string(n));
        if (n == 3) throw n;
        return n;
    }
    template <int N> int nested(int n) {
        Guard outer{n};
        try {
            Guard inner{N};
            return thrower(n) + thrower(N);
        } catch (std::runtime_error& error) {
            std::puts(error.what());
            try { return thrower(n - 1); } catch (int i) { return i; }
        } catch (std::exception&) {
            return -1;
        } catch (...) {
            return -2;
        }
    }
    int quiet(int n) noexcept { return thrower(n) + 1; }
    int listed(int n) throw(int, std::runtime_error) { Guard guard{n}; return thrower(n); }
    int main(int argc, char**) {
        try { return nested<1>(argc) + nested<2>(argc) + quiet(argc) + listed(argc); }
        catch (const char*) { return 3; }
    }
    "#,
);

/// All LSDAs of a file with their addresses.
fn lsdas(file: &Compiled) -> Vec<(LinkAddr, Lsda)> {
    let file = file.bytes();
    let (frame_address, frames) = crate::section(&file, &[".eh_frame"]);
    let (section, bytes) = crate::section(&file, &[".gcc_except_table"]);
    let eh_frame = EhFrame::new(&frames, LittleEndian);
    let bases = BaseAddresses::default().set_eh_frame(frame_address.0);
    let mut entries = eh_frame.entries(&bases);
    let mut lsdas = Vec::new();
    while let Some(entry) = entries.next().unwrap() {
        let gimli::CieOrFde::Fde(partial) = entry else { continue };
        let fde = partial.parse(|_, bases, offset| eh_frame.cie_from_offset(bases, offset)).unwrap();
        let Some(gimli::Pointer::Direct(lsda)) = fde.lsda() else { continue };
        let function = LinkAddr(fde.initial_address());
        let parsed = lsda::parse(&bytes, LinkAddr(lsda), Bases { section, function, data: None }).unwrap();
        lsdas.push((LinkAddr(lsda), parsed));
    }
    lsdas
}

/// A number in assembler: `.L5-.LFB3`, `0x1`, `7`.
fn evaluate(expression: &str, symbols: &HashMap<String, LinkAddr>) -> u64 {
    match expression.split_once('-') {
        Some((to, from)) => symbols[to.trim()].since(symbols[from.trim()]),
        None => match expression.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).unwrap(),
            None => expression.parse().unwrap(),
        },
    }
}

/// The call sites between two labels of an assembler file.
fn call_sites_in(
    assembly: &str,
    (begin, end): (&str, &str),
    symbols: &HashMap<String, LinkAddr>,
    function: LinkAddr,
) -> Vec<CallSite> {
    let after = assembly.split_once(&format!("\n{begin}:\n")).unwrap().1;
    let table = after.split_once(&format!("\n{end}:\n")).map_or("", |(table, _)| table);
    let numbers: Vec<u64> = table
        .lines()
        .filter_map(|line| line.trim().strip_prefix(".uleb128"))
        .map(|expression| evaluate(expression.split('#').next().unwrap().trim(), symbols))
        .collect();
    numbers
        .chunks_exact(4)
        .map(|site| CallSite {
            range: AddrRange::sized(function.offset(site[0]), site[1]),
            landing_pad: (site[2] != 0).then(|| function.offset(site[2])),
            action: site[3].checked_sub(1),
        })
        .collect()
}

#[test]
fn call_sites_of_gcc() {
    for level in ["-O0", "-O2"] {
        for kind in ["-pie", "-no-pie"] {
            let pic = if kind == "-pie" { "-fPIE" } else { "-fno-pie" };
            let assembly = compile("g++", &["-std=c++14", "-w", level, pic, "-S"], SOURCE);
            let assembly = String::from_utf8(assembly.bytes()).unwrap();
            // -L keeps the assembler's local labels.
            let file = compile("g++", &["-Wa,-L", kind], ("main.s", &assembly));
            let symbols = crate::symbols(&file);
            let found: HashMap<LinkAddr, Lsda> = lsdas(&file).into_iter().collect();

            // `.LLSDA12:` begins the table of a function, `.LLSDAC12:` that of its cold part, and
            // each has labels around its call sites. The function is what the first call site, if
            // any, is relative to.
            let mut sites = 0;
            for label in assembly.lines().filter_map(|line| line.strip_suffix(':')) {
                let Some(id) = label.strip_prefix(".LLSDA") else { continue };
                if !id.trim_start_matches('C').bytes().all(|byte| byte.is_ascii_digit()) {
                    continue;
                }
                let (part, number) =
                    if let Some(number) = id.strip_prefix('C') { ("C", number) } else { ("", id) };
                let lsda = &found[&symbols[label]];
                let labels = (format!(".LLSDACSB{part}{number}"), format!(".LLSDACSE{part}{number}"));
                let labels = (labels.0.as_str(), labels.1.as_str());
                let expected = call_sites_in(&assembly, labels, &symbols, lsda.landing_pad_base);
                assert_eq!(lsda.call_sites, expected, "{label} {level} {kind}");
                sites += expected.len();
            }
            assert!(sites > 10, "the oracle has found only {sites} call sites");
        }
    }
}

/// The types that handlers catch, by name, in a file without position-independent code where they
/// are addresses.
#[test]
fn caught_types_of_gcc() {
    let file = compile("g++", &["-std=c++14", "-w", "-O1", "-fno-pie", "-no-pie"], SOURCE);
    let symbols = crate::symbols(&file);
    let name_of = |address: LinkAddr| {
        let name = symbols.iter().find(|(name, at)| **at == address && name.starts_with("_ZTI"));
        name.map_or_else(|| address.to_string(), |(name, _)| name.split('@').next().unwrap().to_owned())
    };
    let lsdas = lsdas(&file);
    let at = symbols["_Z6nestedILi1EEii"];
    let (_, nested) =
        lsdas.iter().find(|(_, lsda)| lsda.landing_pad_base == at).expect("the LSDA of nested<1>");
    let caught: Vec<Vec<String>> = nested
        .call_sites
        .iter()
        .map(|site| {
            let actions = nested.actions_of(site);
            actions
                .map(|action| match nested.catch_type(action.filter) {
                    Some(pointer) => pointer.address.map_or("...".to_owned(), name_of),
                    None => "cleanup".to_owned(),
                })
                .collect()
        })
        .collect();
    let first_try =
        ["cleanup", "_ZTISt13runtime_error", "_ZTISt9exception", "..."].map(str::to_owned).to_vec();
    assert!(caught.iter().any(|actions| actions.ends_with(&first_try[1..])), "{caught:?}");

    let at = symbols["_Z6listedi"];
    let (_, listed) = lsdas.iter().find(|(_, lsda)| lsda.landing_pad_base == at).expect("the LSDA of listed");
    let filter =
        listed.actions.values().map(|action| action.filter).find(|&filter| filter < 0).expect("a list");
    let types = listed.type_list(filter).map(|number| listed.types[number as usize - 1].address.unwrap());
    let mut types: Vec<String> = types.map(name_of).collect();
    types.sort_unstable();
    assert_eq!(types, ["_ZTISt13runtime_error", "_ZTIi"]);
}

/// Clang can lay landing pads apart from the function; then the header says what they are relative
/// to. The compiler's own map of basic blocks says which blocks are landing pads.
#[test]
fn scattered_landing_pads_of_clang() {
    for kind in [["-fPIE", "-pie"], ["-fno-pie", "-no-pie"]] {
        let flags = ["-std=c++14", "-w", "-O1", "-fbasic-block-sections=all", "-fbasic-block-address-map"];
        let file = compile("clang++-19", &[&flags[..], &kind].concat(), SOURCE);
        let (_, map) = crate::section(&file.bytes(), &[".llvm_bb_addr_map"]);
        let map = bb_addr_map::parse(&map).unwrap();
        let pads = map.iter().flat_map(|function| function.blocks()).filter(|block| block.flags.is_eh_pad());
        let mut pads: Vec<AddrRange> = pads.map(|block| block.range).collect();
        pads.sort_unstable();

        let lsdas = lsdas(&file);
        assert!(lsdas.iter().any(|(_, lsda)| lsda.landing_pad_base_encoding != gimli::DW_EH_PE_omit));
        let sites = lsdas.iter().flat_map(|(_, lsda)| &lsda.call_sites);
        let mut landings: Vec<LinkAddr> = sites.filter_map(|site| site.landing_pad).collect();
        landings.sort_unstable();
        landings.dedup();
        assert_eq!(landings.len(), pads.len());
        for (landing, pad) in landings.iter().zip(&pads) {
            // Behind the `nop` that keeps a pad from lying at the base.
            assert!(pad.contains(*landing), "{landing} is not in {pad}");
        }
    }
}
