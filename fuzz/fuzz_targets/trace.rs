//! Any bytes as a trace.
#![no_main]

use libfuzzer_sys::fuzz_target;
use relive_promises::trace;

fuzz_target!(|bytes: &[u8]| trace::check(bytes));
