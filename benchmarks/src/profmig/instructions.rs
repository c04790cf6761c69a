//! The same costs in instructions, which no machine decides: how many the program, everything it starts and relive itself execute in user
//! mode. `relive run` counts them, block by block; where it does not see all of a rewritten program, callgrind does. Other programs may run
//! meanwhile.

use super::bench::{ALL, Bench, SHORTEST, full, rest};
use super::kept::{self, Costs};
use super::{BEHAVIOURS, OURS};
use crate::process::output_of;
use anyhow::{Context as _, Result, ensure};
use std::path::Path;
use std::process::Command;

/// What `relive run` does not understand of a rewritten program, it does not count: computed jumps of interpreters, for one. Then a program that
/// counts more executes less, and nothing follows from any of it.
fn are_complete(costs: &Costs) -> bool {
    let [native, loops, calls] =
        ["native", "full loops", "full call-graph"].map(|what| costs.get(what).unwrap_or_default());
    // Two runs of the same differ by far less, most of all in the shell.
    let little = (loops - native) / 50.0;
    native <= loops && loops <= calls + little
}

/// Who counts what a program executes.
#[derive(Clone, Copy, PartialEq)]
enum Counter {
    /// `relive run`: the program and everything around it.
    Relive,
    /// valgrind: the program alone, twenty times slower than natively.
    Callgrind,
}

impl Counter {
    /// Where its counts are kept.
    fn file(self) -> &'static str {
        match self {
            Self::Relive => "instructions.json",
            Self::Callgrind => "callgrind.json",
        }
    }
}

impl Bench {
    /// What is not known yet is counted, each once.
    pub(crate) fn instructions(&self, methods: &[String]) -> Result<Costs> {
        let costs = self.counted(Counter::Relive, &[])?;
        if are_complete(&costs) {
            return self.counted(Counter::Relive, methods);
        }
        self.counted(Counter::Callgrind, methods)
    }

    fn counted(&self, by: Counter, methods: &[String]) -> Result<Costs> {
        let path = self.file(by.file());
        let mut costs: Costs = kept::or_make(&path, || Ok(Costs::default()))?;
        let mut know = |what: String, count: &dyn Fn() -> Result<f64>| -> Result<()> {
            if costs.get(&what).is_none() {
                costs.take(&what, count()?);
                kept::write(&path, &costs)?;
            }
            Ok(())
        };
        know("native".to_owned(), &|| self.counted_by(by, &self.new, ALL))?;
        for (behaviour, _) in BEHAVIOURS {
            let program = self.file(&full(behaviour));
            know(format!("instrument {behaviour}"), &|| {
                self.executed(&self.rewriting(behaviour, &self.file("rewritten")))
            })?;
            know(format!("full {behaviour}"), &|| self.counted_by(by, &program, ALL))?;
            for method in methods {
                let program = self.file(&rest(method, behaviour));
                if program.exists() {
                    know(format!("own {method} {behaviour}"), &|| {
                        self.executed_by_relive(by, method, behaviour)
                    })?;
                    know(format!("rest {method} {behaviour}"), &|| self.counted_by(by, &program, ALL))?;
                }
            }
        }
        Ok(costs)
    }

    fn counted_by(&self, by: Counter, program: &Path, inputs: &str) -> Result<f64> {
        match by {
            Counter::Relive => self.executed_by(program, inputs),
            Counter::Callgrind => self.executed_under_valgrind(program, inputs),
        }
    }

    /// A program on some inputs, alone: what each of its processes executed stands in a file of its own.
    fn executed_under_valgrind(&self, program: &Path, inputs: &str) -> Result<f64> {
        let folder = tempfile::tempdir_in(self.file("tmp"))?;
        let mut command = self.running(program, inputs);
        // setarch comes first; what it executes until it becomes the program is not written down.
        let runner = format!(
            "valgrind --tool=callgrind --trace-children=yes --callgrind-out-file={}",
            folder.path().join("%p").display()
        );
        self.time(command.env("RUNNER", runner))?;
        let mut sum = 0.0;
        for file in std::fs::read_dir(folder.path())? {
            let text = String::from_utf8_lossy(&std::fs::read(file?.path())?).into_owned();
            sum += total(&text).context("callgrind tells of no instructions")?;
        }
        ensure!(sum > 0.0, "nothing ran under valgrind: is it installed?");
        Ok(sum)
    }

    /// A program on some inputs.
    pub(crate) fn executed_by(&self, program: &Path, inputs: &str) -> Result<f64> {
        self.executed(&self.running(program, inputs))
    }

    /// What `relive reprofile` itself executes. A checked run counts as if the program were measured in full in it: that is the most it can be.
    fn executed_by_relive(&self, by: Counter, method: &str, behaviour: &str) -> Result<f64> {
        let [plan, merged, program] = ["own.json", "own.rprof", "own"].map(|name| self.file(name));
        let command = self.reprofile(method, behaviour, SHORTEST, [&plan, &merged, &program]);
        let own = self.executed_with(&command, &["--follow-children=no"])?;
        let checked = match method {
            OURS => self.counted_by(by, &self.file(&full(behaviour)), SHORTEST)?,
            _ => 0.0,
        };
        Ok(own + checked)
    }

    /// What a command and all it starts execute.
    fn executed(&self, command: &Command) -> Result<f64> {
        self.executed_with(command, &[])
    }

    fn executed_with(&self, command: &Command, options: &[&str]) -> Result<f64> {
        let counted = self.file("counted.rprof");
        let mut run = Command::new(&self.relive);
        run.arg("run").args(options).arg("-o").arg(&counted).arg("--");
        run.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => run.env(name, value),
                None => run.env_remove(name),
            };
        }
        self.time(&mut run)?;
        let mut report = Command::new(&self.relive);
        let told = output_of(report.args(["report", "--json"]).arg(&counted))?;
        let told: serde_json::Value = serde_json::from_str(&told)?;
        told["instructions"].as_f64().context("relive report --json tells of no instructions")
    }
}

/// What a file of callgrind says was executed in all.
fn total(text: &str) -> Option<f64> {
    let mut said =
        text.lines().filter_map(|line| line.strip_prefix("totals: ").or(line.strip_prefix("summary: ")));
    said.next_back()?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callgrind_tells_a_total() {
        assert_eq!(total("version: 1\nsummary: 12\nfn=(1)\n1 2\ntotals: 12\n"), Some(12.0));
        assert_eq!(total("version: 1\n"), None);
    }

    #[test]
    fn what_counts_more_executes_more() {
        let costs = |loops: f64, calls: f64| {
            let mut costs = Costs::default();
            for (what, cost) in [("native", 100.0), ("full loops", loops), ("full call-graph", calls)] {
                costs.take(what, cost);
            }
            costs
        };
        assert!(are_complete(&costs(106.0, 107.0)));
        assert!(are_complete(&costs(106.0, 105.95)));
        assert!(!are_complete(&costs(50.0, 50.0)));
        assert!(!are_complete(&costs(107.0, 105.0)));
    }
}
