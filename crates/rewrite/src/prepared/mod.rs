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
//! Its sections go by the names that x86-64 has for large data. GNU ld puts what is called so behind all other
//! sections, whatever it is, and lld can be told to by a script, which puts them behind `.bss`: hence an empty one. Under names of its
//! own, code would lie between the program's code and its data, and move them apart. gold does just that: it goes by
//! the flag of large data, and fails on that in many programs (internal errors with `-z now`, or where there is no other data).
//!
//! Two program headers and the note lie before everything else, which they would move by a number of bytes that
//! no alignment goes along with. So the note can be made as long as the rest of a page.

mod linked;
mod object;
mod parts;

pub use linked::{Linked, Unusable};
pub use object::object_file;
