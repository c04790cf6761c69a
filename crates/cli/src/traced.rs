//! The code of a traced run: its processes, and the files it came from.

use relive_analysis::Code;
use relive_trace::process::Process;
use relive_trace::recording::Recorded;
use relive_trace::units::Unit;
use relive_trace::{About, Module, Trace};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// What was executed, wherever that is known from.
pub(crate) struct Traced<'t> {
    /// The file name of the command.
    pub(crate) name: String,
    pub(crate) began: SystemTime,
    pub(crate) modules: &'t [Module],
    processes: BTreeMap<u32, &'t Process>,
}

impl<'t> Traced<'t> {
    /// That of a trace, as far as it can be read.
    pub(crate) fn of_file(trace: &'t Trace) -> Self {
        let process = |number| Some((number, trace.process(number).ok()?));
        Self::of(trace.about(), trace.modules(), trace.processes().filter_map(process).collect())
    }

    /// That of one that was just made.
    pub(crate) fn of_recorded(about: &About, recorded: &'t Recorded) -> Self {
        let processes = recorded.processes.iter().map(|(&number, process)| (number, process)).collect();
        Self::of(about, &recorded.modules, processes)
    }

    fn of(about: &About, modules: &'t [Module], processes: BTreeMap<u32, &'t Process>) -> Self {
        let name = about.command.first().and_then(|command| command.rsplit('/').next());
        let began = SystemTime::UNIX_EPOCH + Duration::from_secs(about.began);
        Self { name: name.unwrap_or_default().to_string(), began, modules, processes }
    }

    /// All processes, in the order in which they began.
    pub(crate) fn processes(&self) -> impl Iterator<Item = &'t Process> {
        self.processes.values().copied()
    }

    /// A process by its number.
    pub(crate) fn process(&self, number: u32) -> Option<&'t Process> {
        self.processes.get(&number).copied()
    }
}

impl Code for Traced<'_> {
    fn units(&self, process: u32) -> &[Arc<Unit>] {
        self.process(process).map_or(&[], |process| process.units.all())
    }
}
