//! The sequence of calls of a run.
//!
//! Each execution of a function is a scope: the calls it makes, in order, each with the scope of what was called. Scopes that are the same
//! are there once ([`Body`]), so that the whole is a directed graph without cycles, and small.

use std::fmt;

/// Not a number of anything.
pub const NONE: u32 = u32::MAX;

/// All calls of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    /// The files that code came from.
    pub modules: Vec<Module>,
    /// The functions that were called, and those that are exempt.
    pub functions: Vec<Function>,
    /// Where they were called.
    pub sites: Vec<Site>,
    /// Scopes, and parts of scopes that are repeated. Those that others are made of come first.
    pub bodies: Vec<Body>,
    /// What threads did, in the order in which they began.
    pub threads: Vec<Thread>,
}

/// A file that code came from.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Module {
    /// Its name.
    pub path: String,
    /// Its build-id, in hexadecimal; empty if it has none.
    pub build_id: String,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Which module it is in; [`NONE`] for the kernel's code and for what the program has made.
    pub module: u32,
    /// Where it begins, as linked.
    pub address: u64,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// What it calls was not written down: that is known from elsewhere.
    pub exempt: bool,
}

/// How a function comes to be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// It is called.
    Call,
    /// Another function ends with a jump to it.
    Tail,
    /// The thread begins there, or a handler, or the recording.
    Begin,
    /// By a function that is exempt: nobody has seen how.
    Unseen,
}

/// A place that calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site {
    /// Which module it is in, or [`NONE`].
    pub module: u32,
    /// The instruction that calls, as linked.
    pub address: u64,
    /// How.
    pub kind: Kind,
}

/// Where an execution is known from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// It was recorded, as all of the sequence was.
    #[default]
    Measured,
    /// It was recorded anew.
    Remeasured,
    /// It was taken over from another build.
    Reused,
    /// It was taken over, and is not at the place where it was.
    Repositioned,
}

/// An execution of a function; or a part of one that is repeated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Body {
    /// The function; [`NONE`] if it is a part.
    pub function: u32,
    /// Where it is known from.
    pub origin: Origin,
    /// What it calls, in order.
    pub items: Vec<Item>,
}

/// Calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Item {
    /// From where; [`NONE`] if it is a part with calls of its own.
    pub site: u32,
    /// The scope of the function that is called, or the part.
    pub body: u32,
    /// How often in a row.
    pub times: u64,
}

/// A thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Which process, in the order in which they began.
    pub process: u32,
    /// The thread, as the kernel numbered it.
    pub thread: u32,
    /// A part: the functions it began with.
    pub calls: u32,
    /// A part: the handlers of signals that it executed.
    pub handlers: u32,
}

/// A call in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// From where.
    pub site: u32,
    /// The scope of the function that is called.
    pub body: u32,
}

/// Calls of one scope, each in its turn.
pub struct Calls<'s> {
    bodies: &'s [Body],
    /// Parts that are gone through, the innermost last: which, which of its items, how many turns of that are left.
    open: Vec<(u32, usize, u64)>,
}

impl<'s> Calls<'s> {
    pub(crate) fn new(bodies: &'s [Body], body: u32) -> Self {
        Self { bodies, open: vec![(body, 0, 0)] }
    }
}

impl Iterator for Calls<'_> {
    type Item = Call;

    fn next(&mut self) -> Option<Call> {
        loop {
            let (body, item, left) = self.open.last_mut()?;
            let Some(&Item { site, body: called, times }) = self.bodies[*body as usize].items.get(*item)
            else {
                self.open.pop();
                continue;
            };
            *left = if *left == 0 { times } else { *left };
            *left = left.saturating_sub(1);
            if *left == 0 {
                *item += 1;
            }
            if times == 0 {
                continue;
            }
            if self.bodies[called as usize].function == NONE {
                self.open.push((called, 0, 0));
                continue;
            }
            return Some(Call { site, body: called });
        }
    }
}

/// A step on the way through everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A function is entered.
    Enter(Call),
    /// The function entered last, and not left yet, is left.
    Leave,
}

/// All steps of a part, in order.
pub struct Steps<'s> {
    sequence: &'s Sequence,
    open: Vec<Calls<'s>>,
}

impl Iterator for Steps<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        match self.open.last_mut()?.next() {
            Some(call) => {
                self.open.push(self.sequence.calls(call.body));
                Some(Step::Enter(call))
            }
            None => {
                self.open.pop();
                (!self.open.is_empty()).then_some(Step::Leave)
            }
        }
    }
}

