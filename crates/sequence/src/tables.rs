//! What is told instruction by instruction (`relive analyze strides|reuse --json`), taken over to another build.
//!
//! An entry belongs to an instruction of a function. Entries of functions that are exempt are taken from the old table, to where these
//! instructions are now; all others from the new one. What sums up entries is summed up anew. An entry whose instruction is not found, though its
//! function is, stays as one of the function.

use crate::map::CallMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Why tables cannot be merged.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TableError {
    /// It is not one.
    #[error("the {which} table: {what}")]
    NotATable {
        /// The old one or the new one.
        which: &'static str,
        /// What is wrong.
        what: String,
    },
    /// It is of another build.
    #[error("the {which} table is not of build {build_id}")]
    Build {
        /// The old one or the new one.
        which: &'static str,
        /// The build it should be of.
        build_id: String,
    },
    /// They do not tell the same.
    #[error("the tables do not tell the same: {0}")]
    Different(&'static str),
}

/// A behaviour that is told instruction by instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// How loads and stores move.
    Strides,
    /// How far apart touches of the same memory are.
    Reuse,
}

impl Behaviour {
    /// Where a table has its entries.
    fn entries(self) -> &'static str {
        match self {
            Self::Strides => "accesses",
            Self::Reuse => "instructions",
        }
    }

    fn of(table: &Value) -> Option<Self> {
        [Self::Strides, Self::Reuse]
            .into_iter()
            .find(|of| table.get(of.entries()).is_some_and(Value::is_array))
    }
}

/// What is known of an instruction, or of a function.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    construct: Construct,
    /// An instruction in the module, as linked.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    /// What is known of it.
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// A part of the program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Construct {
    #[serde(skip_serializing_if = "Option::is_none")]
    module: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<String>,
    /// Where the function begins, as linked.
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

/// Who knows lines of source: which an instruction of the new build belongs to.
pub type Lines<'l> = &'l dyn Fn(u64) -> Option<(String, u32)>;

/// Merges what was measured of the new build with what is known of the old one. `exempt` are functions of the new build, by address.
///
/// # Errors
/// If a table is not one, or is of another build, or they tell different things.
pub fn merge(
    old: &Value,
    fresh: &Value,
    map: &CallMap,
    exempt: &BTreeSet<u64>,
    lines: Lines<'_>,
) -> Result<Value, TableError> {
    let not_a_table =
        |which| TableError::NotATable { which, what: "neither strides nor reuse distances".into() };
    let behaviour = Behaviour::of(fresh).ok_or_else(|| not_a_table("new"))?;
    match Behaviour::of(old) {
        None => return Err(not_a_table("old")),
        Some(of) if of != behaviour => return Err(TableError::Different("strides and reuse distances")),
        Some(_) if old.get("block") != fresh.get("block") => {
            return Err(TableError::Different("blocks of memory are not of the same size"));
        }
        Some(_) => {}
    }
    let old_module = module(old, "old", &map.old)?;
    let new_module = module(fresh, "new", &map.new)?;
    let is_exempt = |entry: &Entry| {
        let Construct { module, entry, .. } = &entry.construct;
        *module == Some(new_module.clone()) && entry.is_some_and(|entry| exempt.contains(&entry))
    };
    let mut merged: Vec<Entry> = Vec::new();
    for mut entry in entries(fresh, "new", behaviour)?.into_iter().filter(|entry| !is_exempt(entry)) {
        entry.origin = Some("re-measured".into());
        merged.push(entry);
    }
    for mut entry in entries(old, "old", behaviour)? {
        let start = entry.construct.entry.filter(|_| entry.construct.module.as_ref() == Some(&old_module));
        let Some(start) = start.and_then(|start| map.functions.get(&start)) else { continue };
        if !exempt.contains(start) {
            continue;
        }
        let was_at = entry.address;
        entry.address = was_at.and_then(|address| map.instruction(address));
        let line = entry.address.and_then(lines);
        let construct = &mut entry.construct;
        (construct.module, construct.entry) = (Some(new_module.clone()), Some(*start));
        (construct.file, construct.line) = line.unzip();
        entry.origin = Some(if entry.address == was_at { "reused" } else { "repositioned" }.into());
        // Where it was in the memory of a process of the other run.
        entry.rest.retain(|key, _| key != "pc" && key != "process");
        merged.push(entry);
    }
    let mut table = fresh.as_object().cloned().unwrap_or_default();
    match behaviour {
        Behaviour::Strides => sum_up_strides(&mut table, &mut merged),
        Behaviour::Reuse => sum_up_reuse(&mut table, &mut merged),
    }
    table.insert(behaviour.entries().into(), json!(merged));
    Ok(Value::Object(table))
}

