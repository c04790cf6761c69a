//! ProfMig (Zhou, Wu, Ding, Shen 2013): which entries of an old profile still hold, what to measure again, and both in one
//! profile. What changed and what that can affect is found out by `relive-impact`.
//!
//! | step | file |
//! |---|---|
//! | the knowledge base: how finely profiles of a behaviour can be taken apart | `behaviour` |
//! | the entries of a profile | `entries` |
//! | discrimination: entries that still hold | `discriminate` |
//! | what counting costs, by what an old profile says | `price` |
//! | the same by a run of the new build | `checked` |
//! | the file that says what to measure | `plan` |
//! | merging | `unite` |
//! | how good it is | `measures` |

pub mod behaviour;
pub mod checked;
pub mod discriminate;
pub mod entries;
pub mod measures;
pub mod plan;
pub mod price;
pub mod unite;
