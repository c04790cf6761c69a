//! The same costs in instructions, which no machine decides: how many the program, everything it starts and relive itself execute in user
//! mode. `relive trace` counts them, whatever code they are in. Other programs may run meanwhile.

use super::bench::{ALL, Bench, SHORTEST, full, rest};
use super::kept::{self, Costs};
use super::{BEHAVIOURS, OURS};
use anyhow::{Context as _, Result};
use std::path::Path;
use std::process::Command;

/// Of a trace whose instructions are counted, so much is kept.
const KEPT: &str = "1M";

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
        let checked = match method {
            OURS => self.executed_by(&self.file(&full(behaviour)), SHORTEST)?,
            _ => 0.0,
        };
        Ok(own + checked)
    }

    /// What a command and all it starts execute.
    fn executed(&self, command: &Command) -> Result<f64> {
        self.executed_with(command, &[])
    }

    fn executed_with(&self, command: &Command, options: &[&str]) -> Result<f64> {
        let mut trace = Command::new(&self.relive);
        trace.args(["trace", "--control-flow-only", "--ring", KEPT]).args(options);
        trace.arg("-o").arg(self.file("counted.rtrace")).arg("--");
        trace.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => trace.env(name, value),
                None => trace.env_remove(name),
            };
        }
        let said = self.say(&mut trace)?;
        counted(&said).with_context(|| format!("{trace:?} tells of no instructions: {}", said.trim()))
    }
}

/// How many instructions `relive trace` says it has recorded, if it has recorded all of them.
fn counted(said: &str) -> Option<f64> {
    let said = said.lines().rev().find_map(|line| line.strip_prefix("relive: "))?;
    said.split_once(" instructions of ")?.0.replace(',', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn traces_tell_how_many() {
        let said = "ready\nrelive: 2,231,279,341 instructions of 1 thread in 918,204 bytes: app.rtrace\n";
        assert_eq!(counted(said), Some(2_231_279_341.0));
        assert_eq!(counted("relive: the trace is not complete\n"), None);
        assert_eq!(counted(""), None);
    }
}
