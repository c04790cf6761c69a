//! What is known of functions before anything is affected: which registers they look at, which they leave changed,
//! whether they may not come back, and what pointers may lead to.

use super::code::{Code, Places, Site, Target, of_block};
use super::imports::Import;
use super::mask::{self, INPUTS, Mask, STACK};
use super::objects::Objects;
use super::provenance::Escaped;
use crate::calls::begins_program;
use relive_profile::model::Module;

/// What is known of one function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fact {
    /// What it, or whoever it calls, looks at.
    pub(super) reads: Mask,
    /// What may be other when it comes back.
    pub(super) touches: Mask,
    /// Whether it may go elsewhere than back to its caller.
    pub(super) may_leave: bool,
    /// How many bytes of arguments it reads from the stack.
    pub(super) incoming: u32,
}

impl Fact {
    fn add(&mut self, other: Self) {
        self.reads |= other.reads;
        self.touches |= other.touches;
        self.may_leave |= other.may_leave;
        self.incoming = self.incoming.max(other.incoming);
    }

    fn of_import(import: Import) -> Self {
        Self {
            reads: import.passed() | if import.more { mask::bit(STACK) } else { 0 },
            touches: INPUTS & !(mask::KEPT | mask::RSP | mask::bit(STACK)),
            may_leave: import.may_leave(),
            incoming: if import.more { u32::MAX } else { 0 },
        }
    }
}

/// What is known of all.
pub(super) struct Facts {
    /// By function; behind them, for whatever a pointer leads to.
    pub(super) functions: Vec<Fact>,
    /// Functions that pointers may lead to.
    pub(super) taken: Vec<u32>,
    /// Objects that pointers of unknown origin may lead to.
    pub(super) escaped: Vec<bool>,
    /// Who calls whom: caller by callee, the callee behind the last being whatever a pointer leads to.
    pub(super) callers: Vec<Vec<u32>>,
}

impl Facts {
    /// The number of whatever a pointer leads to.
    pub(super) fn pointer(&self) -> u32 {
        self.functions.len() as u32 - 1
    }

    /// The number of a callee of the module.
    pub(super) fn callee(&self, target: Target) -> Option<u32> {
        match target {
            Target::Function(function) => Some(function),
            Target::Pointer => Some(self.pointer()),
            Target::Import(_) => None,
        }
    }

    /// What is known of a callee.
    pub(super) fn of(&self, target: Target) -> Fact {
        match target {
            Target::Import(import) => Fact::of_import(import),
            other => self.callee(other).map_or(Fact::default(), |callee| self.functions[callee as usize]),
        }
    }

    /// Whether control may be lost in a block.
    pub(super) fn may_end(&self, code: &Code, block: usize) -> bool {
        let own = &code.blocks[block];
        own.stops
            || own.kernel
            || code.sites[of_block(&code.sites, block)].iter().any(|s| self.of(s.target).may_leave)
    }

    pub(super) fn new(
        module: &Module,
        objects: &Objects,
        places: &Places,
        codes: &mut [Code],
        escapes: &[Escaped],
    ) -> Self {
        let taken = taken(module, places, escapes);
        let count = codes.len();
        let mut facts = Self {
            functions: codes.iter().map(own).chain([Fact::of_import(Import::UNKNOWN)]).collect(),
            taken,
            escaped: vec![false; objects.len()],
            callers: vec![Vec::new(); count + 1],
        };
        for (code, caller) in codes.iter().zip(0..) {
            for site in &code.sites {
                if let Some(callee) = facts.callee(site.target) {
                    facts.callers[callee as usize].push(caller);
                }
            }
        }
        for callers in &mut facts.callers {
            callers.dedup();
        }
        facts.settle(codes);
        facts.note_escapes(module, objects, codes, escapes);
        facts
    }

