//! What a new run has measured, and the rest out of an old one.
//!
//! Every execution of a function that is not exempt is there, with its calls. What happens in one that is exempt is taken from the old
//! run: from the same call of the execution that corresponds to its caller's. Executions correspond if they are called from the same
//! place for the same time, k-th and k-th, by executions that do; those that threads begin with, if threads began in the same order.
//! Within what is taken over, executions of functions that are not exempt are those that the new run has there, one after the other: if it
//! has others, the old run does not tell what happened.
//!
//! An execution that corresponds to none is like all those of its function, if these all make the same calls. If not, nobody knows, and
//! the function cannot be exempt.

use crate::builder::{Builder, Stack};
use crate::map::CallMap;
use crate::model::{Call, Calls, Kind, NONE, Origin, Sequence, Site};
use crate::require::{Alike, alike};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

/// Why sequences cannot be merged.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum MergeError {
    /// The old one has not all calls.
    #[error("the old sequence lacks what exempt functions call: merge it first")]
    OldIsPartial,
    /// Functions cannot be exempt.
    #[error("{}", list(.0))]
    NotReusable(Vec<Refusal>),
}

/// A function that cannot be exempt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusal {
    /// Where it begins in the new build, as linked.
    pub address: u64,
    /// What it is called.
    pub name: String,
    /// Why.
    pub why: Why,
}

/// Why a function cannot be exempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Why {
    /// Nothing tells what it calls.
    #[error("it was not executed before")]
    NotExecuted,
    /// It is executed where it was not before, or more often.
    #[error("one of its executions corresponds to none of before, and those do not all make the same calls")]
    NotAlike,
    /// What it calls, or the place, is not in the new build.
    #[error("it calls what has no counterpart in the new build")]
    NoCounterpart,
    /// Functions it calls were executed otherwise than before.
    #[error("what it calls was not called as before")]
    Otherwise,
}

fn list(refusals: &[Refusal]) -> String {
    let line = |refusal: &Refusal| format!("{} has to be measured: {}", refusal.name, refusal.why);
    refusals.iter().map(line).collect::<Vec<_>>().join("; ")
}

/// How many executions are known from where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origins {
    /// Recorded anew.
    pub remeasured: u64,
    /// Taken over, in their place.
    pub reused: u64,
    /// Taken over, to another place. What lies within moves along and is not counted here.
    pub repositioned: u64,
}

/// Merges what a new run has measured, `partial`, with what an old run tells of functions that were exempt there.
///
/// # Errors
/// If the old run does not tell it. All functions that cannot be exempt are named, as far as that can be seen at once.
pub fn merge(old: &Sequence, partial: &Sequence, map: &CallMap) -> Result<(Sequence, Origins), MergeError> {
    if old.is_partial() {
        return Err(MergeError::OldIsPartial);
    }
    let mut merge = Merge::new(old, partial, map);
    for (number, thread) in partial.threads.iter().enumerate() {
        let before = old.threads.get(number);
        let calls = merge.thread(thread.calls, before.map(|before| before.calls));
        let handlers = merge.thread(thread.handlers, before.map(|before| before.handlers));
        merge.builder.thread(thread.process, thread.thread, calls, handlers);
    }
    if !merge.refused.is_empty() {
        return Err(MergeError::NotReusable(merge.refused.into_iter().collect()));
    }
    Ok((merge.builder.finish(), merge.origins))
}

struct Merge<'s> {
    old: &'s Sequence,
    partial: &'s Sequence,
    builder: Builder,
    /// By function, of the old run and of the new: which it is in what is made, if any.
    old_functions: Vec<Option<u32>>,
    functions: Vec<u32>,
    /// The same for places.
    old_sites: Vec<Option<u32>>,
    sites: Vec<u32>,
    /// By function of what is made.
    exempt: Vec<bool>,
    /// By function of what is made: the execution that all of the old run are like.
    alike: HashMap<u32, Alike>,
    /// By scope of the old run.
    indices: HashMap<u32, Rc<Index>>,
    origins: Origins,
    refused: BTreeSet<Refusal>,
}

/// The calls of a scope of the old run, by place: the scope that was called, and the how manieth call it was.
#[derive(Default)]
struct Index(HashMap<u32, Vec<(u32, u64)>>);

