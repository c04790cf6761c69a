//! Programs that were rewritten: they behave as before, and count exactly what they do.
//!
//! Every program is rewritten with traps in its old code, so that whatever escapes the rewriting is noticed.
//! What they should count is known from an oracle that shares nothing with the rewriter: the source, which
//! prints what it expects (`programs/expect.h`), or a run one instruction at a time.

mod behaviour;
mod files;
mod kit;
mod prepared;
mod processes;
mod random;
mod steps;
