//! The code that the rewriter puts into a program, linked and ready to be copied.
//!
//! [`IMAGE`] is a static position-independent ELF file without relocations. Its loadable segments may be
//! copied anywhere, as long as their distances stay the same. Its symbol table names
//! `relive_parameters` (to be filled in: [`relive_abi::parameters::Parameters`]), and the code
//! `relive_start`, `relive_init`, `relive_enter` and `relive_call` (see `src/in_target/entry.rs` for what
//! each expects and keeps).

/// The linked runtime, an ELF file with its symbol table.
pub const IMAGE: &[u8] = include_bytes!(env!("RELIVE_RUNTIME_IMAGE"));

// Never part of this library: built by build.rs for the inside of other programs. Here only so that its
// pure parts are tested, and all of it is linted.
#[cfg(any(test, clippy))]
mod in_target;
