//! What the formats of BOLT share.

pub(crate) mod blocks;
pub(crate) mod branches;
pub(crate) mod names;
