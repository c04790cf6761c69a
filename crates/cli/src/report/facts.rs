//! What the report tells, before it is printed in one form or another.

use crate::output::field;
use crate::profiles::hex;
use relive_profile::callees::Callees;
use relive_profile::flow;
use relive_profile::model::{Count, Function, Loop, LoopCounts, Mode, Module, Origin, Profile, State};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// Everything, the hottest first.
pub(crate) struct Facts<'p> {
    pub(crate) modules: Vec<ModuleFacts<'p>>,
    pub(crate) functions: Vec<FunctionFacts<'p>>,
    pub(crate) loops: Vec<LoopFacts<'p>>,
    pub(crate) calls: Vec<CallFacts<'p>>,
    /// Instructions executed, over all modules.
    pub(crate) instructions: u64,
}

/// How many there are, how many were measured, and how many of those ran.
#[derive(Clone, Copy, Default)]
pub(crate) struct Coverage {
    pub(crate) total: u64,
    pub(crate) measured: u64,
    pub(crate) executed: u64,
}

impl Coverage {
    fn add(&mut self, count: Option<Count>) {
        self.measured += u64::from(count.is_some());
        self.executed += u64::from(count.is_some_and(|count| count.value() > 0));
    }
}

/// Functions that share a reason.
#[derive(Clone, Copy, Default)]
pub(crate) struct Amount {
    pub(crate) functions: u64,
    pub(crate) bytes: u64,
}

impl Amount {
    fn add(&mut self, function: &Function) {
        self.functions += 1;
        self.bytes += function.size;
    }
}

/// Reasons and what they hold for, the most frequent first.
pub(crate) type Reasons<'p> = Vec<(&'p str, Amount)>;

pub(crate) struct ModuleFacts<'p> {
    pub(crate) module: &'p Module,
    pub(crate) functions: Coverage,
    pub(crate) blocks: Coverage,
    /// How often blocks ran, all together.
    pub(crate) block_executions: u64,
    /// The same, by where the counts come from.
    pub(crate) origins: BTreeMap<Origin, u64>,
    pub(crate) instructions: u64,
    pub(crate) not_measured: Reasons<'p>,
    pub(crate) entry_only: Reasons<'p>,
    pub(crate) approximate: Reasons<'p>,
    /// Functions whose counts do not add up.
    pub(crate) inconsistent: Vec<&'p Function>,
}

pub(crate) struct FunctionFacts<'p> {
    pub(crate) module: &'p Module,
    pub(crate) function: &'p Function,
    pub(crate) entries: Option<u64>,
    pub(crate) instructions: Option<u64>,
    pub(crate) blocks: Coverage,
    /// How often its blocks ran, by where the counts come from.
    pub(crate) origins: Vec<(Origin, u64)>,
    /// How sure that is, in per cent: the mean over its blocks, each as often as it ran.
    pub(crate) confidence: Option<u8>,
}

pub(crate) struct LoopFacts<'p> {
    pub(crate) module: &'p Module,
    pub(crate) function: &'p Function,
    pub(crate) looped: &'p Loop,
    pub(crate) counts: LoopCounts,
    /// Instructions executed in it, but not in a loop inside.
    pub(crate) instructions: u64,
}

impl LoopFacts<'_> {
    /// How often the header ran each time the loop was entered.
    pub(crate) fn trips(&self) -> Option<f64> {
        let (entries, iterations) = (self.counts.entries.value(), self.counts.iterations.value());
        (entries > 0).then(|| iterations as f64 / entries as f64)
    }

    /// The address of the header.
    pub(crate) fn address(&self) -> u64 {
        self.function.blocks.get(self.looped.header as usize).map_or(0, |block| block.address)
    }
}

pub(crate) struct CallFacts<'p> {
    pub(crate) module: &'p Module,
    pub(crate) caller: &'p Function,
    /// As in the symbol table; `?` if it is not known.
    pub(crate) callee: String,
    /// The same, if this profile has it.
    pub(crate) function: Option<&'p Function>,
    pub(crate) count: u64,
}

impl<'p> Facts<'p> {
    pub(crate) fn new(profile: &'p Profile) -> Self {
        let modules: Vec<_> = profile.modules.iter().map(ModuleFacts::new).collect();
        let each = || profile.modules.iter().flat_map(|m| m.functions.iter().map(move |f| (m, f)));
        let mut functions: Vec<_> =
            each().map(|(module, function)| FunctionFacts::new(module, function)).collect();
        functions.sort_by_key(|f| (Reverse((f.instructions, f.entries)), f.function.address));
        let mut loops: Vec<_> = each().flat_map(|(module, function)| loops(module, function)).collect();
        loops.sort_by_key(|l| (Reverse((l.instructions, l.counts.iterations.value())), l.address()));
        let instructions = modules.iter().fold(0, |sum: u64, m| sum.saturating_add(m.instructions));
        Self { modules, functions, loops, calls: calls(profile), instructions }
    }

    /// What tells a module from the others, if there are any: the name of its file and, if that is not
    /// enough, the start of its build-id.
    pub(crate) fn label(&self, module: &Module) -> Option<String> {
        let file = |module: &Module| module.path.rsplit('/').next().unwrap_or_default().to_string();
        let own = file(module);
        let same = self.modules.iter().filter(|other| file(other.module) == own).count();
        match self.modules.len() {
            0 | 1 => None,
            _ if same == 1 => Some(field(&own).into_owned()),
            _ => {
                let id = &module.build_id[..module.build_id.len().min(4)];
                Some(format!("{} {}", field(&own), hex(id)))
            }
        }
    }

