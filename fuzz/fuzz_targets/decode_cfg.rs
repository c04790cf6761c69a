//! Any bytes as memory with a function in it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use relive_promises::decode_cfg;

fuzz_target!(|bytes: &[u8]| decode_cfg::check(bytes));
