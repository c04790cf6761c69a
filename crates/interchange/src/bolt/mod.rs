//! What the formats of BOLT share.

pub(crate) mod branches;
pub(crate) mod names;
