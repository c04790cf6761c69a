//! Compiles fixtures and reads oracles for the tests.

pub mod compile;
pub mod states;
pub mod steps;
pub mod terminal;
