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
//! sections, whatever it is, so the code of the program and every distance in it stay as they are.
//! Under names of its own, code would lie between the program's code and its data, and move them apart.
//! (The flag that goes with the names is left out: gold fails on it where there is no other data.) gold and lld
//! go by flags, and have no gap in front of the code that one more header would fit in: distances
//! change there, but nothing else.

mod linked;
mod object;
mod parts;

pub use linked::{Linked, Unusable};
pub use object::object_file;
