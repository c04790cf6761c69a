//! Carries a profile to another build.
//!
//! | module | does |
//! |---|---|
//! | [`carry`](mod@carry) | takes the counts of an old build over to what matches in a new one |
//! | [`balance`](mod@balance) | counts that add up, as near as can be to ones that do not |
//! | [`evaluate`](mod@evaluate) | how good a carried profile is, by one that was measured |

pub mod balance;
pub mod carry;
pub mod evaluate;
