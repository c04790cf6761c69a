//! Carries a profile to another build.
//!
//! | module | does |
//! |---|---|
//! | [`evaluate`](mod@evaluate) | how good a carried profile is, by one that was measured |

pub mod evaluate;
