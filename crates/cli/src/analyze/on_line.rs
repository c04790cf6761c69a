//! Questions that are asked while a trace is made.

use super::{Once, Question};
use crate::traced::Traced;
use anyhow::Result;
use clap::parser::ValueSource;
use clap::{Command, FromArgMatches as _, Subcommand as _};
use relive_analysis::on_line::OnLine;
use relive_trace::recording::watch::Watcher;
use relive_trace::{About, Trace};
use std::sync::Arc;

/// A question as `relive analyze` takes it, without the trace: its name, and options behind it.
pub(crate) fn question(text: &str) -> Result<Arc<Question>, String> {
    let of = |command: Command| command.mut_arg("trace", |trace| trace.required(false).hide(true));
    let command = Command::new("--analyze").no_binary_name(true).subcommand_required(true);
    let command = Question::augment_subcommands(command).mut_subcommands(of).disable_help_subcommand(true);
    let matches = command.try_get_matches_from(text.split_whitespace()).map_err(complaint)?;
    let trace = matches.subcommand().and_then(|(_, of)| of.value_source("trace"));
    if trace == Some(ValueSource::CommandLine) {
        return Err("what is being traced is asked, and no other trace".to_string());
    }
    Question::from_arg_matches(&matches).map(Arc::new).map_err(complaint)
}

/// What is wrong, without what the error around it says too.
fn complaint(error: clap::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let end = ["\n\nUsage:", "\n\nFor more"].iter().filter_map(|end| text.find(end)).min();
    text[..end.unwrap_or(text.len())].trim_end().to_string()
}

/// Somebody who looks at everything once, while it happens.
pub(crate) trait Watching {
    /// Who is told of segments.
    fn watcher(&self) -> Arc<dyn Watcher>;

    /// Tells the answer, when everything is over and nobody else has the watcher any more.
    fn answer(self: Box<Self>, traced: &Traced<'_>) -> Result<()>;
}

struct Watch<'q, Q: Once> {
    question: &'q Q,
    on_line: Arc<OnLine<Q::Analysis>>,
}

impl<Q: Once<Analysis: Send + 'static>> Watching for Watch<'_, Q> {
    fn watcher(&self) -> Arc<dyn Watcher> {
        self.on_line.clone()
    }

    fn answer(self: Box<Self>, traced: &Traced<'_>) -> Result<()> {
        let Self { question, on_line } = *self;
        let (analysis, wrong) = Arc::into_inner(on_line).expect("whoever records is gone").finish();
        if let Some((tid, wrong)) = wrong {
            eprintln!("relive: what thread {tid} did is not all in the answer: {wrong}");
        }
        question.answer(analysis, traced)
    }
}

/// Begins to look, if what is written down will do.
fn watch<'q, Q: Once<Analysis: Send + 'static>>(
    question: &'q Q,
    about: &About,
) -> Result<Box<dyn Watching + 'q>> {
    let analysis = question.analysis()?;
    question.of().check(about, &analysis)?;
    Ok(Box::new(Watch { question, on_line: Arc::new(OnLine::new(analysis)) }))
}

impl Question {
    /// Whoever answers it while a trace is made; none if it has to look at everything twice.
    pub(crate) fn watch(&self, about: &About) -> Result<Option<Box<dyn Watching + '_>>> {
        Ok(Some(match self {
            Self::Mix(args) => watch(args, about)?,
            Self::Strides(args) => watch(args, about)?,
            Self::WorkingSet(args) => watch(args, about)?,
            Self::Cache(args) => watch(args, about)?,
            Self::Reuse(args) => watch(args, about)?,
            Self::Profile(args) => watch(args, about)?,
            Self::Races(args) => {
                args.check(about)?;
                return Ok(None);
            }
            Self::HotPaths(_) | Self::Calls(_) => return Ok(None),
        }))
    }

    /// Answers it when the trace is made.
    pub(crate) fn answer_of(&self, trace: Trace) -> Result<()> {
        self.answer(|| Ok(trace))
    }
}

#[cfg(test)]
mod tests {
    use super::question;

    #[test]
    fn questions() {
        assert!(question("mix").is_ok());
        assert!(question(" cache --l1d 48K,12,64  --json -o cache.json ").is_ok());
        for wrong in ["", "mixx", "mix --wrong", "mix app.rtrace", "cache --l1d 1", "help"] {
            assert!(question(wrong).is_err(), "{wrong}");
        }
    }
}