/// The name of the module of some build.
fn module(table: &Value, which: &'static str, build_id: &str) -> Result<String, TableError> {
    let builds = table.get("builds").and_then(Value::as_array);
    let is_it = |build: &&Value| build.get("build_id").and_then(Value::as_str) == Some(build_id);
    let found = builds.and_then(|builds| builds.iter().find(is_it));
    let path = found.and_then(|build| build.get("path")).and_then(Value::as_str);
    path.map(Into::into).ok_or_else(|| TableError::Build { which, build_id: build_id.into() })
}

fn entries(table: &Value, which: &'static str, behaviour: Behaviour) -> Result<Vec<Entry>, TableError> {
    let entries = table.get(behaviour.entries()).cloned().unwrap_or_default();
    serde_json::from_value(entries).map_err(|error| TableError::NotATable { which, what: error.to_string() })
}

fn number(entry: &Entry, key: &str) -> u64 {
    entry.rest.get(key).and_then(Value::as_u64).unwrap_or_default()
}

fn sum_up_strides(table: &mut Map<String, Value>, entries: &mut [Entry]) {
    let times = |entry: &Entry| number(entry, "loads").saturating_add(number(entry, "stores"));
    entries.sort_by_key(|entry| std::cmp::Reverse(times(entry)));
    let mut patterns: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for entry in entries.iter() {
        let pattern = entry.rest.get("pattern").and_then(Value::as_str).unwrap_or("irregular");
        let sum = patterns.entry(pattern).or_default();
        *sum = (sum.0 + 1, sum.1.saturating_add(times(entry)));
    }
    let sum = |(pattern, (instructions, times)): (&str, _)| {
        (pattern.to_string(), json!({ "instructions": instructions, "times": times }))
    };
    let patterns: Map<String, Value> = patterns.into_iter().map(sum).collect();
    table.insert("patterns".into(), patterns.into());
}

/// How often what distance was seen.
#[derive(Default)]
struct Histogram {
    touches: u64,
    first: u64,
    /// By the power of two that distances are below.
    distances: BTreeMap<u64, u64>,
}

impl Histogram {
    fn add(&mut self, entry: &Entry) {
        self.touches = self.touches.saturating_add(number(entry, "touches"));
        self.first = self.first.saturating_add(number(entry, "first"));
        for distance in entry.rest.get("distances").and_then(Value::as_array).into_iter().flatten() {
            let of = |key| distance.get(key).and_then(Value::as_u64).unwrap_or_default();
            let sum = self.distances.entry(of("below")).or_default();
            *sum = sum.saturating_add(of("touches"));
        }
    }

    fn rest(&self) -> Map<String, Value> {
        let distance = |(below, touches): (&u64, &u64)| json!({ "below": below, "touches": touches });
        let distances: Vec<Value> = self.distances.iter().map(distance).collect();
        let all = json!({ "touches": self.touches, "first": self.first, "distances": distances });
        all.as_object().cloned().unwrap_or_default()
    }
}

