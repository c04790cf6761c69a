//! What machine code means: decoding, control flow, and what follows from it by data flow.
//!
//! Nothing here knows of files or ELF: bytes come through [`source::CodeSource`], so that the same
//! analyses serve a file on disk and memory inside a running process.
#![no_std]

extern crate alloc;

pub mod addr;
pub mod cfg;
mod constants;
pub mod dominators;
pub mod graph;
pub mod isa;
pub mod jump_table;
pub mod liveness;
pub mod loops;
pub mod source;
pub mod stack_height;
#[cfg(test)]
pub(crate) mod testing;
mod values;
pub mod verify;