impl Sequence {
    /// The calls of a scope or a part, each in its turn.
    #[must_use]
    pub fn calls(&self, body: u32) -> Calls<'_> {
        Calls::new(&self.bodies, body)
    }

    /// All that happens in a scope or a part, one in the other.
    #[must_use]
    pub fn steps(&self, body: u32) -> Steps<'_> {
        Steps { sequence: self, open: vec![self.calls(body)] }
    }

    /// The function of a scope.
    #[must_use]
    pub fn function(&self, body: u32) -> &Function {
        &self.functions[self.bodies[body as usize].function as usize]
    }

    /// What a function is called, or where it is.
    #[must_use]
    pub fn name(&self, function: u32) -> Name<'_> {
        Name(self, function)
    }

    /// Whether what some functions call was not written down.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.functions.iter().any(|function| function.exempt)
    }

    /// How many calls there are, all together.
    #[must_use]
    pub fn len(&self) -> u64 {
        let within = self.within();
        let lists = self.threads.iter().flat_map(|thread| [thread.calls, thread.handlers]);
        lists.map(|list| within[list as usize]).fold(0, u64::saturating_add)
    }

    /// How many calls happen in each body, those in them too.
    #[must_use]
    pub fn within(&self) -> Vec<u64> {
        let mut within: Vec<u64> = Vec::with_capacity(self.bodies.len());
        for body in &self.bodies {
            let of = |item: &Item| {
                let own = u64::from(self.bodies[item.body as usize].function != NONE);
                within[item.body as usize].saturating_add(own).saturating_mul(item.times)
            };
            within.push(body.items.iter().map(of).fold(0, u64::saturating_add));
        }
        within
    }

    /// Whether nothing was called.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What two sequences differ in first: which thread, how many steps of it are the same, and what is next in either. Numbers of threads, and where
    /// executions are known from, do not count.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<String> {
        if self.threads.len() != other.threads.len() {
            return Some(format!("{} and {} threads", self.threads.len(), other.threads.len()));
        }
        for (number, (one, two)) in self.threads.iter().zip(&other.threads).enumerate() {
            for (one, two) in [(one.calls, two.calls), (one.handlers, two.handlers)] {
                let (mut own, mut others) = (self.steps(one), other.steps(two));
                for same in 0_u64.. {
                    let (own, others) = (own.next(), others.next());
                    let (own, others) = (own.map(|s| self.step(s)), others.map(|s| other.step(s)));
                    if own != others {
                        return Some(format!("thread {number}, step {same}: {own:?} and {others:?}"));
                    }
                    if own.is_none() {
                        break;
                    }
                }
            }
        }
        None
    }

    /// A step by what does not depend on how things are numbered.
    fn step(&self, step: Step) -> Option<(u64, Kind, u64, &str)> {
        let Step::Enter(Call { site, body }) = step else { return None };
        let (site, function) = (self.sites[site as usize], self.function(body));
        let module = self.modules.get(function.module as usize).map_or("", |module| &module.build_id);
        Some((site.address, site.kind, function.address, module))
    }
}

/// What a function is called, or where it is.
pub struct Name<'s>(&'s Sequence, u32);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(function) = self.0.functions.get(self.1 as usize) else { return f.write_str("?") };
        match (&function.name, self.0.modules.get(function.module as usize)) {
            (Some(name), _) => f.write_str(name),
            (None, Some(module)) => {
                let file = module.path.rsplit('/').next().unwrap_or_default();
                write!(f, "{file}:{:#x}", function.address)
            }
            (None, None) => write!(f, "{:#x}", function.address),
        }
    }
}

impl Kind {
    /// All of them, in the order of their numbers in a file.
    pub(crate) const ALL: [Self; 4] = [Self::Call, Self::Tail, Self::Begin, Self::Unseen];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Tail => "tail",
            Self::Begin => "begin",
            Self::Unseen => "unseen",
        }
    }
}

impl Origin {
    /// All of them, in the order of their numbers in a file.
    pub(crate) const ALL: [Self; 4] = [Self::Measured, Self::Remeasured, Self::Reused, Self::Repositioned];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Remeasured => "re-measured",
            Self::Reused => "reused",
            Self::Repositioned => "repositioned",
        }
    }
}
