//! Traces.
mod columns;
pub mod control;
mod difference;
pub mod error;
mod runs;
pub mod values;

pub use control::{ControlDecoder, ControlEncoder};
pub use error::StreamError;
pub use values::{ValueDecoder, ValueEncoder};
