//! Makes a sequence out of calls and returns.
//!
//! If functions are exempt, what they call is not written down. Executions of other functions are, wherever they happen: in the scope of
//! the nearest execution around them that was written down itself. So a function that is exempt and was called by one that is not has, in
//! its scope, the executions of all functions that are not exempt, in order, and nothing else.

use crate::lists::Bodies;
use crate::model::{Function, Item, Kind, Module, NONE, Origin, Sequence, Site, Thread};
use std::collections::HashMap;

/// A sequence that is being made.
#[derive(Default)]
pub struct Builder {
    sequence: Sequence,
    bodies: Bodies,
    functions: HashMap<(u32, u64), u32>,
    sites: HashMap<Site, u32>,
}

/// Functions that a thread is in, one in the other.
#[derive(Default)]
pub struct Stack {
    frames: Vec<Frame>,
    roots: Vec<Item>,
}

struct Frame {
    function: u32,
    /// From where it was called; [`NONE`] if nobody writes that down.
    site: u32,
    origin: Origin,
    /// The frame that has its calls: itself, if it is written down; behind all, none has.
    carrier: usize,
    items: Vec<Item>,
}

impl Stack {
    /// How many functions it is in.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.frames.len()
    }

    /// The functions, the innermost last.
    pub fn functions(&self) -> impl DoubleEndedIterator<Item = u32> + ExactSizeIterator {
        self.frames.iter().map(|frame| frame.function)
    }
}

impl Builder {
    /// The number of a module.
    pub fn module(&mut self, module: &Module) -> u32 {
        let modules = &mut self.sequence.modules;
        modules.iter().position(|known| known == module).unwrap_or_else(|| {
            modules.push(module.clone());
            modules.len() - 1
        }) as u32
    }

    /// The number of a function.
    pub fn function(&mut self, module: u32, address: u64, name: Option<&str>) -> u32 {
        let functions = &mut self.sequence.functions;
        let number = *self.functions.entry((module, address)).or_insert_with(|| {
            functions.push(Function { module, address, name: None, exempt: false });
            functions.len() as u32 - 1
        });
        let known = &mut functions[number as usize].name;
        if known.is_none() {
            *known = name.map(Into::into);
        }
        number
    }

    /// What this function calls is not written down, from now on.
    pub fn exempt(&mut self, function: u32) {
        self.sequence.functions[function as usize].exempt = true;
    }

    /// The number of a place that calls.
    pub fn site(&mut self, site: Site) -> u32 {
        let sites = &mut self.sequence.sites;
        *self.sites.entry(site).or_insert_with(|| {
            sites.push(site);
            sites.len() as u32 - 1
        })
    }

    /// What is known of a place that calls.
    #[must_use]
    pub fn site_of(&self, site: u32) -> Site {
        self.sequence.sites[site as usize]
    }

    /// What is known of a function.
    #[must_use]
    pub fn function_of(&self, function: u32) -> &Function {
        &self.sequence.functions[function as usize]
    }

    /// A function is entered.
    pub fn enter(&mut self, stack: &mut Stack, site: u32, function: u32, origin: Origin) {
        let is_exempt = |function: u32| self.sequence.functions[function as usize].exempt;
        let (site, carrier) = match stack.frames.last() {
            Some(caller) if is_exempt(caller.function) => match is_exempt(function) {
                true => (NONE, caller.carrier),
                false => {
                    (self.site(Site { module: NONE, address: 0, kind: Kind::Unseen }), stack.frames.len())
                }
            },
            _ => (site, stack.frames.len()),
        };
        stack.frames.push(Frame { function, site, origin, carrier, items: Vec::new() });
    }

    /// The innermost function is left.
    pub fn leave(&mut self, stack: &mut Stack) {
        let Some(Frame { function, site, origin, items, .. }) = stack.frames.pop() else { return };
        if site == NONE {
            return;
        }
        let body = self.bodies.intern(function, origin, &items);
        let carrier = stack.frames.last().map(|caller| caller.carrier);
        let list = match carrier {
            Some(carrier) => &mut stack.frames[carrier].items,
            None => &mut stack.roots,
        };
        self.bodies.push(list, site, body);
    }

    /// Adds what somebody else did, who is over, and so are all functions it is in.
    pub fn append(&mut self, to: &mut Stack, mut other: Stack) {
        while other.depth() > 0 {
            self.leave(&mut other);
        }
        let list = self.bodies.intern(NONE, Origin::Measured, &other.roots);
        for call in self.bodies.calls(list).collect::<Vec<_>>() {
            self.bodies.push(&mut to.roots, call.site, call.body);
        }
    }

    /// A thread is over, and so are all functions it is in: its calls, and those in handlers.
    pub fn thread(&mut self, process: u32, thread: u32, calls: Stack, handlers: Stack) {
        let [calls, handlers] = [calls, handlers].map(|mut stack| {
            while stack.depth() > 0 {
                self.leave(&mut stack);
            }
            self.bodies.intern(NONE, Origin::Measured, &stack.roots)
        });
        self.sequence.threads.push(Thread { process, thread, calls, handlers });
    }

    /// The sequence.
    #[must_use]
    pub fn finish(self) -> Sequence {
        Sequence { bodies: self.bodies.into_all(), ..self.sequence }
    }
}
