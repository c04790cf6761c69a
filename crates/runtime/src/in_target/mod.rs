//! What runs inside a measured program: no standard library, no libc, no relocations, no panics.
//!
//! * [`entry`]: the four ways in, in assembly
//! * [`start`]: what happens once per module and process
//! * [`file`], [`slot`], [`area`]: the profile, a part of it for one thread, and where that is mapped
//! * [`registry`], [`threads`]: what all measured modules of a process must agree on
//! * [`calls`], [`ways`]: targets of indirect calls, and how code goes there

#![allow(unsafe_code)]
#![warn(clippy::undocumented_unsafe_blocks)]
#![cfg_attr(not(relive_in_target), allow(dead_code, unreachable_pub))]

/// Begins a function in assembly.
#[cfg(relive_in_target)]
macro_rules! function {
    ($name:literal) => {
        concat!(
            ".globl ",
            $name,
            "\n.hidden ",
            $name,
            "\n.type ",
            $name,
            ", @function\n",
            ".p2align 4\n",
            $name,
            ":\n.cfi_startproc"
        )
    };
}

/// Ends it.
#[cfg(relive_in_target)]
macro_rules! end {
    ($name:literal) => {
        concat!(".cfi_endproc\n.size ", $name, ", . - ", $name)
    };
}

mod area;
mod cache;
mod calls;
mod entry;
mod environment;
mod facts;
mod file;
mod foreign;
mod fork;
mod heap;
mod link_map;
mod merge;
mod message;
mod pattern;
mod registry;
mod slot;
mod start;
mod state;
mod table;
mod text;
mod threads;
mod ways;

pub(crate) use relive_abi::kernel as syscall;
