//! Names that just-in-time compilers leave for `perf`: `/tmp/perf-PID.map`, a line for each function with its address,
//! its length and its name.

use std::collections::BTreeMap;
use std::time::SystemTime;

/// The names of one process, in the order in which they were written.
#[derive(Default)]
pub(super) struct PerfMap {
    /// By start: the end, and the name. Code may have lain at the same place before.
    names: BTreeMap<u64, Vec<(u64, String)>>,
    longest: u64,
}

impl PerfMap {
    /// What a process has left, if it has since some time.
    pub(super) fn of(process: u32, since: SystemTime) -> Self {
        let path = format!("/tmp/perf-{process}.map");
        let changed = std::fs::metadata(&path).and_then(|data| data.modified());
        if !changed.is_ok_and(|changed| changed >= since) {
            return Self::default();
        }
        std::fs::read(path).map(|text| Self::parse(&String::from_utf8_lossy(&text))).unwrap_or_default()
    }

    fn parse(text: &str) -> Self {
        let mut map = Self::default();
        for line in text.lines() {
            let mut words = line.splitn(3, ' ');
            let mut hex = || u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok();
            let (Some(start), Some(len)) = (hex(), hex()) else { continue };
            let Some((name, end)) = words.next().zip(start.checked_add(len)) else { continue };
            map.names.entry(start).or_default().push((end, name.trim().to_string()));
            map.longest = map.longest.max(len);
        }
        map
    }

    /// What lies at an address: where it begins, and its name. The latest if there was more than one.
    pub(super) fn name(&self, at: u64) -> Option<(u64, &str)> {
        let lowest = at.saturating_sub(self.longest);
        self.names.range(lowest..=at).rev().find_map(|(&start, names)| {
            names.iter().rev().find(|(end, _)| at < *end).map(|(_, name)| (start, name.as_str()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_addresses() {
        let map = PerfMap::parse("1000 20 old\n1000 10 with space\nnonsense\n1040 8 b\n0xfff zz x\n");
        assert_eq!(map.name(0x100f), Some((0x1000, "with space")));
        assert_eq!(map.name(0x1010), Some((0x1000, "old")));
        assert_eq!(map.name(0x1020), None);
        assert_eq!(map.name(0x1047), Some((0x1040, "b")));
    }
}
