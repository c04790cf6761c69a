//! BOLT's `fdata`: what `perf2bolt` writes, and `llvm-bolt -instrument`ed programs.
//!
//! The format is that of [`crate::export`]'s file of the same name. Lines of memory accesses (they begin with 3, 4 or 5) are left
//! out: a profile counts what ran.

use super::sampled::Sampled;
use super::{Evidence, Importer};
use crate::bolt::names::Names;
use crate::error::ImportError;
use crate::surroundings::Surroundings;
use relive_profile::model::Module;

/// The format.
pub(super) struct BoltFdata;

impl Importer for BoltFdata {
    fn name(&self) -> &'static str {
        "bolt-fdata"
    }

    fn about(&self) -> &'static str {
        "branches as perf2bolt and programs instrumented by BOLT write them"
    }

    fn recognises(&self, start: &str) -> bool {
        start.starts_with("no_lbr")
            || start.starts_with("boltedcollection")
            || start.lines().next().is_some_and(|line| Line::parse(line, 1).is_ok())
    }

    fn read(&self, text: &str, module: &Module, around: &dyn Surroundings) -> Result<Evidence, ImportError> {
        let names = super::names(module, around)?;
        let (mut sampled, mut notes) = (Sampled::default(), Vec::new());
        let mut strangers = 0u64;
        for (line, number) in text.lines().zip(1..) {
            if number == 1 && line.starts_with("no_lbr") {
                let what = "samples without branch stacks (no_lbr) do not tell which way control took";
                return Err(ImportError::line(1, what));
            }
            if line == "boltedcollection" && number <= 2 {
                let what = "collected on a file that BOLT had laid out: offsets are not those of this binary; \
                            have perf2bolt write addresses of the original";
                return Err(ImportError::line(number, what));
            }
            if line.is_empty() || line.starts_with(['3', '4', '5']) {
                continue;
            }
            let line = Line::parse(line, number)?;
            let (from, to) = (line.from.address(&names), line.to.address(&names));
            let known = |end: &End<'_>, address: Option<u64>| !end.is_symbol || address.is_some();
            if !known(&line.from, from) || !known(&line.to, to) {
                strangers += 1;
            }
            if let Some(to) = to {
                sampled.branch(from, to, line.count);
            }
        }
        if strangers > 0 {
            notes.push(format!("{strangers} branches are in functions that the binary does not have"));
        }
        super::not_nothing(sampled, notes, module)
    }
}

/// One branch.
struct Line<'t> {
    from: End<'t>,
    to: End<'t>,
    count: u64,
}

struct End<'t> {
    is_symbol: bool,
    name: &'t str,
    offset: u64,
}

impl End<'_> {
    fn address(&self, names: &Names) -> Option<u64> {
        names.address(self.name).filter(|_| self.is_symbol)?.checked_add(self.offset)
    }
}

impl<'t> Line<'t> {
    fn parse(line: &'t str, number: usize) -> Result<Self, ImportError> {
        let wrong = |what: &str| ImportError::line(number, what);
        let mut fields = Fields(line);
        let mut end = || {
            let is_symbol = match fields.next() {
                Some("0") => false,
                Some("1" | "2") => true,
                _ => return Err(wrong("a branch begins with 0, 1 or 2, a name and an offset")),
            };
            let name = fields.next().ok_or_else(|| wrong("the name of a function is missing"))?;
            let offset = fields.next().and_then(|field| u64::from_str_radix(field, 16).ok());
            let offset = offset.ok_or_else(|| wrong("an offset is not a hexadecimal number"))?;
            Ok(End { is_symbol, name, offset })
        };
        let (from, to) = (end()?, end()?);
        let mut count = || {
            fields.next().and_then(|field| field.parse().ok()).ok_or_else(|| wrong("a count is not a number"))
        };
        let (_mispredicted, count): (u64, u64) = (count()?, count()?);
        match fields.next() {
            None => Ok(Self { from, to, count }),
            Some(_) => Err(wrong("there is more behind the count")),
        }
    }
}

/// Fields between spaces; a space that belongs to a name follows a backslash.
struct Fields<'t>(&'t str);

impl<'t> Iterator for Fields<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        self.0 = self.0.trim_start_matches(' ');
        if self.0.is_empty() {
            return None;
        }
        let mut escaped = false;
        let end = self.0.find(|c| {
            let ends = c == ' ' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        let (field, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest;
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let line = Line::parse("1 operator\\ new/1 1f 0 [unknown] 0 2 17", 1).expect("a branch");
        assert_eq!((line.from.name, line.from.offset, line.count), ("operator\\ new/1", 0x1f, 17));
        assert!(line.from.is_symbol && !line.to.is_symbol);
        for bad in [
            "",
            "1 f",
            "1 f 0 1 g 0 1",
            "1 f xyz 1 g 0 0 1",
            "7 f 0 1 g 0 0 1",
            "1 f 0 1 g 0 0 1 2",
            "1 f 0 1 g 0 0 -1",
        ] {
            assert!(Line::parse(bad, 1).is_err(), "{bad}");
        }
    }
}