/// A scope that is gone through.
enum Open<'s> {
    /// One that was recorded anew.
    Fresh { calls: Calls<'s>, before: Option<Rc<Index>>, counts: HashMap<u32, usize>, position: u64 },
    /// One that is taken over: its function, its calls of before, and whether it corresponds to that.
    Reused { function: u32, calls: Calls<'s>, corresponds: bool },
}

impl<'s> Merge<'s> {
    fn new(old: &'s Sequence, partial: &'s Sequence, map: &CallMap) -> Self {
        let mut builder = Builder::default();
        let modules: Vec<u32> = partial.modules.iter().map(|module| builder.module(module)).collect();
        let module_of = |module: u32| modules.get(module as usize).copied().unwrap_or(NONE);
        let functions: Vec<u32> = partial
            .functions
            .iter()
            .map(|f| builder.function(module_of(f.module), f.address, f.name.as_deref()))
            .collect();
        let mut exempt = vec![false; functions.len()];
        for (function, &number) in partial.functions.iter().zip(&functions) {
            exempt[number as usize] |= function.exempt;
        }
        let sites =
            partial.sites.iter().map(|s| builder.site(Site { module: module_of(s.module), ..*s })).collect();
        // Modules of the old run: which they are now, and whether addresses have changed.
        let new = partial.modules.iter().position(|module| map.is_new(Some(module)));
        let old_modules: Vec<Option<(u32, bool)>> = old
            .modules
            .iter()
            .map(|module| match map.is_old(Some(module)) {
                true => new.map(|new| (module_of(new as u32), true)),
                false => Some((builder.module(module), false)),
            })
            .collect();
        let module_then = |module: u32| match module {
            NONE => Some((NONE, false)),
            module => old_modules[module as usize],
        };
        let old_functions = old
            .functions
            .iter()
            .map(|function| {
                let (module, has_changed) = module_then(function.module)?;
                let address = match has_changed {
                    true => *map.functions.get(&function.address)?,
                    false => function.address,
                };
                Some(builder.function(module, address, function.name.as_deref()))
            })
            .collect();
        let old_sites = old
            .sites
            .iter()
            .map(|site| {
                let (module, has_changed) = module_then(site.module)?;
                let address = match has_changed {
                    true => map.site(site.address)?,
                    false => site.address,
                };
                Some(builder.site(Site { module, address, kind: site.kind }))
            })
            .collect();
        let mut merge = Self {
            old,
            partial,
            builder,
            old_functions,
            functions,
            old_sites,
            sites,
            exempt,
            alike: HashMap::new(),
            indices: HashMap::new(),
            origins: Origins::default(),
            refused: BTreeSet::new(),
        };
        for (function, of_it) in alike(old) {
            if let Some(now) = merge.old_functions[function as usize] {
                merge.alike.insert(now, of_it);
            }
        }
        merge
    }

    fn is_exempt(&self, function: u32) -> bool {
        self.exempt.get(function as usize).is_some_and(|exempt| *exempt)
    }

    /// The function that a scope of the new run is of.
    fn function(&self, body: u32) -> u32 {
        self.functions[self.partial.bodies[body as usize].function as usize]
    }

    /// The same for a scope of the old run.
    fn old_function(&self, body: u32) -> Option<u32> {
        self.old_functions[self.old.bodies[body as usize].function as usize]
    }

    /// All that a thread did.
    fn thread(&mut self, calls: u32, before: Option<u32>) -> Stack {
        let mut stack = Stack::default();
        let mut open = vec![self.fresh(calls, before)];
        // What was recorded in scopes that are taken over.
        let mut recorded: Vec<Calls<'s>> = Vec::new();
        while let Some(innermost) = open.last_mut() {
            let next = match innermost {
                Open::Fresh { calls, before, counts, position } => calls.next().map(|call| {
                    let (site, here) = (self.sites[call.site as usize], *position);
                    *position += 1;
                    let count = counts.entry(site).or_default();
                    *count += 1;
                    let calls = before.as_ref().and_then(|before| before.0.get(&site));
                    let then = calls.and_then(|calls| calls.get(*count - 1)).copied();
                    self.call(call, site, then, here)
                }),
                Open::Reused { function, calls, corresponds } => calls.next().map(|call| {
                    let (function, corresponds) = (*function, *corresponds);
                    self.call_again(function, call, corresponds, recorded.last_mut())
                }),
            };
            match next {
                Some(Ok(Entered { site, function, origin, open: scope, recorded: within })) => {
                    recorded.extend(within);
                    self.builder.enter(&mut stack, site, function, origin);
                    open.push(scope);
                }
                // What happens there is not known: all of it is left out, as no sequence will be made.
                Some(Err((function, why))) => {
                    self.refuse(function, why);
                    if matches!(open.last(), Some(Open::Reused { .. })) {
                        while matches!(open.last(), Some(Open::Reused { .. })) {
                            self.builder.leave(&mut stack);
                            open.pop();
                        }
                        recorded.pop();
                    }
                }
                None => {
                    let over = open.pop();
                    let is_last = !matches!(open.last(), Some(Open::Reused { .. }));
                    if let Some(Open::Reused { function, .. }) = over
                        && is_last
                        && recorded.pop().is_some_and(|mut recorded| recorded.next().is_some())
                    {
                        self.refuse(function, Why::Otherwise);
                    }
                    self.builder.leave(&mut stack);
                }
            }
        }
        stack
    }

    fn refuse(&mut self, function: u32, why: Why) {
        let of = self.builder.function_of(function);
        let name = of.name.clone().unwrap_or_else(|| format!("{:#x}", of.address));
        self.refused.insert(Refusal { address: of.address, name, why });
    }

    /// The execution that all of a function are like.
    fn alike(&self, function: u32) -> Result<u32, (u32, Why)> {
        match self.alike.get(&function) {
            Some(Alike::All(body)) => Ok(*body),
            Some(Alike::Not) => Err((function, Why::NotAlike)),
            None => Err((function, Why::NotExecuted)),
        }
    }

    /// A scope that was recorded anew, and the one of the old run that it corresponds to.
    fn fresh(&mut self, body: u32, before: Option<u32>) -> Open<'s> {
        let before = before.map(|before| self.index(before));
        Open::Fresh { calls: self.partial.calls(body), before, counts: HashMap::new(), position: 0 }
    }

    fn index(&mut self, body: u32) -> Rc<Index> {
        let (old, sites) = (self.old, &self.old_sites);
        let index = self.indices.entry(body).or_insert_with(|| {
            let mut index = Index::default();
            for (position, Call { site, body }) in (0..).zip(old.calls(body)) {
                if let Some(site) = sites[site as usize] {
                    index.0.entry(site).or_default().push((body, position));
                }
            }
            Rc::new(index)
        });
        index.clone()
    }

    /// A call that was recorded: from where, the call it corresponds to, if there is one, and the how manieth it is.
    fn call(
        &mut self,
        call: Call,
        site: u32,
        then: Option<(u32, u64)>,
        here: u64,
    ) -> Result<Entered<'s>, (u32, Why)> {
        let function = self.function(call.body);
        let then = then.filter(|(body, _)| self.old_function(*body) == Some(function));
        if !self.is_exempt(function) {
            self.origins.remeasured += 1;
            let open = self.fresh(call.body, then.map(|then| then.0));
            return Ok(Entered { site, function, origin: Origin::Remeasured, open, recorded: None });
        }
        let (body, corresponds, origin) = match then {
            Some((body, position)) if position == here => (body, true, Origin::Reused),
            Some((body, _)) => (body, true, Origin::Repositioned),
            None => (self.alike(function)?, false, Origin::Repositioned),
        };
        match origin {
            Origin::Reused => self.origins.reused += 1,
            _ => self.origins.repositioned += 1,
        }
        let open = Open::Reused { function, calls: self.old.calls(body), corresponds };
        Ok(Entered { site, function, origin, open, recorded: Some(self.partial.calls(call.body)) })
    }

    /// A call in a scope that is taken over, which was recorded if what is called is not exempt.
    fn call_again(
        &mut self,
        caller: u32,
        call: Call,
        corresponds: bool,
        recorded: Option<&mut Calls<'s>>,
    ) -> Result<Entered<'s>, (u32, Why)> {
        let site = self.old_sites[call.site as usize].ok_or((caller, Why::NoCounterpart))?;
        let function = self.old_function(call.body).ok_or((caller, Why::NoCounterpart))?;
        if self.is_exempt(function) {
            let body = if corresponds { call.body } else { self.alike(function)? };
            self.origins.reused += 1;
            let open = Open::Reused { function, calls: self.old.calls(body), corresponds };
            return Ok(Entered { site, function, origin: Origin::Reused, open, recorded: None });
        }
        let fresh = recorded.and_then(Iterator::next).ok_or((caller, Why::Otherwise))?;
        let is_unseen = self.partial.sites[fresh.site as usize].kind == Kind::Unseen;
        if !is_unseen || self.function(fresh.body) != function {
            return Err((caller, Why::Otherwise));
        }
        self.origins.remeasured += 1;
        let open = self.fresh(fresh.body, Some(call.body).filter(|_| corresponds));
        Ok(Entered { site, function, origin: Origin::Remeasured, open, recorded: None })
    }
}

/// A function that is entered.
struct Entered<'s> {
    site: u32,
    function: u32,
    origin: Origin,
    open: Open<'s>,
    /// If it is the outermost that is taken over: what was recorded in it.
    recorded: Option<Calls<'s>>,
}
