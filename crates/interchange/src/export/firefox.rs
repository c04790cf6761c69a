//! The Firefox Profiler's processed format, version 55.
//!
//! Specification: `docs-developer/processed-profile-format.md`, `docs-developer/CHANGELOG-formats.md` and `src/types/profile.js` of
//! firefox-devtools/profiler, which reads older versions too. Each stack is a sample whose weight is what it costs. There
//! is no time in a profile: samples are a millisecond apart, the one after the other, and their order means nothing. Nor is there any use
//! of the processor: that is left out, as the viewer would take zeros for a thread that slept.

use super::{Exporter, Summary};
use crate::error::ExportError;
use crate::stacks::Stacks;
use crate::surroundings::Surroundings;
use relive_profile::model::Profile;
use relive_sequence::Sequence;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::Write;

/// The format.
pub(super) struct Firefox;

/// A resource that is a library, in the resource table.
const LIBRARY: u32 = 1;

impl Exporter for Firefox {
    fn name(&self) -> &'static str {
        "firefox"
    }

    fn about(&self) -> &'static str {
        "for profiler.firefox.com; estimated for a profile, exact for calls (.rcalls)"
    }

    fn write(
        &self,
        profile: &Profile,
        around: &dyn Surroundings,
        out: &mut dyn Write,
    ) -> Result<Summary, ExportError> {
        write(&Stacks::estimated(profile, around), out)
    }

    fn write_calls(&self, calls: &Sequence, out: &mut dyn Write) -> Result<Summary, ExportError> {
        write(&Stacks::exact(calls), out)
    }
}

fn write(stacks: &Stacks, out: &mut dyn Write) -> Result<Summary, ExportError> {
    let name = stacks.title.rsplit('/').next().unwrap_or_default();
    let file = json!({
        "meta": {
            "categories": [
                { "name": "Other", "color": "grey", "subcategories": ["Other"] },
                { "name": "User", "color": "yellow", "subcategories": ["Other"] },
            ],
            "debug": false,
            "extensions": { "baseURL": [], "id": [], "length": 0, "name": [] },
            "importedFrom": concat!("relive ", env!("CARGO_PKG_VERSION")),
            "interval": 1.0,
            "markerSchema": [],
            "preprocessedProfileVersion": 55,
            "processType": 0,
            "product": format!("{name}: {}, stacks {}", stacks.unit, stacks.evidence()),
            "sourceCodeIsNotOnSearchfox": true,
            "stackwalk": 1,
            "startTime": stacks.began.saturating_mul(1000),
            "symbolicated": true,
            "usesOnlyOneStackType": true,
            "version": 24,
        },
        "libs": libraries(stacks).iter().map(|path| library(path)).collect::<Vec<_>>(),
        "threads": [thread(stacks, name)],
        "pages": [],
        "profilerOverhead": [],
        "counters": [],
    });
    crate::json::write(&file, out)?;
    Ok(stacks.summary(stacks.stacks.len() as u64))
}

/// The files that functions are in.
fn libraries(stacks: &Stacks) -> Vec<&str> {
    let mut paths: Vec<&str> = stacks.frames.iter().map(|frame| &*frame.module).collect();
    paths.sort_unstable();
    paths.dedup();
    paths.retain(|path| !path.is_empty());
    paths
}

fn library(path: &str) -> Value {
    let name = path.rsplit('/').next().unwrap_or_default();
    json!({
        "arch": "x86_64",
        "name": name,
        "path": path,
        "debugName": name,
        "debugPath": path,
        "breakpadId": "",
        "codeId": null,
    })
}

/// All tables: a function, a frame for each of [`Stacks::frames`].
fn thread(stacks: &Stacks, name: &str) -> Value {
    let mut texts = Texts::default();
    let libraries = libraries(stacks);
    let length = stacks.frames.len();
    let all = |value: Value| vec![value; length];
    let names: Vec<usize> = stacks.frames.iter().map(|frame| texts.number(&frame.name)).collect();
    let files: Vec<Option<usize>> =
        stacks.frames.iter().map(|frame| frame.line.as_ref().map(|(file, _)| texts.number(file))).collect();
    let lines: Vec<Option<u32>> =
        stacks.frames.iter().map(|frame| frame.line.as_ref().map(|&(_, line)| line)).collect();
    let resources: Vec<i64> = stacks
        .frames
        .iter()
        .map(|frame| libraries.binary_search(&&*frame.module).map_or(-1, |at| at as i64))
        .collect();
    let resource_names: Vec<usize> =
        libraries.iter().map(|path| texts.number(path.rsplit('/').next().unwrap_or_default())).collect();
    let costly: Vec<(usize, u64)> = stacks
        .stacks
        .iter()
        .enumerate()
        .map(|(at, stack)| (at, stack.own))
        .filter(|&(_, own)| own > 0)
        .collect();
    json!({
        "name": name,
        "isMainThread": true,
        "processName": name,
        "processType": "default",
        "processStartupTime": 0.0,
        "processShutdownTime": null,
        "registerTime": 0.0,
        "unregisterTime": null,
        "pausedRanges": [],
        "pid": "1",
        "tid": "1",
        "showMarkersInTimeline": false,
        "frameTable": {
            "length": length,
            "address": all(json!(-1)),
            "inlineDepth": all(json!(0)),
            "category": all(json!(1)),
            "subcategory": all(json!(0)),
            "func": (0..length).collect::<Vec<_>>(),
            "nativeSymbol": all(Value::Null),
            "innerWindowID": all(json!(0)),
            "line": all(Value::Null),
            "column": all(Value::Null),
        },
        "funcTable": {
            "length": length,
            "name": names,
            "isJS": all(json!(false)),
            "relevantForJS": all(json!(false)),
            "resource": resources,
            "fileName": files,
            "lineNumber": lines,
            "columnNumber": all(Value::Null),
        },
        "resourceTable": {
            "length": libraries.len(),
            "lib": (0..libraries.len()).collect::<Vec<_>>(),
            "name": resource_names,
            "host": vec![Value::Null; libraries.len()],
            "type": vec![LIBRARY; libraries.len()],
        },
        "nativeSymbols": { "length": 0, "address": [], "functionSize": [], "libIndex": [], "name": [] },
        "markers":
            { "length": 0, "category": [], "data": [], "endTime": [], "name": [], "phase": [], "startTime": [] },
        "stackTable": {
            "length": stacks.stacks.len(),
            "prefix": stacks.stacks.iter().map(|stack| stack.parent).collect::<Vec<_>>(),
            "frame": stacks.stacks.iter().map(|stack| stack.frame).collect::<Vec<_>>(),
        },
        "samples": {
            "length": costly.len(),
            "weightType": "samples",
            "stack": costly.iter().map(|&(at, _)| at).collect::<Vec<_>>(),
            "timeDeltas": vec![1.0; costly.len()],
            "weight": costly.iter().map(|&(_, own)| own).collect::<Vec<_>>(),
        },
        "stringArray": texts.all,
    })
}

#[derive(Default)]
struct Texts {
    all: Vec<String>,
    numbers: HashMap<String, usize>,
}

impl Texts {
    fn number(&mut self, text: &str) -> usize {
        if let Some(&known) = self.numbers.get(text) {
            return known;
        }
        self.all.push(text.to_string());
        self.numbers.insert(text.to_string(), self.all.len() - 1);
        self.all.len() - 1
    }
}
