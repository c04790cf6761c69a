//! The `relive` command: arguments, messages, exit codes. What it does is in the libraries.

mod analyze;
mod annotate;
mod args;
mod bisect;
mod build;
mod cc;
mod command;
mod completions;
mod console;
mod constructs;
mod doctor;
mod dump;
mod evaluate;
mod exempt;
mod export;
mod functions;
mod import;
mod inspect;
mod instrument;
mod matching;
mod measured;
mod merge;
mod migrate;
mod output;
mod picture;
mod plan;
mod profiles;
mod progress;
mod remedy;
mod replay;
mod report;
mod reprofile;
mod run;
mod scratch;
mod sequence;
mod sources;
mod trace;
mod traced;

use clap::{CommandFactory as _, FromArgMatches as _};
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = cc::tool().or_else(cc::straight) {
        return code;
    }
    let colours = console::colour_choice(std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()));
    let matches = args::Cli::command().color(colours).get_matches();
    let args = args::Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    console::set(args.quiet, args.color);
    let result = match args.command {
        args::Command::Inspect(args) => inspect::run(&args),
        args::Command::Instrument(args) => instrument::run(&args),
        args::Command::Analyze(args) => analyze::run(&args),
        args::Command::Annotate(args) => annotate::run(&args),
        args::Command::Bisect(args) => bisect::run(&args),
        args::Command::Match(args) => matching::run(&args),
        args::Command::Merge(args) => merge::run(&args),
        args::Command::Migrate(args) => migrate::run(&args),
        args::Command::Constructs(args) => constructs::run(&args),
        args::Command::Completions(args) => completions::run(&args),
        args::Command::Man(args) => completions::man(&args),
        args::Command::Doctor(args) => doctor::run(&args),
        args::Command::Dump(args) => dump::run(&args),
        args::Command::Report(args) => report::run(&args),
        args::Command::Reprofile(args) => reprofile::run(&args),
        args::Command::Export(args) => export::run(&args),
        args::Command::Import(args) => import::run(&args),
        args::Command::Evaluate(args) => evaluate::run(&args),
        args::Command::Replay(args) => replay::run(&args),
        // Ends as the command ends.
        args::Command::Cc(args) => return cc::run(&args),
        args::Command::Run(args) => return run::run(&args),
        args::Command::Trace(args) => return trace::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            console::error(&error);
            ExitCode::from(if error.is::<output::Finding>() { 1 } else { 2 })
        }
    }
}
