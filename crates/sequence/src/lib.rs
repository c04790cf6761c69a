//! Behaviours that come from traces, in a form that can be taken over to another build (ProfMig, §3 and §4): which functions are called
//! by which, in order and one in the other; how loads and stores move; how far apart touches of the same memory are.
//!
//! | module | does |
//! |---|---|
//! | [`model`] | the sequence of calls of a run |
//! | [`lists`] | calls in little room: what is repeated is there once |
//! | [`builder`] | makes a sequence out of calls and returns, all or those of some functions |
//! | [`file`](mod@file) | reads and writes `.rcalls` |
//! | [`map`](mod@map) | which functions and call sites of one build are which of another |
//! | [`merge`](mod@merge) | what a new run has measured, and the rest out of an old one |
//! | [`require`](mod@require) | which functions have to be measured anew for that |
//! | [`select`](mod@select) | leaves out of a whole sequence what a recording with exempt functions would not have |
//! | [`affected`](mod@affected) | which functions do other things than before, by what both builds did |
//! | [`tables`] | the same for what is told instruction by instruction |

pub mod affected;
pub mod builder;
pub mod file;
pub mod lists;
pub mod map;
pub mod merge;
pub mod model;
pub mod require;
pub mod select;
pub mod tables;

pub use affected::affected;
pub use builder::Builder;
pub use map::CallMap;
pub use merge::{MergeError, Origins, merge};
pub use model::{Body, Function, Item, Kind, Module, Origin, Sequence, Site, Thread};
pub use require::require;
