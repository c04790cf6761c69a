//! Carries a profile to another build.
//!
//! | module | does |
//! |---|---|
//! | [`balance`](mod@balance) | counts that add up, as near as can be to ones that do not |
//! | [`estimate`](mod@estimate) | what to assume where nobody knows anything |

pub mod balance;
pub mod estimate;
