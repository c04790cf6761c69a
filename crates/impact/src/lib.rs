//! What changed from one build to the next, and what that can affect: the first half of ProfMig (Zhou, Wu, Ding, Shen 2013).
//! `docs/migrating.md` tells the rules.
//!
//! | module | does |
//! |---|---|
//! | [`constructs`] | what a program consists of, and what each part is called in every build |
//! | [`builds`] | two builds side by side |
//! | [`changes`] | blocks and data that are not what they were; `same` compares two blocks |
//! | [`analyses`] | what changes can affect: BA, AG, SL, hybrid; `calls` says who may call whom |
//! | [`slice`](mod@slice) | the forward slice that SL is |
//! | [`blocks`] | sets of basic blocks |

pub mod analyses;
pub mod blocks;
pub mod builds;
pub mod calls;
pub mod changes;
pub mod constructs;
pub mod idle;
mod same;
pub mod significance;
pub mod slice;

pub use analyses::{Affected, Analysis};
pub use blocks::Blocks;
pub use builds::Builds;
pub use changes::Changes;
