//! The code of a traced run: its processes, and the files it came from.

use relive_analysis::Code;
use relive_trace::process::Process;
use relive_trace::units::Unit;
use relive_trace::{Module, Trace};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// What was executed, wherever that is known from.
pub(crate) struct Traced<'t> {
    pub(crate) began: SystemTime,
    pub(crate) modules: &'t [Module],
    processes: BTreeMap<u32, &'t Process>,
}

impl<'t> Traced<'t> {
    /// That of a trace, as far as it can be read.
    pub(crate) fn of_file(trace: &'t Trace) -> Self {
        let process = |number| Some((number, trace.process(number).ok()?));
        let began = SystemTime::UNIX_EPOCH + Duration::from_secs(trace.about().began);
        Self { began, modules: trace.modules(), processes: trace.processes().filter_map(process).collect() }
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
