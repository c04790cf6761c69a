//! Carries a profile to another build.
//!
//! | module | does |
//! |---|---|
//! | [`carry`](mod@carry) | takes the counts of an old build over to what matches in a new one |
//! | [`estimate`](mod@estimate) | what to assume where nobody knows anything |
//! | [`balance`](mod@balance) | counts that add up, as near as can be to ones that do not |
//! | [`reprofile`] | decides which entries still hold, what to measure again, and merges (ProfMig) |
//! | [`evaluate`](mod@evaluate) | how good a carried profile is, by one that was measured |

pub mod balance;
pub mod carry;
pub mod estimate;
pub mod evaluate;
pub mod reprofile;
