//! What the kernel tells about processes.

use libc::pid_t;
use std::fs;

/// A mapping: from where to where, and its name.
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) name: String,
}

/// The threads of a process that have not ended.
pub(crate) fn threads(pid: pid_t) -> Vec<pid_t> {
    let Ok(found) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let numbers = found.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|&tid| is_alive(pid, tid)).collect()
}

fn is_alive(pid: pid_t, tid: pid_t) -> bool {
    state(pid, tid).is_some_and(|state| !matches!(state, 'Z' | 'X' | 'x'))
}

/// Whether a thread does not wait for anything.
pub(crate) fn is_running(pid: pid_t, tid: pid_t) -> bool {
    state(pid, tid) == Some('R')
}

/// What a thread does, as a letter of the kernel.
fn state(pid: pid_t, tid: pid_t) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    // The name, in brackets, can be anything.
    stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next())
}

/// What it has mapped, as any of its threads sees it.
pub(crate) fn maps(pid: pid_t) -> Vec<Mapping> {
    let thread = threads(pid).first().copied().unwrap_or(pid);
    let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/maps")).unwrap_or_default();
    text.lines().filter_map(mapping).collect()
}

fn mapping(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let name = fields.nth(4).unwrap_or_default().trim().to_owned();
    Some(Mapping { start: number(start)?, end: number(end)?, name })
}

/// How many bytes of addresses, or of data, it may have; the largest number if that is not limited.
pub(crate) fn limit_of_addresses(pid: pid_t) -> u64 {
    let limit = |which| {
        let mut found = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: the kernel fills in one structure. If it does not want to, there is no limit.
        unsafe { libc::prlimit(pid, which, std::ptr::null(), &raw mut found) };
        found.rlim_cur
    };
    limit(libc::RLIMIT_AS).min(limit(libc::RLIMIT_DATA))
}

/// A line of its status.
pub(crate) fn status(pid: pid_t, field: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_this_process() {
        let me = std::process::id() as pid_t;
        assert!(threads(me).contains(&me));
        assert!(maps(me).iter().any(|m| m.name == "[stack]" && m.start < m.end));
        assert_eq!(status(me, "Pid"), Some(me.to_string()));
    }

    #[test]
    fn lines_of_maps() {
        let found =
            mapping("7f00-8000 rw-s 00000000 00:01 33    /memfd:relive (deleted)").expect("a mapping");
        assert_eq!(
            (found.start, found.end, found.name.as_str()),
            (0x7f00, 0x8000, "/memfd:relive (deleted)")
        );
        assert!(mapping("1000-2000 rw-p 00000000 00:00 0").expect("a mapping").name.is_empty());
    }
}
