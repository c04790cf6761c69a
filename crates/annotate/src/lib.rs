//! Has compilers describe their own code: the producer of section `.annotate`, behind `relive cc`.
//!
//! The compiler is asked to say more than it usually does (`gcc -dA`, `clang -fbasic-block-address-map`). What gcc says is in
//! the text that it hands to the assembler: module [`text`] reads it there and has the assembler put it into the object file,
//! as raw [`facts`]. What clang says is in its object file already.

mod again;
pub mod assembler;
pub mod binary;
mod clang;
pub mod command;
pub mod driver;
pub mod facts;
mod gold;
mod layout;
pub mod linked_file;
pub mod linker;
pub mod object;
pub mod object_file;
pub mod placed;
pub mod said;
mod section_symbols;
pub mod text;
