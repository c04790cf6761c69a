//! The sequences of code that are executed most, through branches, calls and loops.
//!
//! A trace is looked at twice. First the whole path of each thread is turned into a grammar, piece by piece (Larus, "Whole Program Paths"): what is repeated in it
//! is a rule, and the rules that stand for most instructions are candidates ([`FindPaths`]). Then it is counted how often each candidate is
//! executed, each time behind the last ([`CountPaths`]). Paths from one segment to the next are left out.

mod grammar;
mod matcher;

use crate::map::Map;
use crate::{Analysis, Code, Locate, Location, Place, Segment};
use grammar::{Grammar, Piece};
use matcher::Matcher;
use relive_trace::units::Unit;
use relive_trace::visit::{Event, Ran, Visitor};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A grammar is made of so many units at a time: it takes some 60 MB at worst.
const PIECE: usize = 1 << 19;
/// Of each piece, so many rules are kept; of all, twice as many.
const KEPT: usize = 4096;
/// So many candidates are counted.
const COUNTED: usize = 256;
/// Turns of a loop of one unit that are told: more say nothing new.
const TURNS: u32 = 2;

/// An exit of a unit: the number of the unit, or of the first that has the same code, and in the lowest bits which exit.
type Letter = u32;

const EXIT_BITS: u32 = 5;

/// None for an exit that has no letter: no unit has so many, nor a process so many units.
fn letter(unit: &Unit, exit: usize) -> Option<Letter> {
    (unit.version_of < 1 << (31 - EXIT_BITS) && exit < 1 << EXIT_BITS)
        .then_some(unit.version_of << EXIT_BITS | exit as u32)
}

/// Units by their exits, one behind the other.
type Path = Box<[Letter]>;

/// The first question.
pub struct FindPaths {
    longest: usize,
    found: Map<(u32, Path), u64>,
}

/// What a segment tells of the first question.
pub struct Found {
    longest: usize,
    grammar: Grammar,
    last: Letter,
    turns: u32,
    /// How many instructions are executed.
    lens: Map<Letter, u64>,
    /// Instructions in loops of one unit.
    loops: Map<Letter, u64>,
    candidates: Map<Path, u64>,
}

/// What is worth counting: the process and the path.
pub struct Candidates(Vec<(u32, Path)>);

impl FindPaths {
    /// Asks for paths of so many units at most.
    #[must_use]
    pub fn new(longest: usize) -> Self {
        Self { longest, found: Map::default() }
    }
}

impl Visitor for Found {
    fn ran(&mut self, ran: &Ran<'_>) {
        let Some(letter) = ran.exit.and_then(|exit| letter(ran.unit, exit)) else { return };
        if letter == self.last {
            self.turns += 1;
            if self.turns > TURNS {
                *self.loops.entry(letter).or_default() += ran.steps as u64;
                return;
            }
        } else {
            (self.last, self.turns) = (letter, 1);
        }
        self.lens.entry(letter).or_insert(ran.steps as u64);
        self.grammar.push(letter);
        if self.grammar.len() >= PIECE {
            self.harvest();
        }
    }
}

impl Found {
    /// Takes the best rules of the grammar, and begins a new one.
    fn harvest(&mut self) {
        let produced = std::mem::replace(&mut self.grammar, Grammar::new()).produced();
        let mut best: Map<Path, u64> = Map::default();
        let mut texts: Vec<Option<Vec<Letter>>> = Vec::with_capacity(produced.len());
        for rule in &produced {
            let mut text = Some(Vec::new());
            for piece in &rule.symbols {
                match (*piece, &mut text) {
                    (Piece::Letter(letter), Some(text)) => text.push(letter),
                    (Piece::Rule(inner), Some(whole)) => match &texts[inner] {
                        Some(inner) => whole.extend(inner),
                        None => text = None,
                    },
                    (_, None) => {}
                }
                if text.as_ref().is_some_and(|text| text.len() > self.longest) {
                    text = None;
                }
            }
            if let Some(text) = text.as_ref().filter(|text| rule.times > 1 && !text.is_empty()) {
                let len: u64 = text.iter().map(|letter| self.lens.get(letter).copied().unwrap_or(0)).sum();
                let path = turn(text);
                if !has_turns(&path) {
                    let weight = best.entry(path).or_default();
                    *weight = (*weight).max(len * rule.times);
                }
            }
            texts.push(text);
        }
        for (path, weight) in heaviest(best, KEPT) {
            *self.candidates.entry(path).or_default() += weight;
        }
    }
}

/// The best of all.
fn heaviest<K: Ord>(all: Map<K, u64>, count: usize) -> Vec<(K, u64)> {
    let mut all: Vec<(K, u64)> = all.into_iter().collect();
    all.sort_unstable_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
    all.truncate(count);
    all
}

