//! The runtime inside programs: C code counts as rewritten code would, and the profiles must be right.

#![allow(unreachable_pub, dead_code)]

mod calls;
mod failures;
mod forks;
mod harness;
mod libraries;
mod runs;
mod threads;
