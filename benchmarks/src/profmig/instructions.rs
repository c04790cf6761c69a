//! The same costs in instructions, which no machine decides: how many the program, everything it starts and relive itself execute in user
//! mode. `relive run` counts them, block by block. Other programs may run meanwhile.

use super::bench::{ALL, Bench, SHORTEST, full, rest};
use super::kept::{self, Costs};
use super::{BEHAVIOURS, OURS};
use crate::process::output_of;
use anyhow::{Context as _, Result};
use std::path::Path;
use std::process::Command;

impl Bench {
    /// What is not known yet is counted, each once.
    pub(crate) fn instructions(&self, methods: &[String]) -> Result<Costs> {
        let path = self.file("instructions.json");
        let mut costs: Costs = kept::or_make(&path, || Ok(Costs::default()))?;
        let mut know = |what: String, count: &dyn Fn() -> Result<f64>| -> Result<()> {
            if costs.get(&what).is_none() {
                costs.take(&what, count()?);
                kept::write(&path, &costs)?;
            }
            Ok(())
        };
        know("native".to_owned(), &|| self.executed_by(&self.new, ALL))?;
        for (behaviour, _) in BEHAVIOURS {
            let program = self.file(&full(behaviour));
            know(format!("instrument {behaviour}"), &|| {
                self.executed(&self.rewriting(behaviour, &self.file("rewritten")))
            })?;
            know(format!("full {behaviour}"), &|| self.executed_by(&program, ALL))?;
            for method in methods {
                let program = self.file(&rest(method, behaviour));
                if program.exists() {
                    know(format!("own {method} {behaviour}"), &|| {
                        self.executed_by_relive(method, behaviour)
                    })?;
                    know(format!("rest {method} {behaviour}"), &|| self.executed_by(&program, ALL))?;
                }
            }
        }
        Ok(costs)
    }

    /// A program on some inputs.
    pub(crate) fn executed_by(&self, program: &Path, inputs: &str) -> Result<f64> {
        self.executed(&self.running(program, inputs))
    }

    /// What `relive reprofile` itself executes. A checked run counts as if the program were measured in full in it: that is the most it can be.
    fn executed_by_relive(&self, method: &str, behaviour: &str) -> Result<f64> {
        let [plan, merged, program] = ["own.json", "own.rprof", "own"].map(|name| self.file(name));
        let command = self.reprofile(method, behaviour, SHORTEST, [&plan, &merged, &program]);
        let own = self.executed_with(&command, &["--follow-children=no"])?;
        let checked =
            if method == OURS { self.executed_by(&self.file(&full(behaviour)), SHORTEST)? } else { 0.0 };
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
