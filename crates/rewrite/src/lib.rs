//! Moves the functions of an ELF file into new code with counters in it.
//!
//! The old bytes stay where they are, but for a jump at each entry: data never moves, function pointers
//! keep their value, and code that was not understood runs as before. [`module::Rewriter`] does the whole;
//! [`emit`] writes one function.

pub mod assembler;
pub mod callers;
pub mod counting;
pub mod detour;
pub mod eh_frame;
pub mod elf_file;
pub mod emit;
mod flat;
pub mod frames;
pub mod module;
pub mod prepared;
pub mod promote;
pub mod redirect;
pub mod runtime;
pub mod select;
mod start;
pub mod tight;
pub mod verify;
