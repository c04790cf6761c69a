//! Measures how right and how fast relive is.
//!
//! Nothing here links any crate of relive: the truth comes from compilers, `llvm-objdump`, `llvm-readobj` and
//! valgrind (`oracle`, `truth`), the answer from the text that the `relive` binary prints (`relive`), and `compare`
//! sets one against the other. Each subcommand is one file.
//!
//! Exit status: 0 nothing wrong, 1 at least one violation, 2 the measurement itself failed.

// A function is a list of ranges, mostly of one.
#![allow(clippy::single_range_in_vec_init)]

mod accuracy;
mod behave;
mod bolt_loop;
mod breadth;
mod carry;
mod compare;
mod corpus;
mod dump;
mod encodings;
mod exact;
mod lackey;
mod long;
mod match_speed;
mod oracle;
mod overhead;
mod pairs;
mod precision;
mod process;
mod profiles;
mod profmig;
mod races;
mod relive;
mod speed;
mod stale_bolt;
mod startup;
mod table;
mod torture;
mod traces;
mod truth;
mod workload;
mod world;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(about = "Measures how right and how fast relive is, against truth that shares no code with it")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Blocks and edges against clang's own block map and jump tables
    AccuracyClang(accuracy::Options),
    /// Blocks and edges against gcc's labels and jump tables, and against executed jumps
    AccuracyGcc(accuracy::Options),
    /// Blocks and edges against executed jumps only (any compiler: the Rust program)
    AccuracyRun(accuracy::Options),
    /// Every executable of this machine, rewritten: does it still answer `--version` and `--help` as before
    Behave(behave::Options),
    /// New versions optimised by profiles of old ones: how much of the gain by a fresh profile is left
    BoltLoop(bolt_loop::Options),
    /// Every executable and library of this machine: crashes, hangs, and how much is understood
    Breadth(breadth::Options),
    /// Profiles carried to the next version against fresh ones of it
    Carry(carry::Options),
    /// Counts of rewritten corpus programs against callgrind's, block by block
    Exact(exact::Options),
    /// What tracing costs, how small traces are, and how fast they are replayed
    Traces(traces::Options),
    /// Traces against those of Valgrind's lackey, instruction by instruction
    Lackey(lackey::Options),
    /// How small traces are, written down in other ways: as in the paper on DEP, and as lackey does
    Encodings(encodings::Options),
    /// Recordings that take long: is the memory of relive bounded, and the trace whole?
    Long(long::Options),
    /// Time and memory of matching two builds, both stripped
    MatchSpeed(match_speed::Options),
    /// Processor time of programs that count, against the same without, and against peers
    Overhead(overhead::Options),
    /// What running under the engine costs, with and without counting
    Engine(overhead::engine::Options),
    /// Runs a program and notes its processor time: what `overhead` puts before programs
    #[command(hide = true)]
    TimeChild(overhead::TimeOptions),
    /// Matched blocks: are they the same statement of the source, by the debug information?
    Precision(precision::Options),
    /// Profiles of a new release by those of the old one: how right, and how much time is saved
    Profmig(profmig::Options),
    /// Races that relive, helgrind and DRD find, and those they make up
    Races(races::Options),
    /// Time and memory against `objdump -d`
    Speed(speed::Options),
    /// Profiles carried by relive and by BOLT's stale matching, against fresh ones
    StaleBolt(stale_bolt::Options),
    /// What short programs cost under the engine
    Startup(startup::Options),
    /// Large programs at work under the engine: do they behave as without it?
    World(world::Options),
    /// Programs that make it hard for the engine, run many times: do they behave, and do they end
    Torture(torture::Options),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::AccuracyClang(options) => accuracy::clang(&options),
        Command::AccuracyGcc(options) => accuracy::gcc(&options),
        Command::AccuracyRun(options) => accuracy::executed(&options),
        Command::Behave(options) => behave::run(&options),
        Command::BoltLoop(options) => bolt_loop::run(&options),
        Command::Breadth(options) => breadth::run(&options),
        Command::Carry(options) => carry::run(&options),
        Command::Exact(options) => exact::run(&options),
        Command::Traces(options) => traces::run(&options),
        Command::Lackey(options) => lackey::run(&options),
        Command::Encodings(options) => encodings::run(&options),
        Command::Long(options) => long::run(&options),
        Command::MatchSpeed(options) => match_speed::run(&options),
        Command::Overhead(options) => overhead::run(&options),
        Command::Engine(options) => overhead::engine::run(&options),
        Command::TimeChild(options) => {
            return overhead::time_child(&options).map_or_else(
                |error| {
                    eprintln!("error: {error:#}");
                    ExitCode::from(125)
                },
                |status| ExitCode::from(u8::try_from(status).unwrap_or(128)),
            );
        }
        Command::Precision(options) => precision::run(&options),
        Command::Profmig(options) => profmig::run(&options),
        Command::Races(options) => races::run(&options),
        Command::Speed(options) => speed::run(&options),
        Command::StaleBolt(options) => stale_bolt::run(&options),
        Command::Startup(options) => startup::run(&options),
        Command::World(options) => world::run(&options),
        Command::Torture(options) => torture::run(&options),
    };
    match outcome {
        Ok(violations) => ExitCode::from(u8::from(violations > 0)),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}