/// One turn of a loop, if a path is nothing but turns of a loop: the one that begins with what is lowest. Otherwise the path itself.
fn turn(path: &[Letter]) -> Path {
    let repeats =
        |len: &usize| path.len().is_multiple_of(*len) && path.iter().zip(&path[*len..]).all(|(a, b)| a == b);
    let len = (1..=path.len() / 2).find(repeats).unwrap_or(path.len());
    if len == path.len() {
        return path.into();
    }
    let once = &path[..len];
    let turned = |by: usize| once[by..].iter().chain(&once[..by]);
    let least = (0..len).min_by(|&a, &b| turned(a).cmp(turned(b))).unwrap_or(0);
    turned(least).copied().collect()
}

/// Whether a path passes a loop three times in a row: the loop by itself says more.
fn has_turns(path: &[Letter]) -> bool {
    (1..=path.len() / 3).any(|len| {
        let mut same = 0;
        path.iter().zip(&path[len..]).any(|(a, b)| {
            same = if a == b { same + 1 } else { 0 };
            same == 2 * len
        })
    })
}

impl Analysis for FindPaths {
    type Part = Found;
    type Report = Candidates;

    fn wants_memory(&self) -> bool {
        false
    }

    fn part(&self, _: &Segment) -> Found {
        Found {
            longest: self.longest,
            grammar: Grammar::new(),
            last: Letter::MAX,
            turns: 0,
            lens: Map::default(),
            loops: Map::default(),
            candidates: Map::default(),
        }
    }

    fn combine(&mut self, segment: &Segment, mut part: Found) {
        part.harvest();
        let loops = part.loops.into_iter().map(|(letter, weight)| (Path::from([letter]), weight));
        for (path, weight) in part.candidates.into_iter().chain(loops) {
            *self.found.entry((segment.process, path)).or_default() += weight;
        }
        if self.found.len() > 4 * KEPT {
            self.found = heaviest(std::mem::take(&mut self.found), 2 * KEPT).into_iter().collect();
        }
    }

    fn finish(self, _: &dyn Code, _: &dyn Locate) -> Candidates {
        Candidates(heaviest(self.found, COUNTED).into_iter().map(|(path, _)| path).collect())
    }
}

/// The second question.
pub struct CountPaths {
    processes: BTreeMap<u32, (Arc<Matcher>, Vec<u64>)>,
    instructions: u64,
}

/// What a segment tells of the second question.
pub struct Counted {
    matcher: Option<Arc<Matcher>>,
    state: u32,
    units: u64,
    instructions: u64,
    /// For each path: where it ended the last time, and how often it was executed.
    paths: Vec<(u64, u64)>,
}

impl CountPaths {
    /// Asks how often candidates are executed.
    #[must_use]
    pub fn new(candidates: Candidates) -> Self {
        let mut processes: BTreeMap<u32, Vec<Path>> = BTreeMap::new();
        for (process, path) in candidates.0 {
            processes.entry(process).or_default().push(path);
        }
        let matcher = |(process, paths): (u32, Vec<Path>)| {
            let counts = vec![0; paths.len()];
            (process, (Arc::new(Matcher::new(paths)), counts))
        };
        Self { processes: processes.into_iter().map(matcher).collect(), instructions: 0 }
    }
}

impl Visitor for Counted {
    fn ran(&mut self, ran: &Ran<'_>) {
        self.instructions += ran.steps.saturating_sub(ran.from) as u64;
        let Some(matcher) = &self.matcher else { return };
        let Some(letter) = ran.exit.and_then(|exit| letter(ran.unit, exit)) else { return };
        self.units += 1;
        self.state = matcher.next(self.state, letter);
        for path in matcher.ending(self.state) {
            let (last, times) = &mut self.paths[path];
            if self.units - matcher.paths()[path].len() as u64 >= *last {
                (*last, *times) = (self.units, *times + 1);
            }
        }
    }

    fn event(&mut self, event: &Event) {
        // The thread is somewhere else now.
        if matches!(event, Event::State(_)) {
            self.state = 0;
        }
    }
}

impl Analysis for CountPaths {
    type Part = Counted;
    type Report = Report;

    fn wants_memory(&self) -> bool {
        false
    }

    fn part(&self, segment: &Segment) -> Counted {
        let matcher = self.processes.get(&segment.process).map(|(matcher, _)| Arc::clone(matcher));
        let paths = vec![(0, 0); matcher.as_ref().map_or(0, |matcher| matcher.paths().len())];
        Counted { matcher, state: 0, units: 0, instructions: 0, paths }
    }

    fn combine(&mut self, segment: &Segment, part: Counted) {
        self.instructions += part.instructions;
        if let Some((_, counts)) = self.processes.get_mut(&segment.process) {
            counts.iter_mut().zip(part.paths).for_each(|(sum, (_, times))| *sum += times);
        }
    }

