//! The tables.

use super::kept::{Costs, Round};
use super::{BEHAVIOURS, Judged, OURS};
use crate::carry::score::cell;
use crate::table::Table;
use anyhow::Result;

/// What ours has to reach on average.
const GOAL_ACC: f64 = 0.98;
const GOAL_SAVED: f64 = 0.75;

/// How long a profiled workload is in instructions that the program itself executes: what a processor does in five minutes.
const WORKLOAD: f64 = 1e12;

/// One table for each behaviour, as the paper's table 2, and before them what was measured.
pub(super) fn tables(all: &[Judged], methods: &[String], seconds: f64) -> u64 {
    let mut violations = failures(all);
    println!("{}", programs(all));
    println!(
        "The new build as it is on all five inputs, in 10^9 instructions and in seconds of processor time; what counting adds to it, for loops and \
         for call graphs; and what rewriting the new build in full takes. Changed: the share of the code. Similarity: entries that are the same in both releases.\n"
    );
    for (behaviour, title) in BEHAVIOURS {
        println!("### {title}\n");
        let mut table = Table::new(&[
            "impact",
            "program",
            "old",
            "new",
            "entries",
            "random",
            "measured",
            "Acc",
            "TS",
            "TS in seconds",
            "once",
            "increments",
            "precision",
            "recall",
            "F",
        ]);
        for method in methods {
            let rows: Vec<(&Judged, Scores)> = all
                .iter()
                .filter_map(|judged| Some((judged, scores(judged, method, behaviour, seconds)?)))
                .collect();
            for (judged, scores) in &rows {
                let (old, new) = (&judged.pair.old, &judged.pair.new);
                let names = [method.clone(), old.program.clone(), old.version.clone(), new.version.clone()];
                table.row([&names[..], &scores.cells()].concat());
            }
            let Some(mean) = mean(rows.iter().map(|(_, scores)| scores)) else { continue };
            let names = [format!("**{method}**"), "**average**".to_owned(), String::new(), String::new()];
            table.row([&names[..], &mean.cells()].concat());
            violations += if method == OURS { missed(&mean, title) } else { 0 };
        }
        println!("{table}");
    }
    println!(
        "Acc, TS, measured and increments in percent. Random: entries that differ between five fresh runs of the new build, left out of \
         the others. Measured: functions of which anything is measured again. TS as in section 5 of the paper, where what the program takes by \
         itself is no profiling time: 1 - (T migrated - T native) / (T full - T native), with all that relive does in both. *TS* is of the \
         instructions that are executed (in user mode, libraries and relive itself included; `relive trace` counts them) for a workload of \
         {WORKLOAD:.0e} instructions of the program's own, *TS in seconds* of processor time for {seconds:.0} s of the program's own (five \
         inputs gone through as often as that takes; measured once, and multiplied); *once*: in instructions, for the five inputs gone through once. *Increments*: what of the increments of counters is saved, which no machine decides; a \
         checked run included. More than 100 is what the place of code happens to gain, and counts as 100 in averages. Goal for {OURS}, on average: Acc {:.0}, TS {:.0}. violations: {violations}",
        GOAL_ACC * 100.0,
        GOAL_SAVED * 100.0
    );
    violations
}

/// Says what could not be measured, and counts it.
fn failures(all: &[Judged]) -> u64 {
    let mut failures = 0;
    for judged in all {
        let rounds = judged.rounds.iter().filter_map(|(method, behaviour, round)| {
            round.as_ref().err().map(|why| (format!("{method} {behaviour}: "), why))
        });
        let costs = [&judged.times, &judged.instructions];
        let costs = costs.into_iter().filter_map(|costs| Some((String::new(), costs.as_ref().err()?)));
        for (what, why) in costs.chain(rounds) {
            println!("{}: {what}{why:#}\n", judged.pair.name());
            failures += 1;
        }
    }
    failures
}

fn missed(mean: &Scores, title: &str) -> u64 {
    let mut violations = 0;
    for (what, value, goal) in [
        ("Acc", Some(mean.acc), GOAL_ACC),
        ("TS", mean.saved, GOAL_SAVED),
        ("TS in seconds", mean.saved_time, GOAL_SAVED),
    ] {
        // What was not measured is not judged.
        let Some(value) = value else { continue };
        if value < goal {
            println!("{title}: average {what} of {OURS} {:.1} %, not {:.0} %\n", value * 100.0, goal * 100.0);
            violations += 1;
        }
    }
    violations
}

/// As the paper's table 1.
fn programs(all: &[Judged]) -> Table {
    let mut table = Table::new(&[
        "program",
        "old",
        "new",
        "between",
        "functions",
        "changed",
        "similarity: loops",
        "call graphs",
        "instructions",
        "loops add",
        "calls add",
        "rewriting",
        "seconds",
        "loops add",
        "calls add",
        "rewriting",
    ]);
    for judged in all {
        let Ok(times) = &judged.times else { continue };
        let some = |behaviour: &str| {
            judged
                .rounds
                .iter()
                .find(|(_, own, _)| *own == behaviour)
                .and_then(|(.., round)| round.as_ref().ok())
        };
        let rounds = BEHAVIOURS.map(|(behaviour, _)| some(behaviour));
        let any = rounds[0].or(rounds[1]);
        let mut cells = judged.pair.cells();
        cells.push(any.map_or_else(|| "-".to_owned(), |round| round.functions.to_string()));
        cells.push(cell(any.map(|round| round.significance)));
        cells.extend(rounds.map(|round| cell(round.map(|round| round.measures.similarity()))));
        let (instructions, seconds) = (judged.instructions.as_ref().ok(), Some(times));
        for (costs, unit) in [(instructions, 1e9), (seconds, 1.0)] {
            let get = |what: &str| costs.and_then(|costs| costs.get(what));
            let shown =
                |cost: Option<f64>| cost.map_or_else(|| "-".to_owned(), |cost| format!("{:.2}", cost / unit));
            let adds = |full: &str| {
                let both = get(full).zip(get("native"));
                both.map_or_else(
                    || "-".to_owned(),
                    |(full, native)| format!("{:.1} %", 100.0 * (full / native - 1.0)),
                )
            };
            cells.push(shown(get("native")));
            cells.extend(["full loops", "full call-graph"].map(adds));
            cells.push(shown(get("instrument call-graph")));
        }
        table.row(cells);
    }
    table
}

