//! Prepared binaries: the runtime is linked in with the program, and does nothing until the program is rewritten.
//!
//! [`object_file`] makes the object to be linked in. All its symbols are local, so that every library of a
//! process can have its own. Nothing in the program refers to it and nothing in it runs: the routines
//! that start the runtime are hooked in by the rewriter, before everything else, as in any other
//! program, and there is none to be run at exit since counters live in the profile. A note
//! ([`relive_image::prepared`]) says where it is, and [`Linked`] finds it again. What is left to the rewriter is to
//! fill in the parameters: the flag, and where counters and profile are.
//!
//! # Where linkers put it
//!
//! Its sections go by the names that x86-64 has for large data, which does not lie between other
//! sections but behind all of them: the code of the program and the distances in it stay as they are. GNU ld sees
//! to that by the names; gold and lld too make room for a few more headers in front, so distances change
//! there, but nothing else. Code in `.lrodata` is unusual, but names mean little to linkers and nothing to loaders.

mod linked;
mod object;
mod parts;

pub use linked::{Linked, Unusable};
pub use object::object_file;
