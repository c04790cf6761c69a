//! Targets of indirect calls.

/// Counts a call whose target is not the usual one of its site.
pub(crate) extern "C" fn call(_site: u32, _target: u64) {}
