//! The symbol table as `llvm-readelf -s` prints it: functions, and the assembler's local labels by source file.

use crate::process::output_of;
use anyhow::Result;
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

/// A function symbol.
#[derive(Debug, PartialEq)]
pub(crate) struct FunctionSymbol {
    pub(crate) name: String,
    pub(crate) address: u64,
    pub(crate) size: u64,
}

/// What the accuracy runs need of a symbol table.
#[derive(Default)]
pub(crate) struct Symbols {
    pub(crate) functions: Vec<FunctionSymbol>,
    /// Addresses of `.L` labels, by source file (the FILE symbol they stand behind) and label. Two source files of
    /// one name would share a key; then more than one address is here.
    labels: HashMap<String, HashMap<String, Vec<u64>>>,
}

impl Symbols {
    pub(crate) fn of(file: &Path) -> Result<Self> {
        Ok(Self::parse(&output_of(Command::new("llvm-readelf-19").args(["-s", "-W"]).arg(file))?))
    }

    pub(crate) fn parse(text: &str) -> Self {
        let mut symbols = Self::default();
        let mut source = String::new();
        let mut in_symtab = false;
        for line in text.lines() {
            if line.starts_with("Symbol table '") {
                in_symtab = line.contains("'.symtab'");
            }
            let mut columns = line.split_whitespace();
            let (Some(_), Some(value), Some(size), Some(kind), Some(_), Some(_), Some(section)) = (
                columns.next().filter(|number| in_symtab && number.ends_with(':')),
                columns.next(),
                columns.next(),
                columns.next(),
                columns.next(),
                columns.next(),
                columns.next(),
            ) else {
                continue;
            };
            let name = columns.next().unwrap_or_default();
            let (Ok(address), Ok(size)) = (u64::from_str_radix(value, 16), size.parse::<u64>()) else {
                continue;
            };
            match kind {
                "FILE" => name.clone_into(&mut source),
                "FUNC" if section != "UND" && size > 0 => {
                    symbols.functions.push(FunctionSymbol { name: name.to_owned(), address, size });
                }
                "NOTYPE" if name.starts_with(".L") => {
                    let of_source = symbols.labels.entry(source.clone()).or_default();
                    of_source.entry(name.to_owned()).or_default().push(address);
                }
                _ => {}
            }
        }
        symbols
    }

    /// The addresses of a label of a source file.
    pub(crate) fn label(&self, source: &str, label: &str) -> &[u64] {
        self.labels.get(source).and_then(|labels| labels.get(label)).map_or(&[], Vec::as_slice)
    }

    /// Every label with its address.
    pub(crate) fn labels(&self) -> impl Iterator<Item = (&str, u64)> {
        self.labels
            .values()
            .flatten()
            .flat_map(|(name, at)| at.iter().map(move |&address| (name.as_str(), address)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
Symbol table '.dynsym' contains 2 entries:
   Num:    Value          Size Type    Bind   Vis       Ndx Name
     1: 0000000000001300    10 FUNC    GLOBAL DEFAULT    15 dynamic_only

Symbol table '.symtab' contains 9 entries:
   Num:    Value          Size Type    Bind   Vis       Ndx Name
     0: 0000000000000000     0 NOTYPE  LOCAL  DEFAULT   UND
     3: 0000000000000000     0 FILE    LOCAL  DEFAULT   ABS a.c
     8: 0000000000001260     0 NOTYPE  LOCAL  DEFAULT    15 .L13
   136: 0000000000000000     0 FILE    LOCAL  DEFAULT   ABS b.c
   145: 0000000000001290     0 NOTYPE  LOCAL  DEFAULT    15 .L13
   150: 0000000000001280    32 FUNC    LOCAL  DEFAULT    15 g.cold
   151: 0000000000000000     0 FUNC    GLOBAL DEFAULT   UND puts@GLIBC_2.2.5 (2)
";

    #[test]
    fn labels_belong_to_their_source() {
        let symbols = Symbols::parse(TEXT);
        assert_eq!(symbols.label("a.c", ".L13"), [0x1260]);
        assert_eq!(symbols.label("b.c", ".L13"), [0x1290]);
        assert!(symbols.label("b.c", ".L1").is_empty());
        assert_eq!(symbols.labels().count(), 2);
        assert_eq!(
            symbols.functions,
            [FunctionSymbol { name: "g.cold".to_owned(), address: 0x1280, size: 32 }]
        );
    }
}
