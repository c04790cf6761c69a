//! The `relive` command.
fn main() {}
