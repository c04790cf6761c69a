//! What to measure, and where: which edges and blocks of a function get a counter so that the fewest and
//! cheapest of them say how often every other one was taken.
//!
//! Nothing here knows how a counter is implemented; [`placement::Plan`] is for a backend to carry out.

pub mod describe;
pub mod frequency;
pub mod generated;
pub mod graph;
pub mod observed;
pub mod placement;
pub mod steady;
pub mod survey;
pub mod weights;
