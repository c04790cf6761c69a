//! Any bytes as a section `.annotate`, and as the program it describes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use relive_promises::annotations;

fuzz_target!(|bytes: &[u8]| annotations::check(bytes));
