//! Sets relive's reading of a program against the truth and counts every difference.

use crate::oracle::callgrind::Jumps;
use crate::oracle::listing::{Flow, Listing};
use crate::relive::{Block, Reading};
use crate::truth::{Edge, Function, Step, Truth, Why};
use std::collections::BTreeSet;

/// What is said to be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// A block begins where none can begin.
    WrongStart,
    /// No block begins where one must.
    MissingStart,
    /// A step that can be taken is no edge.
    MissingEdge,
    /// An edge that no step can take.
    WrongEdge,
    /// An executed jump that is no edge, or leads to no block start.
    Executed,
    /// The truths contradict each other: a run took an indirect jump that no table of the source has.
    Truth,
}

/// One difference, in words.
#[derive(Debug)]
pub(crate) struct Violation {
    pub(crate) fault: Fault,
    pub(crate) function: String,
    pub(crate) what: String,
}

/// Why a start that the compiler does not know is right all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Excuse {
    AfterCall,
    /// Behind a jump or return: the compiler may keep two jumps (`jne` and `jp`) in one block.
    AfterJump,
    AfterTrap,
    /// The target of a direct jump of any function: inline assembly, a jump into the middle of another function.
    Target,
    /// In or behind padding that control does not reach.
    Padding,
}

/// The numbers of one file.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) functions: u64,
    pub(crate) found: u64,
    pub(crate) understood: u64,
    /// Blocks of relive inside understood functions, and how the ones unknown to the compiler are excused.
    pub(crate) blocks: u64,
    pub(crate) after_call: u64,
    pub(crate) after_jump: u64,
    pub(crate) after_trap: u64,
    pub(crate) target: u64,
    pub(crate) padding: u64,
    /// Required starts and steps that were looked for.
    pub(crate) required: u64,
    pub(crate) edges: u64,
    pub(crate) executed: u64,
    /// Not faults: targets of indirect jumps beyond the tables, and tail jumps that are no edge.
    pub(crate) extra_targets: u64,
    pub(crate) unlisted_tails: u64,
    pub(crate) violations: Vec<Violation>,
}

impl Findings {
    /// How many functions relive found and understood, with nothing compared yet.
    pub(crate) fn of_functions(truth: &Truth, reading: &Reading) -> Self {
        let mut findings = Self::default();
        for function in &truth.functions {
            let understood = reading.understood(function.entry);
            findings.functions += 1;
            findings.found += u64::from(understood.is_some());
            findings.understood += u64::from(understood == Some(true));
        }
        findings
    }

    pub(crate) fn count(&self, fault: Fault) -> u64 {
        self.violations.iter().filter(|violation| violation.fault == fault).count() as u64
    }

    fn report(&mut self, fault: Fault, function: &Function, what: String) {
        self.violations.push(Violation { fault, function: function.name.clone(), what });
    }
}

/// Blocks and edges of every function that relive says it understands.
pub(crate) fn compare(truth: &Truth, reading: &Reading) -> Findings {
    let mut findings = Findings::of_functions(truth, reading);
    let targets = direct_targets(&truth.listing);
    for function in truth.functions.iter().filter(|function| reading.understood(function.entry) == Some(true))
    {
        check_blocks(function, truth, reading, &targets, &mut findings);
        check_required(function, reading, &mut findings);
        check_edges(function, &truth.listing, reading, &mut findings);
        check_tables(function, &truth.listing, reading, &mut findings);
    }
    findings
}

