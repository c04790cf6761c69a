//! Any bytes as a file.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use relive_promises::dice::Dice;
use relive_promises::{elf_facts, mutate};

fuzz_target!(|bytes: &[u8]| elf_facts::check(bytes));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut dice = Dice::new(seed.into());
    // Blind changes find what nobody thought of.
    if dice.once_in(4) {
        return fuzzer_mutate(data, size, max_size);
    }
    let mut file = data[..size].to_vec();
    mutate::mutate(&mut file, max_size, &mut dice);
    data[..file.len()].copy_from_slice(&file);
    file.len()
});