    /// Which of the modules that is.
    pub(crate) fn number(&self, module: &Module) -> Option<usize> {
        self.modules.iter().position(|other| std::ptr::eq(other.module, module))
    }
}

impl<'p> ModuleFacts<'p> {
    fn new(module: &'p Module) -> Self {
        let mut facts = Self {
            module,
            functions: Coverage::default(),
            blocks: Coverage::default(),
            block_executions: 0,
            origins: BTreeMap::new(),
            instructions: 0,
            not_measured: Vec::new(),
            entry_only: Vec::new(),
            approximate: Vec::new(),
            inconsistent: Vec::new(),
        };
        let (mut not_measured, mut entry_only, mut approximate) =
            (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let note = |reasons: &mut BTreeMap<&'p str, Amount>, reason, function| {
            reasons.entry(module.text(reason)).or_default().add(function);
        };
        for function in &module.functions {
            facts.functions.total += 1;
            facts.functions.add(ran(function));
            facts.blocks.total += function.blocks.len() as u64;
            match function.state {
                State::Measured => facts.add_blocks(function),
                State::EntryOnly { reason } => note(&mut entry_only, reason, function),
                State::NotMeasured { reason } => note(&mut not_measured, reason, function),
            }
            if let Some(reason) = function.approximate {
                note(&mut approximate, reason, function);
            }
            if !flow::check(function).is_empty() {
                facts.inconsistent.push(function);
            }
        }
        [facts.not_measured, facts.entry_only, facts.approximate] = [not_measured, entry_only, approximate]
            .map(|reasons| {
                let mut reasons: Reasons<'p> = reasons.into_iter().collect();
                reasons.sort_by_key(|(_, amount)| Reverse(amount.functions));
                reasons
            });
        facts
    }
}

impl ModuleFacts<'_> {
    fn add_blocks(&mut self, function: &Function) {
        for block in &function.blocks {
            self.blocks.add(block.count);
            if let Some(count) = block.count {
                self.block_executions = self.block_executions.saturating_add(count.value());
                let sum = self.origins.entry(count.origin).or_default();
                *sum = sum.saturating_add(count.value());
            }
        }
        self.instructions = self.instructions.saturating_add(function.executed_insns());
    }
}

/// How often a function was entered; if that is not known, how often its first block ran.
fn ran(function: &Function) -> Option<Count> {
    function.entries().or_else(|| function.blocks.first()?.count)
}

impl<'p> FunctionFacts<'p> {
    fn new(module: &'p Module, function: &'p Function) -> Self {
        let counted = function.state == State::Measured && module.mode != Mode::Functions;
        let mut facts = Self {
            module,
            function,
            entries: ran(function).map(Count::value),
            instructions: counted.then(|| function.executed_insns()),
            blocks: Coverage { total: function.blocks.len() as u64, ..Coverage::default() },
            origins: Vec::new(),
            confidence: None,
        };
        if function.state == State::Measured {
            facts.add_blocks();
        }
        facts
    }

    fn add_blocks(&mut self) {
        let mut origins = BTreeMap::new();
        let (mut executions, mut sure) = (0u128, 0u128);
        for block in &self.function.blocks {
            self.blocks.add(block.count);
            let Some(count) = block.count.filter(|count| count.value() > 0) else { continue };
            let sum: &mut u64 = origins.entry(count.origin).or_default();
            *sum = sum.saturating_add(count.value());
            executions += u128::from(count.value());
            sure += u128::from(count.value()) * u128::from(count.confidence.percent());
        }
        self.origins = origins.into_iter().collect();
        self.confidence = (executions > 0).then(|| (sure / executions) as u8);
    }

    /// Whether it ran.
    pub(crate) fn is_executed(&self) -> bool {
        self.entries.is_some_and(|entries| entries > 0) || self.instructions.is_some_and(|count| count > 0)
    }
}

fn loops<'p>(module: &'p Module, function: &'p Function) -> Vec<LoopFacts<'p>> {
    // Inner loops come after outer ones, so the last one that holds a block is the innermost.
    let mut innermost = HashMap::new();
    for (looped, i) in function.loops.iter().zip(0..) {
        innermost.extend(looped.blocks.iter().map(|&block| (block, i)));
    }
    let mut instructions = vec![0u64; function.loops.len()];
    for (block, i) in innermost {
        if let Some(block) = function.blocks.get(block as usize) {
            let count = block.count.map_or(0, Count::value).saturating_mul(block.insns.into());
            instructions[i as usize] = instructions[i as usize].saturating_add(count);
        }
    }
    let counts = function.loop_counts();
    let all = function.loops.iter().zip(counts).zip(instructions);
    all.filter_map(|((looped, counts), instructions)| {
        Some(LoopFacts { module, function, looped, counts: counts?, instructions })
    })
    .collect()
}

fn calls(profile: &Profile) -> Vec<CallFacts<'_>> {
    let callees = Callees::new(profile);
    let mut calls = Vec::new();
    for module in &profile.modules {
        for caller in &module.functions {
            let mut sums: BTreeMap<String, (u64, Option<&Function>)> = BTreeMap::new();
            for call in &caller.calls {
                for called in callees.of(module, caller, call) {
                    if let Some(count) = called.count.filter(|&count| count > 0) {
                        let (sum, known) = sums.entry(called.name.into_owned()).or_default();
                        *sum = sum.saturating_add(count);
                        *known = known.or(called.function.map(|id| profile.function(id).1));
                    }
                }
            }
            calls.extend(sums.into_iter().map(|(callee, (count, function))| CallFacts {
                module,
                caller,
                callee,
                function,
                count,
            }));
        }
    }
    calls.sort_by_key(|call| (Reverse(call.count), call.caller.address));
    calls
}
