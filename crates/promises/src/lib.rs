//! What holds for any input, however hostile.
//!
//! One `check` per kind of input, which panics where a promise is broken. The fuzzers in `fuzz/` and
//! the tests of this crate call the same: the fuzzers for as long as one lets them, the tests for a
//! fixed number of cases from a fixed seed.
//!
//! | check | input |
//! |---|---|
//! | [`elf_facts::check`] | a file, as `relive inspect` gets it |
//! | [`decode_cfg::check`] | memory, and claims about the function in it |
//! | [`profile::check`] | a profile, as `relive report` gets it |
//! | [`trace::check`] | a trace, as `relive replay` gets it |
//! | [`annotations::check`] | a section `.annotate`, and the code it describes |

pub mod annotations;
pub mod decode_cfg;
pub mod dice;
pub mod elf_facts;
pub mod mutate;
pub mod profile;
pub mod profiles;
pub mod seeds;
mod stopwatch;
pub mod trace;
pub mod traces;
