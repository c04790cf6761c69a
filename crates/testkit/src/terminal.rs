//! Programs that behave differently on a terminal.

use crate::compile::{Compiled, compile};
use std::process::{Command, Output};

/// Runs programs on a terminal. It is a small C program, for the same reason as [`crate::steps::Stepper`].
#[derive(Debug)]
pub struct Terminal {
    program: Compiled,
}

impl Default for Terminal {
    fn default() -> Self {
        Self { program: compile("gcc", &["-O1"], ("terminal.c", include_str!("terminal.c"))) }
    }
}

impl Terminal {
    /// Runs a command; everything it showed is in `stdout`.
    ///
    /// # Panics
    ///
    /// If there are no terminals here.
    #[must_use]
    pub fn run(&self, program: &str, args: &[&str]) -> Output {
        let mut command = Command::new(&*self.program);
        let output = command.env("TERM", "xterm").arg(program).args(args).output().expect("it starts");
        assert!(output.status.code() != Some(125), "{}", String::from_utf8_lossy(&output.stderr));
        output
    }
}
