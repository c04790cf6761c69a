//! What changed from one source tree to the next, statement by statement: ProfMig's atomic changes (§4.3.1).
//!
//! Comments, layout and the order of definitions do not count. Definitions are paired by name, their statements
//! by an alignment of the syntax trees. What a changed macro, type, variable or constant means for functions that
//! mention it is reported too. The library opens no files: the caller fills two [`Tree`]s and calls [`compare`].
//!
//! ```
//! use relive_sources::{Kind, Tree, compare};
//! let (mut old, mut new) = (Tree::default(), Tree::default());
//! old.insert("a.c", b"int f(int x) {\n  x++;\n  return x;\n}\n".to_vec());
//! new.insert("a.c", b"int f(int x) {\n  x += 2; /* more */\n  return x;\n}\n".to_vec());
//! let changes = compare(&old, &new);
//! assert_eq!(changes.changes.len(), 1);
//! assert_eq!(changes.changes[0].kind, Kind::Changed);
//! assert_eq!(changes.changes[0].old.unwrap().first, 2);
//! ```
//!
//! `cargo run --release -p relive-sources --example compare -- OLD NEW` prints the changes between two directories
//! as tab-separated values: kind, what, name, old file, old first and last line, the same three of the new tree,
//! and what the change follows from.

mod align;
mod compare;
mod file;
mod grammar;
mod language;
mod lex;
mod mention;
mod model;
mod names;
mod pair;
mod preprocess;
mod reach;
mod scope;
mod signature;
mod standing;
mod structure;
mod tree;
mod walk;

pub use compare::compare;
pub use language::Language;
pub use model::{Cause, Change, Changes, FileId, Kind, Place, Span, Statements, What};
pub use standing::Standing;
pub use tree::Tree;
