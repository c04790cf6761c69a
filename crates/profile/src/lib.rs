//! Profiles: what was counted, on which code, and how much of it is measured or derived.
//!
//! A [`model::Profile`] stands alone: beside the counts it holds the shape of the code they belong to, so
//! it can be read, and matched to another build, when the binary is long gone. The file is described in
//! `docs/profile-format.md`.
//!
//! | module | does |
//! |---|---|
//! | [`callees`](mod@callees) | what calls led to |
//! | [`call_graph`](mod@call_graph) | who calls whom, and what calls cost with all that happens in them |
//! | [`call_tree`](mod@call_tree) | stacks that fit the calls |
//! | [`coverage`](mod@coverage) | which lines, functions and branches ran |
//! | [`model`] | functions, blocks, edges, loops, calls, and their counts |
//! | [`flow`] | what was not counted, from what was |
//! | [`file`](mod@file) | reads and writes `.rprof` |
//! | [`merge`](mod@merge) | adds profiles up |
//! | [`proto`] | the messages in the file, as `docs/profile.proto` has them |

pub mod call_graph;
pub mod call_tree;
pub mod callees;
mod columns;
pub mod coverage;
pub mod error;
pub mod file;
pub mod flow;
mod header;
pub mod merge;
pub mod model;
pub mod proto;
mod slots;
mod unite;

pub use error::{Damage, ProfileError};