fn sum_up_reuse(table: &mut Map<String, Value>, entries: &mut [Entry]) {
    entries.sort_by_key(|entry| std::cmp::Reverse(number(entry, "touches")));
    let mut total = Histogram::default();
    let (mut functions, mut lines) = (BTreeMap::new(), BTreeMap::new());
    for entry in entries.iter() {
        total.add(entry);
        let function = Construct { file: None, line: None, ..entry.construct.clone() };
        for (groups, construct) in [(&mut functions, function), (&mut lines, entry.construct.clone())] {
            let (sum, origins): &mut (Histogram, BTreeSet<String>) = groups.entry(construct).or_default();
            sum.add(entry);
            origins.extend(entry.origin.clone());
        }
    }
    let rows = |groups: BTreeMap<Construct, (Histogram, BTreeSet<String>)>| {
        let row = |(construct, (sum, origins)): (_, (Histogram, BTreeSet<String>))| {
            // A function is exempt or not: its lines are known from one side.
            let origin =
                if origins.len() > 1 { Some("repositioned".into()) } else { origins.into_iter().next() };
            Entry { construct, address: None, origin, rest: sum.rest() }
        };
        let mut rows: Vec<Entry> = groups.into_iter().map(row).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(number(row, "touches")));
        json!(rows)
    };
    table.insert("total".into(), total.rest().into());
    table.insert("functions".into(), rows(functions));
    table.insert("lines".into(), rows(lines));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> CallMap {
        CallMap {
            old: "aa".into(),
            new: "bb".into(),
            functions: [(0x100, 0x180), (0x200, 0x240)].into(),
            code: [(0x100, (0x20, 0x180)), (0x200, (0x8, 0x240))].into(),
            ..CallMap::default()
        }
    }

    fn no_lines(_: u64) -> Option<(String, u32)> {
        None
    }

    fn strides(build_id: &str, accesses: Value) -> Value {
        json!({ "builds": [{ "path": "/opt/app", "build_id": build_id }], "patterns": {}, "accesses": accesses })
    }

    fn access(entry: u64, address: u64, loads: u64, pattern: &str) -> Value {
        json!({
            "process": 0, "pc": 99, "module": "/opt/app", "function": "f", "entry": entry, "line": 7, "address": address,
            "access": 0, "loads": loads, "stores": 0, "pattern": pattern, "strides": [{ "bytes": 8, "times": loads - 1 }],
        })
    }

    #[test]
    fn exempt_functions_come_from_the_old_table() {
        let old = strides(
            "aa",
            json!([
                access(0x100, 0x104, 50, "constant"),
                access(0x200, 0x204, 5, "same"),
                access(0x200, 0x210, 3, "same")
            ]),
        );
        let fresh = strides("bb", json!([access(0x180, 0x184, 70, "few"), access(0x300, 0x304, 6, "same")]));
        let line = |at: u64| (at == 0x244).then(|| ("app.c".to_string(), 12));
        let merged = merge(&old, &fresh, &map(), &BTreeSet::from([0x240]), &line).expect("mergeable");
        let told: Vec<_> = merged["accesses"]
            .as_array()
            .expect("entries")
            .iter()
            .map(|entry| {
                let address = entry.get("address").and_then(Value::as_u64);
                let line = entry.get("line").and_then(Value::as_u64);
                (
                    address,
                    line,
                    entry["loads"].as_u64().unwrap(),
                    entry["origin"].as_str().unwrap(),
                    entry.get("pc").is_some(),
                )
            })
            .collect();
        let expected = [
            (Some(0x184), Some(7), 70, "re-measured", true),
            (Some(0x304), Some(7), 6, "re-measured", true),
            (Some(0x244), Some(12), 5, "repositioned", false),
            // The instruction is not there any more: what is known is known of the function.
            (None, None, 3, "repositioned", false),
        ];
        assert_eq!(told, expected);
        assert_eq!(
            merged["patterns"],
            json!({ "few": { "instructions": 1, "times": 70 }, "same": { "instructions": 3, "times": 14 } })
        );
        assert_eq!(merged["accesses"][2]["strides"][0]["bytes"], 8);
    }

    #[test]
    fn distances_are_summed_up_anew() {
        let row = |entry: u64, address: u64, below: u64, touches: u64| {
            json!({ "module": "/opt/app", "function": "f", "entry": entry, "address": address, "touches": touches + 1, "first": 1,
                "distances": [{ "below": 1, "touches": 0 }, { "below": below, "touches": touches }] })
        };
        let reuse = |build: &str, rows: Value| json!({ "builds": [{ "path": "/opt/app", "build_id": build }], "block": 64, "total": {}, "functions": [], "lines": [], "instructions": rows });
        let old = reuse("aa", json!([row(0x100, 0x104, 4, 10), row(0x100, 0x108, 8, 20)]));
        let fresh = reuse("bb", json!([row(0x300, 0x304, 8, 5)]));
        let merged = merge(&old, &fresh, &map(), &BTreeSet::from([0x180]), &no_lines).expect("mergeable");
        let expected = json!({ "touches": 38, "first": 3, "distances":
            [{ "below": 1, "touches": 0 }, { "below": 4, "touches": 10 }, { "below": 8, "touches": 25 }] });
        assert_eq!(merged["total"], expected);
        assert_eq!(merged["functions"][0]["touches"], 32);
        assert_eq!(merged["functions"][0]["entry"], 0x180);
        assert_eq!(merged["functions"][0]["origin"], "repositioned");
        let other = reuse("aa", json!([])).as_object().cloned().map(|mut table| {
            table.insert("block".into(), json!(1));
            Value::Object(table)
        });
        let error = merge(&other.unwrap(), &fresh, &map(), &BTreeSet::new(), &no_lines);
        assert!(matches!(error, Err(TableError::Different(_))));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let good = strides("bb", json!([]));
        let merge = |old: &Value| merge(old, &good, &map(), &BTreeSet::new(), &no_lines);
        assert!(matches!(merge(&json!(3)), Err(TableError::NotATable { which: "old", .. })));
        assert!(matches!(merge(&strides("cc", json!([]))), Err(TableError::Build { which: "old", .. })));
        assert!(matches!(merge(&strides("aa", json!([{ "line": "x" }]))), Err(TableError::NotATable { .. })));
        assert!(matches!(merge(&json!({ "instructions": [] })), Err(TableError::Different(_))));
    }
}
