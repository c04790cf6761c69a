//! Questions that are answered while a command is traced, or right behind it.

use crate::analyze::Question;
use crate::analyze::on_line::Watching;
use crate::traced::Traced;
use anyhow::{Context as _, Result};
use relive_trace::recording::watch::Watcher;
use relive_trace::{About, Trace};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

/// All that is asked, in order.
pub(super) struct Analyses<'q>(Vec<Asked<'q>>);

enum Asked<'q> {
    /// Looks at everything once, while it happens.
    Meanwhile(Box<dyn Watching + 'q>),
    /// Looks twice, when the trace is made.
    Later(&'q Question),
}

impl<'q> Analyses<'q> {
    pub(super) fn new(questions: &'q [Arc<Question>], about: &About) -> Result<Self> {
        let asked = |question: &'q Arc<Question>| {
            let watching = question.watch(about)?;
            Ok(watching.map_or(Asked::Later(question), Asked::Meanwhile))
        };
        questions.iter().map(asked).collect::<Result<_>>().map(Self)
    }

    /// Who looks at segments.
    pub(super) fn watchers(&self) -> Vec<Arc<dyn Watcher>> {
        let watcher = |asked: &Asked<'q>| match asked {
            Asked::Meanwhile(watching) => Some(watching.watcher()),
            Asked::Later(_) => None,
        };
        self.0.iter().filter_map(watcher).collect()
    }

    /// Whether somebody looks at the whole trace in the end.
    pub(super) fn look_later(&self) -> bool {
        self.0.iter().any(|asked| matches!(asked, Asked::Later(_)))
    }

    /// Tells all answers.
    pub(super) fn answer(self, traced: &Traced<'_>, whole: &Whole) {
        for asked in self.0 {
            let answer = match asked {
                Asked::Meanwhile(watching) => watching.answer(traced),
                Asked::Later(question) => whole.open().and_then(|trace| question.answer_of(trace)),
            };
            if let Err(error) = answer {
                eprintln!("relive: {error:#}");
            }
        }
    }
}

/// Where the whole trace is, for those who look twice.
pub(super) enum Whole {
    /// In a file.
    At(PathBuf),
    /// Nowhere but in memory, if anybody wants it.
    InMemory(Option<File>),
}

impl Whole {
    fn open(&self) -> Result<Trace> {
        match self {
            Self::At(path) => Trace::open(path).with_context(|| format!("cannot read {}", path.display())),
            Self::InMemory(file) => {
                let file =
                    file.as_ref().context("nothing was kept in memory")?.try_clone().context("no memory")?;
                Trace::of(file).context("cannot read what was kept in memory")
            }
        }
    }
}
