//! `relive cc`: a compiler whose output describes itself.

use anyhow::Result;
use relive_annotate::driver::{self, Called};
use relive_annotate::{assembler, linker};
use relive_rewrite::prepared;
use std::ffi::OsString;
use std::process::ExitCode;

const EXAMPLES: &str = "\
EXAMPLES:
  relive cc -- gcc -O2 -c a.c
      a.o as gcc makes it, and section .annotate that tells of its functions, blocks and jump tables
  make CC=\"relive cc -- gcc\" CXX=\"relive cc -- g++\"
  ./configure CC=\"relive cc -- gcc\" && make
  cmake -DCMAKE_C_COMPILER_LAUNCHER=\"relive;cc;--\" -DCMAKE_C_LINKER_LAUNCHER=\"relive;cc;--\" ..

Everything behind `--` is the compiler's. It makes the same code, byte for byte, as without relive.
Programs and libraries are also linked with the runtime, which lies unused until `relive instrument`.
Linked code is the same, too; by gold, or where you say where things are to lie (-T, -Ttext), --no-runtime keeps it so.
`relive inspect` shows what annotations tell; the section is described in docs/annotate-format.md.

Exit status: the compiler's; 2 if there is no such compiler.";

/// Arguments of `relive cc`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Do not link the runtime into programs and libraries; `relive instrument` then adds it
    #[arg(long)]
    no_runtime: bool,

    /// The compiler (gcc, g++, clang, clang++, or any other of these two kinds) and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMPILER")]
    command: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    work_alone();
    end(driver::run(&args.command, !args.no_runtime).map_err(Into::into))
}

/// What `relive cc -- gcc …` asks for, without looking at what else there is: describing all commands to tell which one it is
/// takes longer than starting the process, and compilers of short files do not take much longer than that. Whatever is
/// written otherwise is for the usual way, help and mistakes included.
pub(crate) fn straight() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    if args.next()? != "cc" {
        return None;
    }
    let mut args = args.peekable();
    let no_runtime = args.next_if(|arg| arg == "--no-runtime").is_some();
    if args.next()? != "--" || args.peek().is_none() {
        return None;
    }
    Some(run(&Args { no_runtime, command: args.collect() }))
}

/// Threads do no good here: there are as many of us as the build wants at once.
fn work_alone() {
    let alone = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread();
    // Whoever made threads before goes on with them.
    let _ = alone.build_global();
}

/// Does what a compiler wants of its assembler or linker, if that is what this process was started for.
pub(crate) fn tool() -> Option<ExitCode> {
    let mut args = std::env::args_os();
    let called = Called::by(&args.next()?)?;
    work_alone();
    let args: Vec<OsString> = args.collect();
    let result = match called.name.as_str() {
        "as" => assembler::run(&called, &args),
        _ => linker::run(&called, &args, &|note| {
            prepared::object_file(relive_runtime::IMAGE, note).map_err(std::io::Error::other)
        }),
    };
    Some(end(result.map_err(|why| anyhow::anyhow!("cannot run the real `{}`: {why}", called.name))))
}

fn end(result: Result<i32>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
        Err(error) => {
            eprintln!("relive cc: {error:#}");
            ExitCode::from(2)
        }
    }
}