/// A row.
#[derive(Clone, Copy)]
struct Scores {
    real: Option<u64>,
    random: Option<u64>,
    measured: f64,
    acc: f64,
    saved: Option<f64>,
    saved_time: Option<f64>,
    saved_once: Option<f64>,
    fewer: f64,
    precision: f64,
    recall: f64,
    f_measure: f64,
}

impl Scores {
    fn of(round: &Round, [saved, saved_time, saved_once]: [Option<f64>; 3]) -> Self {
        let Round { exempt, functions, measures, .. } = round;
        Self {
            real: Some(measures.real),
            random: Some(measures.random),
            measured: (functions - exempt) as f64 / (*functions).max(1) as f64,
            acc: measures.acc,
            saved,
            saved_time,
            saved_once,
            fewer: round.fewer(),
            precision: measures.precision,
            recall: measures.recall,
            f_measure: measures.f_measure,
        }
    }

    fn cells(&self) -> Vec<String> {
        let count = |count: Option<u64>| count.map_or_else(String::new, |count| count.to_string());
        let share = |share: f64| format!("{:.1}", 100.0 * share);
        let score = |score: f64| format!("{score:.3}");
        let known = |saved: Option<f64>| saved.map_or_else(|| "-".to_owned(), share);
        vec![
            count(self.real),
            count(self.random),
            share(self.measured),
            cell(Some(self.acc)),
            known(self.saved),
            known(self.saved_time),
            known(self.saved_once),
            share(self.fewer),
            score(self.precision),
            score(self.recall),
            score(self.f_measure),
        ]
    }
}

fn scores(judged: &Judged, method: &str, behaviour: &str, seconds: f64) -> Option<Scores> {
    let times = judged.times.as_ref().ok()?;
    let (.., round) = judged.rounds.iter().find(|(own, about, _)| own == method && *about == behaviour)?;
    let instructions = judged.instructions.as_ref().ok();
    let saved = |costs: Option<&Costs>, workload: f64| {
        let costs = costs?;
        let passes = (workload / costs.get("native")?).max(1.0);
        costs.saved(method, behaviour, passes)
    };
    let all = [saved(instructions, WORKLOAD), saved(Some(times), seconds), saved(instructions, 0.0)];
    Some(Scores::of(round.as_ref().ok()?, all))
}

/// The average of each column.
fn mean<'a>(rows: impl Iterator<Item = &'a Scores> + Clone) -> Option<Scores> {
    let number = rows.clone().count();
    let of = |part: fn(&Scores) -> f64| rows.clone().map(part).sum::<f64>() / number as f64;
    let of_known = |part: fn(&Scores) -> Option<f64>| {
        let known: Vec<f64> = rows.clone().filter_map(part).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    (number > 0).then(|| Scores {
        real: None,
        random: None,
        measured: of(|row| row.measured),
        acc: of(|row| row.acc),
        saved: of_known(|row| row.saved.map(|saved| saved.min(1.0))),
        saved_time: of_known(|row| row.saved_time.map(|saved| saved.min(1.0))),
        saved_once: of_known(|row| row.saved_once.map(|saved| saved.min(1.0))),
        fewer: of(|row| row.fewer),
        precision: of(|row| row.precision),
        recall: of(|row| row.recall),
        f_measure: of(|row| row.f_measure),
    })
}

/// Every entry that a method said to be reusable, and is not.
pub(super) fn soundness(all: &[Judged], method: &str) -> u64 {
    let mut violations = failures(all);
    let mut table =
        Table::new(&["program", "old", "new", "profile", "function", "block", "old count", "real count"]);
    let (mut reused, mut random) = (0, 0);
    for judged in all {
        let rounds = judged.rounds.iter().filter(|(own, ..)| own == method);
        for (behaviour, round) in rounds.filter_map(|(_, behaviour, round)| Some((behaviour, as_ok(round)?)))
        {
            let measures = &round.measures;
            reused += measures.truly + measures.mistaken.len() as u64;
            random += measures.random;
            violations += measures.mistaken.len() as u64;
            for wrong in &measures.mistaken {
                let (old, new) = (&judged.pair.old, &judged.pair.new);
                table.row(vec![
                    old.program.clone(),
                    old.version.clone(),
                    new.version.clone(),
                    (*behaviour).to_owned(),
                    format!("`{}`", wrong.function),
                    wrong.block.clone().unwrap_or_default(),
                    wrong.old.to_string(),
                    wrong.real.to_string(),
                ]);
            }
        }
    }
    println!(
        "{table}\nEntries that --impact {method} said to be reusable and that differ, of {reused} that it did in {} pairs; {random} \
         that differ from run to run are left out. violations: {violations}",
        all.len()
    );
    violations
}

fn as_ok(round: &Result<Round>) -> Option<&Round> {
    round.as_ref().ok()
}