    fn finish(self, code: &dyn Code, locate: &dyn Locate) -> Report {
        let mut all: Vec<(u64, u64, u32, &Path)> = Vec::new();
        let mut known: BTreeMap<u32, Letters<'_>> = BTreeMap::new();
        for (&process, (matcher, counts)) in &self.processes {
            let letters = known.entry(process).or_insert_with(|| Letters(code.units(process)));
            for (path, &times) in matcher.paths().iter().zip(counts).filter(|(_, times)| **times > 0) {
                let len: u64 = path.iter().map(|&letter| letters.len(letter)).sum();
                all.push((len * times, times, process, path));
            }
        }
        all.sort_by_key(|&(weight, _, process, path)| (Reverse(weight), process, path));
        let mut chosen: Vec<(u64, u64, u32, &Path)> = Vec::new();
        for candidate in all {
            if !chosen.iter().any(|other| is_part(candidate, *other)) {
                chosen.push(candidate);
            }
        }
        let path = |(weight, times, process, path): (u64, u64, u32, &Path)| {
            let letters = &known[&process];
            let units = path.iter().filter_map(|&letter| {
                let pc = letters.find(letter)?.0.pieces.first()?.0;
                let place = Place { process, pc };
                Some(Passed { place, location: locate.locate(place), instructions: letters.len(letter) })
            });
            let is_loop = match (path.last().and_then(|&letter| letters.find(letter)), path.first()) {
                (Some((last, exit)), Some(&first)) => {
                    let start = letters.find(first).and_then(|(unit, _)| unit.pieces.first());
                    last.exits.get(exit).is_some_and(|exit| Some(exit.to) == start.map(|start| start.0))
                }
                _ => false,
            };
            HotPath { process, times, instructions: weight, is_loop, units: units.collect() }
        };
        Report { instructions: self.instructions, paths: chosen.into_iter().map(path).collect() }
    }
}

/// Whether a path is executed hardly ever but in another: also if that is a loop and the path goes on into its next turn.
fn is_part(candidate: (u64, u64, u32, &Path), other: (u64, u64, u32, &Path)) -> bool {
    let ((_, times, process, path), (_, others, in_process, whole)) = (candidate, other);
    let turns: Vec<Letter> = whole.iter().chain(whole.iter()).copied().collect();
    let starts = (0..whole.len()).filter(|&at| turns[at..].starts_with(path)).count() as u64;
    process == in_process && starts > 0 && times * 20 <= others * starts * 21
}

/// The units of a process.
struct Letters<'u>(&'u [Arc<Unit>]);

impl<'u> Letters<'u> {
    fn find(&self, letter: Letter) -> Option<(&'u Unit, usize)> {
        let unit = self.0.get((letter >> EXIT_BITS) as usize)?;
        Some((unit, (letter & ((1 << EXIT_BITS) - 1)) as usize))
    }

    /// How many instructions are executed.
    fn len(&self, letter: Letter) -> u64 {
        self.find(letter).and_then(|(unit, exit)| unit.exits.get(exit)).map_or(0, |exit| exit.steps.into())
    }
}

/// Code that is executed without a look to the left or right, up to where it is left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Passed {
    /// Where it begins.
    #[serde(flatten)]
    pub place: Place,
    /// The same in words.
    #[serde(flatten)]
    pub location: Location,
    /// How many instructions.
    pub instructions: u64,
}

/// A path that is executed often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HotPath {
    /// The process, in the trace.
    pub process: u32,
    /// How often.
    pub times: u64,
    /// How many instructions that makes.
    pub instructions: u64,
    /// Whether it leads back to where it begins.
    pub is_loop: bool,
    /// What it passes.
    pub units: Vec<Passed>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// All instructions.
    pub instructions: u64,
    /// Paths, those with most instructions first. They may overlap.
    pub paths: Vec<HotPath>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Program, run_cut};

    #[test]
    fn one_turn_of_a_loop() {
        assert_eq!(*turn(&[3, 1, 2, 3, 1, 2]), [1, 2, 3]);
        assert_eq!(*turn(&[7, 7, 7]), [7]);
        assert_eq!(*turn(&[3, 1, 2]), [3, 1, 2]);
        assert_eq!(*turn(&[1, 2, 1]), [1, 2, 1]);
        assert!(has_turns(&[5, 1, 2, 1, 2, 1, 2, 6]) && has_turns(&[1, 1, 1]));
        assert!(!has_turns(&[1, 2, 1, 2, 3, 1, 2]) && !has_turns(&[1, 1]));
    }

    #[test]
    fn of_nested_loops() {
        let program =
            Program::new(&[(0x1000, &[0x90, 0x90]), (0x2000, &[0x90]), (0x3000, &[0xc3]), (0x4000, &[0xc3])]);
        let mut thread = program.thread();
        for i in 0..100 {
            for _ in 0..10 {
                thread.run_to(0, 0);
                thread.run_to(1, 1);
            }
            thread.run_to(if i % 50 == 0 { 3 } else { 2 }, 0);
        }
        // No segment ends in the middle of a turn.
        for cut in [504, 10_000] {
            let candidates = run_cut(FindPaths::new(64), &program, std::slice::from_ref(&thread), cut);
            let report = run_cut(CountPaths::new(candidates), &program, std::slice::from_ref(&thread), cut);
            assert_eq!(report.instructions, 3100);
            let inner = &report.paths[0];
            let passed: Vec<u64> = inner.units.iter().map(|unit| unit.place.pc).collect();
            assert_eq!((passed, inner.times, inner.instructions), (vec![0x1000, 0x2000], 1000, 3000));
        }
    }
}
