//! Finds the procedures, data and basic blocks of one build in another: BMAT (Wang, Pierce, McFarling 2000) for
//! x86-64, and what goes beyond it. `docs/matching.md` tells the rules and what they were measured on.
//!
//! ```text
//! two modules ─ fingerprint ─▶ procedures and data ─▶ blocks within procedures ─▶ Matching
//! ```
//!
//! | module | does |
//! |---|---|
//! | [`fingerprint`] | what is compared: hashes of blocks at every level, references, neighbours |
//! | [`levels`] | the levels of fuzziness |
//! | [`identity`] | when two references are the same |
//! | [`procedures`], [`data`] | procedures and data |
//! | [`blocks`] | blocks |

pub mod blocks;
pub mod data;
pub mod fingerprint;
mod identity;
mod levels;
pub mod matching;
mod names;
mod pairing;
pub mod procedures;

pub use fingerprint::Fingerprint;
pub use matching::{BlockPair, BlockStage, Matching, Pair, match_builds};

pub(crate) static P: std::sync::LazyLock<Vec<f64>> = std::sync::LazyLock::new(|| {
    let mut p = vec![0.62, 0.45, 0.45, 0.5, 1.0, 0.5, 0.6, 0.6, 0.3, 2.0, 0.0];
    for (i, v) in std::env::var("MP").unwrap_or_default().split(',').enumerate() {
        if let Ok(v) = v.parse() {
            p[i] = v;
        }
    }
    p
});
