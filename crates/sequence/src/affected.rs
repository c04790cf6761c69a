//! Which functions do other things than before, by whole sequences of both builds: what impact analysis should have said.

use crate::map::CallMap;
use crate::model::{Call, NONE, Sequence};
use crate::require::{Alike, alike};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Functions of the new build, by address, whose executions make other calls than those they correspond to ([`merge`](crate::merge())), or
/// correspond to none and are not like all of before. All others can be exempt.
#[must_use]
pub fn affected(old: &Sequence, new: &Sequence, map: &CallMap) -> BTreeSet<u64> {
    let compare = Compare { old, new, identity: Identity::new(old, new, map), alike: alike(old) };
    let mut affected: BTreeSet<u32> = BTreeSet::new();
    let mut seen: HashSet<(Option<u32>, u32)> = HashSet::new();
    let mut waiting: Vec<(Option<u32>, u32)> = Vec::new();
    for (number, thread) in new.threads.iter().enumerate() {
        let before = old.threads.get(number);
        waiting.push((before.map(|before| before.calls), thread.calls));
        waiting.push((before.map(|before| before.handlers), thread.handlers));
    }
    while let Some((before, now)) = waiting.pop() {
        if !seen.insert((before, now)) {
            continue;
        }
        let function = new.bodies[now as usize].function;
        if function != NONE && compare.differs(before, now) {
            affected.insert(function);
        }
        let mut by_site: HashMap<u32, Vec<u32>> = HashMap::new();
        for call in before.into_iter().flat_map(|before| old.calls(before)) {
            if let Some(site) = compare.identity.sites[call.site as usize] {
                by_site.entry(site).or_default().push(call.body);
            }
        }
        let mut counts: HashMap<u32, usize> = HashMap::new();
        for Call { site, body } in new.calls(now) {
            let count = counts.entry(site).or_default();
            let then = by_site.get(&site).and_then(|calls| calls.get(*count)).copied();
            *count += 1;
            let called = new.bodies[body as usize].function;
            waiting.push((then.filter(|&then| compare.function(then) == Some(called)), body));
        }
    }
    let of_build = affected.into_iter().map(|function| &new.functions[function as usize]);
    let is_new = |module: u32| map.is_new(new.modules.get(module as usize));
    of_build.filter(|function| is_new(function.module)).map(|function| function.address).collect()
}

/// By function and site of the old sequence: which it is in the new one.
struct Identity {
    functions: Vec<Option<u32>>,
    sites: Vec<Option<u32>>,
}

impl Identity {
    fn new(old: &Sequence, new: &Sequence, map: &CallMap) -> Self {
        let module = |module: u32| {
            let of = old.modules.get(module as usize);
            let is_old = map.is_old(of);
            let is_it =
                |other: &crate::Module| if is_old { map.is_new(Some(other)) } else { Some(other) == of };
            let now = new.modules.iter().position(is_it).map(|module| module as u32);
            (if module == NONE { Some(NONE) } else { now }, is_old)
        };
        let of_new: HashMap<_, _> =
            new.functions.iter().zip(0..).map(|(f, i)| ((f.module, f.address), i)).collect();
        let function = |function: &crate::Function| {
            let (module, has_changed) = module(function.module);
            let moved = || map.functions.get(&function.address).copied();
            let address = if has_changed { moved()? } else { function.address };
            of_new.get(&(module?, address)).copied()
        };
        let functions = old.functions.iter().map(function).collect();
        let of_new: HashMap<_, _> = new.sites.iter().copied().zip(0..).collect();
        let site = |site: &crate::Site| {
            let (module, has_changed) = module(site.module);
            let address = if has_changed { map.site(site.address)? } else { site.address };
            of_new.get(&crate::Site { module: module?, address, kind: site.kind }).copied()
        };
        Self { functions, sites: old.sites.iter().map(site).collect() }
    }
}

struct Compare<'s> {
    old: &'s Sequence,
    new: &'s Sequence,
    identity: Identity,
    alike: HashMap<u32, Alike>,
}

impl Compare<'_> {
    /// The function of a scope of the old sequence.
    fn function(&self, body: u32) -> Option<u32> {
        self.identity.functions[self.old.bodies[body as usize].function as usize]
    }

    /// Whether an execution makes other calls than the one it corresponds to, or than all of its function.
    fn differs(&self, before: Option<u32>, now: u32) -> bool {
        let before = before.or_else(|| {
            let function = self.new.bodies[now as usize].function;
            let of_old = self.identity.functions.iter().position(|new| *new == Some(function))?;
            match self.alike.get(&(of_old as u32)) {
                Some(Alike::All(body)) => Some(*body),
                _ => None,
            }
        });
        let Some(before) = before else { return true };
        let then = self
            .old
            .calls(before)
            .map(|call| (self.identity.sites[call.site as usize], self.function(call.body)));
        let now = self
            .new
            .calls(now)
            .map(|call| (Some(call.site), Some(self.new.bodies[call.body as usize].function)));
        !then.eq(now)
    }
}