/// Jumps that a run took, inside functions that relive says it understands.
pub(crate) fn compare_executed(truth: &Truth, reading: &Reading, jumps: &Jumps, findings: &mut Findings) {
    let mut functions: Vec<&Function> = truth.functions.iter().collect();
    functions.sort_by_key(|function| function.entry);
    for &(from, to) in jumps {
        // callgrind shows each round of a `rep movs` as a jump to itself
        let Some(instruction) = truth.listing.at(from) else { continue };
        if !matches!(instruction.flow, Flow::Branch(_) | Flow::Jump(_) | Flow::IndirectJump) {
            continue;
        }
        let Some(function) = functions.iter().find(|function| function.contains(from)) else { continue };
        if reading.understood(function.entry) != Some(true) || !piece_is_understood(function, reading, from) {
            continue;
        }
        if !function.contains(to) {
            continue; // a tail call, or a jump between a function and its nameless part
        }
        findings.executed += 1;
        let in_source = function.starts.is_empty() || function.table_targets.contains(&to);
        if instruction.flow == Flow::IndirectJump && !in_source {
            findings.report(Fault::Truth, function, format!("executed {from:#x} -> {to:#x} is in no table"));
        }
        if reading.block_at(to).is_none() {
            findings.report(
                Fault::Executed,
                function,
                format!("executed {from:#x} -> {to:#x}: no block begins there"),
            );
        } else if let Err(why) = has_edge(reading, from, instruction.end(), to) {
            findings.report(Fault::Executed, function, format!("executed {from:#x} -> {to:#x}: {why}"));
        }
    }
}

/// A cold piece that relive took for a function of its own and did not understand is not judged.
fn piece_is_understood(function: &Function, reading: &Reading, address: u64) -> bool {
    let piece = function.pieces.iter().find(|piece| piece.contains(&address));
    piece.is_none_or(|piece| reading.understood(piece.start) != Some(false))
}

fn direct_targets(listing: &Listing) -> BTreeSet<u64> {
    let target = |flow| match flow {
        Flow::Branch(to) | Flow::Jump(to) => Some(to),
        _ => None,
    };
    listing.all().filter_map(|instruction| target(instruction.flow)).collect()
}

fn check_blocks(
    function: &Function,
    truth: &Truth,
    reading: &Reading,
    targets: &BTreeSet<u64>,
    findings: &mut Findings,
) {
    for piece in function.pieces.iter().filter(|piece| reading.understood(piece.start) != Some(false)) {
        for block in reading.blocks_in(piece) {
            findings.blocks += 1;
            if !function.starts.contains(&block.address) {
                match excuse(block.address, &truth.listing, targets) {
                    Ok(Excuse::AfterCall) => findings.after_call += 1,
                    Ok(Excuse::AfterJump) => findings.after_jump += 1,
                    Ok(Excuse::AfterTrap) => findings.after_trap += 1,
                    Ok(Excuse::Target) => findings.target += 1,
                    Ok(Excuse::Padding) => findings.padding += 1,
                    Err(why) => {
                        findings.report(
                            Fault::WrongStart,
                            function,
                            format!("block at {:#x}: {why}", block.address),
                        );
                        continue;
                    }
                }
            }
            if let Err(why) = successors_are_possible(block, function, &truth.listing) {
                findings.report(Fault::WrongEdge, function, format!("block at {:#x}: {why}", block.address));
            }
        }
    }
}

fn excuse(start: u64, listing: &Listing, targets: &BTreeSet<u64>) -> Result<Excuse, &'static str> {
    let Some(instruction) = listing.at(start) else { return Err("not on an instruction") };
    let before = listing.before(start).map(|before| before.flow);
    match before {
        Some(Flow::Call) => Ok(Excuse::AfterCall),
        Some(Flow::Branch(_) | Flow::Jump(_) | Flow::IndirectJump | Flow::Return) => Ok(Excuse::AfterJump),
        Some(Flow::Trap | Flow::Invalid) => Ok(Excuse::AfterTrap),
        _ if targets.contains(&start) => Ok(Excuse::Target),
        Some(Flow::Nop) if in_dead_padding(start, listing) => Ok(Excuse::Padding),
        None if instruction.flow == Flow::Nop => Ok(Excuse::Padding),
        _ => Err("control comes only from the instruction in front of it"),
    }
}

/// Goes back over padding: dead if what stands in front of it does not let control through (or is a call, which may not).
fn in_dead_padding(start: u64, listing: &Listing) -> bool {
    let mut at = start;
    while let Some(before) = listing.before(at) {
        match before.flow {
            Flow::Nop | Flow::Trap => at = before.address,
            Flow::Jump(_) | Flow::IndirectJump | Flow::Return | Flow::Call => return true,
            _ => return false,
        }
    }
    true
}