    /// Adds to each function what those have that it calls, until nothing changes.
    fn settle(&mut self, codes: &[Code]) {
        let pointer = self.pointer();
        let mut is_taken = vec![false; codes.len()];
        self.taken.iter().for_each(|&function| is_taken[function as usize] = true);
        let mut pending: Vec<u32> = (0..=pointer).collect();
        while let Some(function) = pending.pop() {
            let mut fact = self.functions[function as usize];
            if let Some(code) = codes.get(function as usize) {
                for Site { target, tail, .. } in &code.sites {
                    let mut callee = self.of(*target);
                    // Arguments on the stack are the callee's own affair, unless they are those of the caller.
                    if !tail {
                        callee.incoming = 0;
                        callee.reads &= !mask::bit(STACK);
                    }
                    fact.add(callee);
                }
                fact.touches &= !(code.saves & mask::KEPT);
            } else {
                self.taken.iter().for_each(|&taken| fact.add(self.functions[taken as usize]));
            }
            if fact != self.functions[function as usize] {
                self.functions[function as usize] = fact;
                pending.extend(&self.callers[function as usize]);
                if is_taken.get(function as usize) == Some(&true) {
                    pending.push(pointer);
                }
            }
        }
    }

    fn note_escapes(&mut self, module: &Module, objects: &Objects, codes: &mut [Code], escapes: &[Escaped]) {
        let mut all = escapes.iter().any(|escaped| escaped.all);
        let mut note = |object: u32| self.escaped[object as usize] = true;
        for escaped in escapes {
            escaped.objects.iter().for_each(|&object| note(object));
        }
        for pointer in module.pointers.iter().filter(|pointer| objects.holds(pointer.to)) {
            objects.reached(pointer.to).into_iter().for_each(&mut note);
        }
        // The loader puts variables of libraries here, and they know where.
        for (block, i) in module.data.iter().zip(0..) {
            if block.name.is_some_and(|name| is_shared(module.text(name))) {
                note(objects.of_block(i));
            }
        }
        for code in codes {
            let handed = std::mem::take(&mut code.handed);
            let kept = handed.iter().filter(|(callee, register, _)| {
                self.functions[*callee as usize].reads & mask::of_gpr(*register) != 0
            });
            let mut escaped = Escaped::default();
            kept.for_each(|(.., origin)| escaped.add(origin));
            code.escapes |= escaped.frame;
            all |= escaped.all;
            escaped.objects.iter().for_each(|&object| note(object));
        }
        if all {
            self.escaped.fill(true);
        }
    }
}

/// Variables that the C library and a program share by name.
fn is_shared(name: &str) -> bool {
    name.contains('@')
        || matches!(
            name,
            "environ"
                | "__environ"
                | "optarg"
                | "optind"
                | "opterr"
                | "optopt"
                | "stdin"
                | "stdout"
                | "stderr"
        )
}

/// What a function does by itself.
fn own(code: &Code) -> Fact {
    if code.opaque {
        let unknown = Fact::of_import(Import::UNKNOWN);
        return Fact { reads: INPUTS & !mask::RSP, ..unknown };
    }
    let mut fact = Fact { incoming: code.incoming, ..Fact::default() };
    for op in &code.ops {
        if !op.keeps {
            fact.reads |= op.reads;
        }
        fact.touches |= op.writes | op.kills;
    }
    fact.touches &= !(mask::RSP | mask::bit(STACK));
    fact.may_leave = code.blocks.iter().any(|block| block.stops || block.kernel);
    fact
}

/// Functions whose address is in data, or in a register other than to call it at once.
fn taken(module: &Module, places: &Places, escapes: &[Escaped]) -> Vec<u32> {
    // An address inside a function is a label, and only its own jumps go there.
    let entered = |at: u64| {
        let function = places.holding(at)?;
        let own = &module.functions[function as usize];
        let is_entry = own.address == at || own.blocks.iter().any(|b| b.is_entry && b.address == at);
        is_entry.then_some(function)
    };
    let data = module.pointers.iter().filter_map(|pointer| entered(pointer.to));
    let functions = module.functions.iter().zip(escapes);
    // What the program begins with hands its main function to the library, which calls it once.
    let code = functions
        .filter(|(function, _)| !begins_program(module, function))
        .flat_map(|(_, escaped)| &escaped.code)
        .filter_map(|&at| entered(at));
    let mut taken: Vec<u32> = data.chain(code).collect();
    taken.sort_unstable();
    taken.dedup();
    taken
}
