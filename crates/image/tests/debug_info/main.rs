//! Opening files, source lines and inlined calls, against what other tools say of the same files.

mod atomics;
mod damage;
mod lines;
mod loader;
mod programs;
mod sources;
mod supplement;
