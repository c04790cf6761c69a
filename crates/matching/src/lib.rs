//! Finds the procedures, data and basic blocks of one build in another: BMAT (Wang, Pierce, McFarling 2000) for
//! x86-64, and what goes beyond it. `docs/matching.md` tells the rules and what they were measured on.
//!
//! ```text
//! two modules ─ fingerprint ─▶ procedures and data ─▶ blocks within procedures ─▶ across them ─▶ Matching
//! ```
//!
//! | module | does |
//! |---|---|
//! | [`fingerprint`] | what is compared: hashes of blocks at every level, references, neighbours |
//! | `levels` | the levels of fuzziness |
//! | `identity` | when two references are the same |
//! | [`procedures`], [`data`] | procedures and data |
//! | [`blocks`] | blocks |
//! | [`across`] | blocks that moved from one procedure to another |
//! | [`questions`] | what branches ask, wherever they are |

pub mod across;
pub mod blocks;
pub mod data;
pub mod fingerprint;
mod identity;
mod largest_first;
mod levels;
pub mod matching;
mod names;
mod pairing;
pub mod procedures;
pub mod questions;

pub use fingerprint::Fingerprint;
pub use matching::{BlockPair, BlockStage, Matching, Pair, match_builds};
