//! Sequences of programs that change: what is merged is what a recording of everything would have been.
//!
//! Programs are models: functions that call others, in loops and under conditions, which may depend on how often the function was executed
//! before. Who is affected by changes is known exactly, by looking at everything that both versions do.

use proptest::prelude::*;
use relive_sequence::builder::Stack;
use relive_sequence::{Builder, CallMap, Kind, MergeError, Module, Origin, Sequence, Site, merge, require};
use std::collections::{BTreeMap, BTreeSet};

const FUNCTIONS: usize = 6;

#[derive(Clone, Debug)]
enum Statement {
    /// A site, which keeps its number when it moves, and whom it calls.
    Call(u32, usize),
    /// So many times.
    Loop(u32, Vec<Statement>),
    /// As many times as the function was executed before, modulo this.
    LoopByInstance(u32, Vec<Statement>),
    /// Every other time the function is executed.
    If(bool, Vec<Statement>),
}
use Statement::{Call, If, Loop, LoopByInstance};

/// The bodies of functions; the first is the one that is executed.
#[derive(Clone, Debug)]
struct Program(Vec<Vec<Statement>>);

/// An execution.
#[derive(Clone, Debug)]
struct Execution {
    function: usize,
    calls: Vec<(u32, Execution)>,
}

impl Execution {
    fn own(&self) -> Vec<(u32, usize)> {
        self.calls.iter().map(|(site, called)| (*site, called.function)).collect()
    }

    fn each<'e>(&'e self, visit: &mut impl FnMut(&'e Execution)) {
        visit(self);
        self.calls.iter().for_each(|(_, called)| called.each(visit));
    }
}

impl Program {
    fn execute(&self) -> Execution {
        self.call(0, &mut vec![0; self.0.len()])
    }

    fn call(&self, function: usize, instances: &mut Vec<u32>) -> Execution {
        let instance = instances[function];
        instances[function] += 1;
        let mut execution = Execution { function, calls: Vec::new() };
        self.run(&self.0[function], instance, &mut execution, instances);
        execution
    }

    fn run(&self, body: &[Statement], instance: u32, to: &mut Execution, instances: &mut Vec<u32>) {
        for statement in body {
            match statement {
                Call(site, callee) => to.calls.push((*site, self.call(*callee, instances))),
                Loop(times, body) => (0..*times).for_each(|_| self.run(body, instance, to, instances)),
                LoopByInstance(modulus, body) => {
                    (0..instance % modulus).for_each(|_| self.run(body, instance, to, instances));
                }
                If(when, body) if instance.is_multiple_of(2) == *when => {
                    self.run(body, instance, to, instances)
                }
                If(..) => {}
            }
        }
    }

    /// Who may call whom, by address in the new build.
    fn calls(&self) -> Vec<(u64, u64)> {
        fn within(body: &[Statement], to: &mut Vec<usize>) {
            for statement in body {
                match statement {
                    Call(_, callee) => to.push(*callee),
                    Loop(_, body) | LoopByInstance(_, body) | If(_, body) => within(body, to),
                }
            }
        }
        let of = |(function, body): (usize, &Vec<Statement>)| {
            let mut callees = Vec::new();
            within(body, &mut callees);
            callees
                .into_iter()
                .map(move |callee| (new_function(function), new_function(callee)))
                .collect::<Vec<_>>()
        };
        self.0.iter().enumerate().flat_map(of).collect()
    }
}

fn old_function(function: usize) -> u64 {
    100 + 16 * function as u64
}

fn new_function(function: usize) -> u64 {
    1000 + 32 * (FUNCTIONS - function) as u64
}

fn new_site(site: u32) -> u64 {
    70_000 + 3 * u64::from(site)
}

