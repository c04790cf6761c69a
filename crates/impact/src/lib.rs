//! What changed from one build to the next, and what that can affect: the first half of ProfMig (Zhou, Wu, Ding, Shen 2013).
//! `docs/migrating.md` tells the rules.
//!
//! | module | does |
//! |---|---|
//! | [`blocks`] | sets of basic blocks |

pub mod blocks;

pub use blocks::Blocks;
