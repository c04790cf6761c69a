//! Moves the functions of an ELF file into new code with counters in it.

pub mod assembler;
pub mod counting;
pub mod eh_frame;
pub mod emit;
pub mod frames;