/// What a recording of an execution has, in which some functions are exempt.
fn recorded(execution: &Execution, is_new: bool, exempt: &BTreeSet<usize>) -> Sequence {
    let mut builder = Builder::default();
    let build_id = if is_new { "new" } else { "old" };
    let module = builder.module(&Module { path: "/opt/model".into(), build_id: build_id.into() });
    let address = |function| if is_new { new_function(function) } else { old_function(function) };
    for &function in exempt {
        let function = builder.function(module, address(function), None);
        builder.exempt(function);
    }
    let mut stack = Stack::default();
    fn enter(
        builder: &mut Builder,
        stack: &mut Stack,
        site: Site,
        execution: &Execution,
        (module, is_new): (u32, bool),
    ) {
        let address =
            if is_new { new_function(execution.function) } else { old_function(execution.function) };
        let function = builder.function(module, address, Some(&format!("f{}", execution.function)));
        let site = builder.site(site);
        builder.enter(stack, site, function, Origin::Measured);
        for (site, called) in &execution.calls {
            let address = if is_new { new_site(*site) } else { u64::from(*site) };
            let site = Site { module, address, kind: Kind::Call };
            enter(builder, stack, site, called, (module, is_new));
        }
        builder.leave(stack);
    }
    let begin = Site { module: u32::MAX, address: 0, kind: Kind::Begin };
    enter(&mut builder, &mut stack, begin, execution, (module, is_new));
    builder.thread(0, 1, stack, Stack::default());
    builder.finish()
}

fn map() -> CallMap {
    CallMap {
        old: "old".into(),
        new: "new".into(),
        functions: (0..FUNCTIONS).map(|f| (old_function(f), new_function(f))).collect(),
        // Numbers from 500 on are those of sites that only the new build has.
        sites: (0..500).map(|site| (site.into(), new_site(site))).collect(),
        code: BTreeMap::new(),
    }
}

/// What happens to functions from one version to the next.
#[derive(Debug, Default)]
struct Impact {
    /// They make other calls than before.
    affected: BTreeSet<usize>,
    /// One of their executions corresponds to none of before, and those do not tell what it does.
    unknown: BTreeSet<usize>,
}

fn impact(old: &Execution, new: &Execution) -> Impact {
    let mut before: BTreeMap<usize, BTreeSet<Vec<(u32, usize)>>> = BTreeMap::new();
    old.each(&mut |execution| {
        before.entry(execution.function).or_default().insert(execution.own());
    });
    let mut impact = Impact::default();
    let mut waiting = vec![(new, Some(old))];
    while let Some((new, old)) = waiting.pop() {
        let function = new.function;
        match old {
            Some(old) if old.own() == new.own() => {}
            Some(_) => impact.affected.extend([function]),
            None => match before.get(&function) {
                Some(all) if all.len() == 1 && all.contains(&new.own()) => {}
                Some(all) if all.len() == 1 => impact.affected.extend([function]),
                _ => impact.unknown.extend([function]),
            },
        }
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for (site, called) in &new.calls {
            let count = counts.entry(*site).or_default();
            let of_site = |old: &'_ Execution| {
                let calls = old.calls.iter().enumerate().filter(|(_, (of, _))| of == site);
                calls.map(|(at, _)| at).nth(*count)
            };
            let then = old.and_then(|old| of_site(old).map(|at| &old.calls[at].1));
            waiting.push((called, then.filter(|then| then.function == called.function)));
            *count += 1;
        }
    }
    impact
}

fn statement(function: usize) -> BoxedStrategy<Statement> {
    let call = (0u32..500, function + 1..FUNCTIONS).prop_map(|(site, callee)| Call(site, callee));
    let body = prop::collection::vec(call.clone(), 1..3);
    prop_oneof![
        4 => call,
        1 => (0u32..4, body.clone()).prop_map(|(times, body)| Loop(times, body)),
        1 => (2u32..4, body.clone()).prop_map(|(modulus, body)| LoopByInstance(modulus, body)),
        1 => (any::<bool>(), body).prop_map(|(when, body)| If(when, body)),
    ]
    .boxed()
}

