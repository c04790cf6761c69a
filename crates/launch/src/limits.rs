//! Limits that are meant for the command, not for this process: of addresses, data, and open files.

const WHICH: [libc::__rlimit_resource_t; 3] = [libc::RLIMIT_AS, libc::RLIMIT_DATA, libc::RLIMIT_NOFILE];

/// What they were.
pub(crate) struct Limits([libc::rlimit; 3]);

impl Limits {
    /// Raises them for this process as far as it may.
    pub(crate) fn raise() -> Self {
        let found = WHICH.map(|which| {
            let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: one structure each.
            unsafe {
                libc::getrlimit(which, &raw mut limit);
                // More than there is to be had of open files is refused.
                let most = if which == libc::RLIMIT_NOFILE { 1 << 16 } else { libc::RLIM_INFINITY };
                let all = libc::rlimit { rlim_cur: most, rlim_max: limit.rlim_max.max(most) };
                let own = libc::rlimit { rlim_cur: limit.rlim_max, rlim_max: limit.rlim_max };
                if limit.rlim_cur < most && libc::setrlimit(which, &raw const all) < 0 {
                    libc::setrlimit(which, &raw const own);
                }
            }
            limit
        });
        Self(found)
    }

    /// Puts them back, in the process that will be the command.
    pub(crate) fn restore(&self) {
        for (which, limit) in WHICH.iter().zip(&self.0) {
            // SAFETY: one structure.
            unsafe { libc::setrlimit(*which, limit) };
        }
    }
}
