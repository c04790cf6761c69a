//! Any bytes as a profile.
#![no_main]

use libfuzzer_sys::fuzz_target;
use relive_promises::profile;

fuzz_target!(|bytes: &[u8]| profile::check(bytes));