fn program() -> impl Strategy<Value = Program> {
    let body = |function: usize| match function + 1 < FUNCTIONS {
        true => prop::collection::vec(statement(function), 0..5).boxed(),
        false => Just(Vec::new()).boxed(),
    };
    let bodies: Vec<_> = (0..FUNCTIONS).map(body).collect();
    bodies.prop_map(|mut bodies| {
        // Every site has a number of its own.
        let mut number = 0;
        fn renumber(body: &mut [Statement], number: &mut u32) {
            for statement in body {
                match statement {
                    Call(site, _) => {
                        *site = *number;
                        *number += 1;
                    }
                    Loop(_, body) | LoopByInstance(_, body) | If(_, body) => renumber(body, number),
                }
            }
        }
        bodies.iter_mut().for_each(|body| renumber(body, &mut number));
        Program(bodies)
    })
}

#[derive(Clone, Debug)]
enum Edit {
    Swap,
    Delete,
    InsertCall(usize),
    /// Other bounds of loops, other conditions.
    Change(u32),
    /// The statement goes into a loop.
    Wrap(u32),
}

fn edits() -> impl Strategy<Value = Vec<(usize, prop::sample::Index, Edit)>> {
    let edit = prop_oneof![
        Just(Edit::Swap),
        Just(Edit::Delete),
        (1..FUNCTIONS).prop_map(Edit::InsertCall),
        (0u32..4).prop_map(Edit::Change),
        (1u32..3).prop_map(Edit::Wrap),
    ];
    prop::collection::vec((0..FUNCTIONS - 1, any::<prop::sample::Index>(), edit), 1..4)
}

fn edited(program: &Program, edits: &[(usize, prop::sample::Index, Edit)]) -> Program {
    let mut new = program.clone();
    let mut site = 500;
    for (function, at, edit) in edits {
        let body = &mut new.0[*function];
        if let Edit::InsertCall(callee) = edit {
            let callee = (*callee).max(function + 1);
            body.insert(at.index(body.len() + 1), Call(site, callee));
            site += 1;
            continue;
        }
        if body.is_empty() {
            continue;
        }
        let at = at.index(body.len());
        match edit {
            Edit::Swap => {
                let other = (at + 1) % body.len();
                body.swap(at, other);
            }
            Edit::Delete => drop(body.remove(at)),
            Edit::Change(by) => match &mut body[at] {
                Loop(times, _) => *times = *by,
                LoopByInstance(modulus, _) => *modulus = by + 1,
                If(when, _) => *when = !*when,
                Call(..) => {}
            },
            Edit::Wrap(times) => {
                let statement = body[at].clone();
                body[at] = Loop(*times, vec![statement]);
            }
            Edit::InsertCall(_) => {}
        }
    }
    new
}

/// Merges, and looks whether that is what a recording of everything would have been.
fn check(old: &Execution, new: &Execution, exempt: &BTreeSet<usize>) {
    let from_scratch = recorded(new, true, &BTreeSet::new());
    let partial = recorded(new, true, exempt);
    let (merged, origins) =
        merge(&recorded(old, false, &BTreeSet::new()), &partial, &map()).expect("mergeable");
    assert_eq!(merged.difference(&from_scratch), None);
    assert_eq!(origins.remeasured + origins.reused + origins.repositioned, merged.len());
    let addresses = exempt.iter().map(|&function| new_function(function)).collect();
    let selected = relive_sequence::select::select(&from_scratch, "new", &addresses);
    assert_eq!(selected.difference(&partial), None);
}

