//! Traces: the whole control flow and every memory reference of a thread, packed.
//!
//! A traced thread leaves *records*. Each has a *tag*, the number of the exit by which a piece of code was
//! left, and the values of those address registers that cannot be computed from what is known already. Every
//! value belongs to a *slot*, the n-th such register of a piece of code; the tag says which slots a record
//! has. So a segment of a trace is two streams, either of which can be read without the other's bytes:
//!
//! | module | stream | is a sequence of |
//! |---|---|---|
//! | [`control`] | control flow | tags |
//! | [`values`] | memory | values, for slots that the reader knows |
//!
//! Only what does not follow from what came before is stored. Both start knowing nothing: a stream needs no other.
//! `examples/streams.rs` measures how small they get, and how long that takes, `examples/encodings.rs` how small other ways to write the
//! same down are.
//!
//! What records mean:
//!
//! | module | |
//! |---|---|
//! | [`units`] | the code that was executed |
//! | `operations` | what that does to registers and memory |
//! | `machine` | executes it |
//! | `references` | accesses to memory that are more than an address |
//! | [`layout`] | the processor's state in memory |
//! | [`replay`] | tells of everything a thread did |
//! | [`visit`] | who is told, and of what |
//!
//! How a trace is kept:
//!
//! | module | |
//! |---|---|
//! | [`recording`] | takes what threads write down and makes a file of it |
//! | `file` | that file |
//! | [`process`] | a process: its code, and where that came from |
//!
//! How bytes are laid out:
//!
//! | module | |
//! |---|---|
//! | `columns` | control flow as columns of bytes, each packed by itself |
//! | `runs` | how often what was foretold came true |
//! | `difference` | numbers that nothing foretold |
//! | `frames` | what zstd packed |

mod columns;
pub mod control;
mod difference;
pub mod error;
mod file;
mod frames;
pub mod layout;
mod local;
mod machine;
mod operations;
pub mod process;
pub mod recording;
mod references;
pub mod replay;
mod runs;
mod table;
pub mod units;
pub mod values;
pub mod visit;

pub use control::{ControlDecoder, ControlEncoder};
pub use error::StreamError;
pub use file::reader::{Trace, TraceError};
pub use file::written::Written;
pub use file::{About, Module, Segment};
pub use layout::Layout;
pub use recording::{Recording, Summary};
pub use values::{ValueDecoder, ValueEncoder};
