//! What changed from one build to the next, and what that can affect: the first half of ProfMig (Zhou, Wu, Ding, Shen 2013).
//! `docs/migrating.md` tells the rules.
//!
//! | module | does |
//! |---|---|
//! | [`blocks`] | sets of basic blocks |
//! | [`slice`] | what may be affected: the forward slice |

pub mod blocks;
pub mod slice;

pub use blocks::Blocks;
