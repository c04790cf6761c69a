//! Traces.
mod columns;
pub mod control;
mod difference;
pub mod error;
pub mod replay;
mod runs;
pub mod units;
pub mod values;

pub use control::{ControlDecoder, ControlEncoder};
pub use error::StreamError;
pub use values::{ValueDecoder, ValueEncoder};
