//! The single-step oracle: what really ran, one instruction at a time.

use crate::compile::{Compiled, compile};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Executes programs step by step. It is a small C program, since watching another process takes system
/// calls this workspace has no safe way to.
#[derive(Debug)]
pub struct Stepper {
    program: Compiled,
}

impl Default for Stepper {
    fn default() -> Self {
        Self { program: compile("gcc", &["-O2"], ("stepper.c", include_str!("stepper.c"))) }
    }
}

/// What a program did.
#[derive(Debug)]
pub struct Steps {
    /// How often the instruction at each address, as linked, was executed.
    pub counts: BTreeMap<u64, u64>,
    /// Its exit status, or 128 and the signal that ended it.
    pub status: i32,
    /// What it printed.
    pub stdout: String,
}

impl Stepper {
    /// Runs `program` in `folder`. Only instructions of its own file are counted, from its entry on.
    ///
    /// # Panics
    ///
    /// If processes cannot be watched here.
    #[must_use]
    pub fn run(&self, folder: &Path, program: &Path, args: &[&str]) -> Steps {
        let list = folder.join("steps");
        let mut command = Command::new(&*self.program);
        command.current_dir(folder).arg(&list).arg(program).args(args);
        let output = command.output().expect("the stepper starts");
        let status = output.status.code().expect("the stepper ends by itself");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(status != 125, "{complaint}");
        let text = std::fs::read_to_string(&list).expect("a list of steps");
        let counts = text.lines().map(|line| {
            let (address, count) = line.split_once(' ').expect("two columns");
            (u64::from_str_radix(address, 16).expect("an address"), count.parse().expect("a count"))
        });
        Steps {
            counts: counts.collect(),
            status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        }
    }
}
