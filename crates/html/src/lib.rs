//! Pages that need nothing beside themselves: one file with everything in it, to look at in a browser.
//!
//! This crate knows how a page is put together, not what is in it: whoever has results turns them into JSON and picks
//! the [`Kind`] of page that shows it. Scripts and styles are files in `assets`, in plain JavaScript and CSS; they show
//! what they are given and compute nothing.
//!
//! | module | does |
//! |---|---|
//! | [`page`] | the page: its head, styles, data and scripts |
//! | [`json`] | JSON that cannot end the element it stands in, and whose numbers survive JavaScript |
//! | [`packs`] | what is only looked at when asked for: compressed, many small packs |
//!
//! Names, paths and source are the input of strangers. They reach the page only as JSON in an element that is never
//! executed, or compressed; scripts put them into the page as text, never as markup; and the page forbids itself to load anything.

pub mod json;
pub mod packs;
pub mod page;

pub use packs::Packs;
pub use page::{Kind, Page};