fn successors_are_possible(block: &Block, function: &Function, listing: &Listing) -> Result<(), String> {
    let end = block.end();
    let Some(last) = listing.before(end) else {
        return Err(format!("its end {end:#x} is not behind an instruction"));
    };
    let possible: &dyn Fn(u64) -> bool = match last.flow {
        Flow::Jump(to) => &move |s| s == to,
        Flow::Branch(to) => &move |s| s == to || s == end,
        Flow::Next | Flow::Nop => &|s| s == end,
        // a call may also leave by an exception
        Flow::Call => &|s| s == end || function.required.get(&s) == Some(&Why::LandingPad),
        Flow::IndirectJump => return Ok(()), // judged with the tables
        Flow::Return | Flow::Trap | Flow::Invalid => &|_| false,
    };
    match block.successors.iter().find(|&&successor| !possible(successor)) {
        Some(successor) => {
            Err(format!("edge to {successor:#x}, but its last instruction is {:?}", last.flow))
        }
        None => Ok(()),
    }
}

fn check_required(function: &Function, reading: &Reading, findings: &mut Findings) {
    for (&address, why) in &function.required {
        if !piece_is_understood(function, reading, address) {
            continue;
        }
        findings.required += 1;
        if reading.block_at(address).is_none() {
            findings.report(
                Fault::MissingStart,
                function,
                format!("no block at {address:#x}, which is a {why:?}"),
            );
        }
    }
}

fn check_edges(function: &Function, listing: &Listing, reading: &Reading, findings: &mut Findings) {
    for &Edge { from, to, step } in &function.edges {
        if !piece_is_understood(function, reading, from) {
            continue;
        }
        let end = listing.at(from).map_or(from, |instruction| instruction.end());
        let outcome = has_edge(reading, from, end, to);
        // Only jumps have to end a block here: whether a start is missing is asked elsewhere.
        let ends_block = reading.block_around(from).is_some_and(|block| block.end() == end);
        match step {
            Step::Tail => findings.unlisted_tails += u64::from(outcome.is_err()),
            Step::Return | Step::Into if !ends_block && reading.block_around(from).is_some() => {}
            _ => {
                findings.edges += 1;
                if let Err(why) = outcome {
                    findings.report(
                        Fault::MissingEdge,
                        function,
                        format!("{step:?} {from:#x} -> {to:#x}: {why}"),
                    );
                }
            }
        }
    }
}

fn has_edge(reading: &Reading, from: u64, end: u64, to: u64) -> Result<(), String> {
    let Some(block) = reading.block_around(from) else { return Err("in no block".to_owned()) };
    if block.end() != end {
        return Err(format!("in the middle of the block at {:#x}", block.address));
    }
    if !block.successors.contains(&to) {
        return Err(format!("no edge from the block at {:#x}", block.address));
    }
    Ok(())
}

/// Every target of the function's tables must be a successor of some indirect jump. Which jump uses which table the
/// assembler source does not say, so the targets of all its indirect jumps are taken together.
fn check_tables(function: &Function, listing: &Listing, reading: &Reading, findings: &mut Findings) {
    let blocks = function.pieces.iter().flat_map(|piece| reading.blocks_in(piece));
    let indirect = |b: &&Block| listing.before(b.end()).is_some_and(|last| last.flow == Flow::IndirectJump);
    let reached: BTreeSet<u64> =
        blocks.filter(indirect).flat_map(|block| block.successors.iter().copied()).collect();
    findings.extra_targets +=
        reached.difference(&function.table_targets).filter(|&&to| function.contains(to)).count() as u64;
    findings.edges += function.table_targets.len() as u64;
    for missing in function.table_targets.difference(&reached) {
        findings.report(
            Fault::MissingEdge,
            function,
            format!("no indirect jump leads to {missing:#x}, which is in a table"),
        );
    }
}

#[cfg(test)]
mod tests;