fn affected_by_sequences(old: &Execution, new: &Execution) -> BTreeSet<usize> {
    let [old, new] = [recorded(old, false, &BTreeSet::new()), recorded(new, true, &BTreeSet::new())];
    let found = relive_sequence::affected(&old, &new, &map());
    (0..FUNCTIONS).filter(|&function| found.contains(&new_function(function))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    /// Whatever is not affected can be exempt, all of it or some.
    #[test]
    fn merged_is_as_from_scratch(program in program(), edits in edits(), kept in prop::collection::vec(any::<bool>(), FUNCTIONS)) {
        let new = edited(&program, &edits);
        let (old, new) = (program.execute(), new.execute());
        let Impact { affected, unknown } = impact(&old, &new);
        let unaffected: BTreeSet<usize> =
            (0..FUNCTIONS).filter(|f| !affected.contains(f) && !unknown.contains(f)).collect();
        check(&old, &new, &unaffected);
        // The library finds the same by sequences.
        let found = affected_by_sequences(&old, &new);
        prop_assert_eq!(&found, &affected.union(&unknown).copied().collect::<BTreeSet<_>>());
        check(&old, &new, &unaffected.into_iter().filter(|&f| kept[f]).collect());
    }

    /// What cannot be known is required beforehand, though nobody has seen the new run.
    #[test]
    fn what_is_required_is_enough(program in program(), edits in edits()) {
        let edited = edited(&program, &edits);
        let (old, new) = (program.execute(), edited.execute());
        let affected = impact(&old, &new).affected;
        let mut exempt: BTreeSet<usize> = (0..FUNCTIONS).filter(|f| !affected.contains(f)).collect();
        let addresses = exempt.iter().map(|&f| new_function(f)).collect();
        let sequence = recorded(&old, false, &BTreeSet::new());
        let required = require(&sequence, &map(), &addresses, &edited.calls());
        exempt.retain(|&f| !required.contains(&new_function(f)));
        check(&old, &new, &exempt);
    }

    /// If it was not, the functions are named; without these, it works.
    #[test]
    fn what_cannot_be_exempt_is_named(program in program(), edits in edits()) {
        let new = edited(&program, &edits);
        let (old, new) = (program.execute(), new.execute());
        let Impact { affected, unknown } = impact(&old, &new);
        let mut exempt: BTreeSet<usize> = (0..FUNCTIONS).filter(|f| !affected.contains(f)).collect();
        let sequence = recorded(&old, false, &BTreeSet::new());
        for _ in 0..=FUNCTIONS {
            let Err(error) = merge(&sequence, &recorded(&new, true, &exempt), &map()) else { break };
            let MergeError::NotReusable(refused) = error else { panic!("{error}") };
            prop_assert!(!refused.is_empty());
            for refusal in refused {
                let function = (0..FUNCTIONS).find(|&f| new_function(f) == refusal.address).expect("one of these");
                prop_assert!(unknown.contains(&function), "{:?}", refusal);
                exempt.remove(&function);
            }
        }
        check(&old, &new, &exempt);
    }
}

/// The paper's figure 1: calls are switched, and what they call moves along.
#[test]
fn switched_calls() {
    let foo = vec![Loop(3, vec![Call(2, 3)])];
    let fee = vec![Call(3, 4)];
    let rest = [foo, fee, vec![], vec![], vec![]];
    let old = Program([vec![vec![Call(0, 1), Call(1, 2)]], rest.to_vec()].concat()).execute();
    let new = Program([vec![vec![Call(1, 2), Call(0, 1)]], rest.to_vec()].concat()).execute();
    let exempt = BTreeSet::from([1, 2, 3, 4]);
    let partial = recorded(&new, true, &exempt);
    assert_eq!(partial.len(), 3, "main, and its two calls");
    let (merged, origins) =
        merge(&recorded(&old, false, &BTreeSet::new()), &partial, &map()).expect("mergeable");
    assert_eq!(merged.difference(&recorded(&new, true, &BTreeSet::new())), None);
    assert_eq!((origins.remeasured, origins.reused, origins.repositioned), (1, 4, 2));
}

/// As deep as stacks get.
#[test]
fn deep_recursion() {
    let mut builder = Builder::default();
    let module = builder.module(&Module { path: "/opt/model".into(), build_id: "same".into() });
    let function = builder.function(module, 100, Some("f"));
    let site = builder.site(Site { module, address: 110, kind: Kind::Call });
    let mut stack = Stack::default();
    (0..200_000).for_each(|_| builder.enter(&mut stack, site, function, Origin::Measured));
    builder.thread(0, 1, stack, Stack::default());
    let sequence = builder.finish();
    assert_eq!(sequence.len(), 200_000);
    let (merged, origins) = merge(&sequence, &sequence, &CallMap::same()).expect("mergeable");
    assert_eq!((merged.difference(&sequence), origins.remeasured), (None, 200_000));
    let bytes = relive_sequence::file::write(&sequence);
    assert_eq!(relive_sequence::file::read(&bytes).expect("as written"), sequence);
}
