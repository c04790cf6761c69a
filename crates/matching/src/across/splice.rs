//! A function with some of the functions it calls in place of the calls, as if the compiler had inlined them.

use relive_profile::model::{Block, Call, CalledBy, Count, Edge, EdgeKind, Function, Module, Node};

/// Which calls of a procedure to replace by what they call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) procedure: u32,
    /// By the call.
    pub(crate) inside: Vec<Inside>,
}

/// What to put in place of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inside {
    /// The call, by its index in the function.
    pub(crate) call: u32,
    /// Further calls of the same procedure that it stands for.
    pub(crate) merged: Vec<u32>,
    pub(crate) plan: Plan,
}

impl Plan {
    /// The procedure as it is.
    pub(crate) const fn plain(procedure: u32) -> Self {
        Self { procedure, inside: Vec::new() }
    }
}

/// A function with others inside.
#[derive(Clone, Debug)]
pub struct Spliced {
    /// All of it. Where counts are known, those of a copy are scaled to what its call contributed.
    pub function: Function,
    /// The function itself, then what was put inside; a copy after the one it is inside of.
    pub copies: Vec<Copy>,
    /// Where each block comes from: which copy, and the block of its function.
    pub blocks: Vec<(u32, u32)>,
    /// Where each edge comes from: which copy, and the edge of its function.
    pub edges: Vec<(u32, u32)>,
}

/// One function inside a spliced one.
#[derive(Clone, Debug, PartialEq)]
pub struct Copy {
    /// Which.
    pub procedure: u32,
    /// The copy that it is inside of, and the call it stands for, by its index in the function of that copy.
    pub call: Option<(u32, u32)>,
    /// Further calls in that function that it stands for.
    pub merged: Vec<u32>,
    /// The share of what the function did that it did here: calls from here among all. Zero if nothing was counted.
    pub share: f64,
}

impl Spliced {
    /// Carries out a plan.
    pub(crate) fn new(module: &Module, plan: &Plan) -> Self {
        let mut pieces = Pieces { module, places: Vec::new(), blocks: Vec::new() };
        pieces.place(plan, None);
        let mut spliced = pieces.join(plan.procedure);
        let all = vec![true; spliced.copies.len()];
        spliced.count(module, &all);
        spliced
    }

    /// Gives each copy its part of the counts. Calls whose copy is not `there` are taken to have been merged with other
    /// calls of the same function.
    pub(crate) fn count(&mut self, module: &Module, there: &[bool]) {
        let mut shares: Vec<Option<f64>> = vec![Some(1.0)];
        for copy in &self.copies[1..] {
            shares.push(self.share(module, copy, &shares));
        }
        for i in 1..self.copies.len() {
            let alike = |j: &usize| {
                let (a, b) = (&self.copies[i], &self.copies[*j]);
                a.procedure == b.procedure && a.call.map(|call| call.0) == b.call.map(|call| call.0)
            };
            let group: Vec<usize> = (i..self.copies.len()).filter(alike).collect();
            let is_first = !(1..i).any(|j| alike(&j));
            if is_first {
                merge(&group, there, &mut shares);
            }
        }
        for (copy, share) in self.copies.iter_mut().zip(&shares) {
            copy.share = share.unwrap_or(0.0);
        }
        let of = |copy: u32| &module.functions[self.copies[copy as usize].procedure as usize];
        for (block, &(copy, own)) in self.function.blocks.iter_mut().zip(&self.blocks) {
            block.count = scaled(of(copy).blocks[own as usize].count, shares[copy as usize]);
        }
        for (edge, &(copy, own)) in self.function.edges.iter_mut().zip(&self.edges) {
            edge.count = scaled(of(copy).edges[own as usize].count, shares[copy as usize]);
        }
    }

    /// The part of its function that a copy does, by the calls it stands for; unknown where nothing was counted.
    fn share(&self, module: &Module, copy: &Copy, shares: &[Option<f64>]) -> Option<f64> {
        let (outer, call) = copy.call?;
        let caller = &module.functions[self.copies[outer as usize].procedure as usize];
        let calls = std::iter::once(&call).chain(&copy.merged).map(|&call| caller.calls[call as usize]);
        let calls = Count::sum(calls.map(|call| module.call_count(caller, &call)))?.value() as f64;
        let entries = module.functions[copy.procedure as usize].entries()?.value() as f64;
        let outer = shares[outer as usize]?;
        Some(if entries > 0.0 { (calls * outer / entries).min(1.0) } else { 0.0 })
    }
}

/// Hands the shares of those of a group that are not there to those that are.
fn merge(group: &[usize], there: &[bool], shares: &mut [Option<f64>]) {
    let sum = |shares: &[Option<f64>], only_there: bool| -> f64 {
        group.iter().filter(|&&i| !only_there || there[i]).filter_map(|&i| shares[i]).sum()
    };
    let count = group.iter().filter(|&&i| there[i]).count();
    if count == 0 || count == group.len() {
        return;
    }
    let (all, known) = (sum(shares, false), sum(shares, true));
    for &i in group {
        let own = shares[i].map(|own| if known > 0.0 { own * all / known } else { all / count as f64 });
        shares[i] = if there[i] { own } else { own.map(|_| 0.0) };
    }
}

/// A copy that has its place.
struct Place<'p> {
    plan: &'p Plan,
    /// The copy that it is inside of, and how.
    inside: Option<(u32, &'p Inside)>,
    /// Where its blocks are in the whole.
    at: Vec<u32>,
}

/// Work under way.
struct Pieces<'m, 'p> {
    module: &'m Module,
    places: Vec<Place<'p>>,
    blocks: Vec<(u32, u32)>,
}

impl<'m, 'p> Pieces<'m, 'p> {
    /// Puts blocks into their order: what is called behind the block that calls it, as compilers do.
    fn place(&mut self, plan: &'p Plan, inside: Option<(u32, &'p Inside)>) {
        let copy = self.places.len() as u32;
        let function = self.function(plan.procedure);
        self.places.push(Place { plan, inside, at: vec![0; function.blocks.len()] });
        for block in 0..function.blocks.len() as u32 {
            self.places[copy as usize].at[block as usize] = self.blocks.len() as u32;
            self.blocks.push((copy, block));
            for inside in &plan.inside {
                if caller(function, &function.calls[inside.call as usize]) == Some(block) {
                    self.place(&inside.plan, Some((copy, inside)));
                }
            }
        }
    }

    fn function(&self, procedure: u32) -> &'m Function {
        &self.module.functions[procedure as usize]
    }

    fn join(self, root: u32) -> Spliced {
        let root = self.function(root);
        let mut whole = Function::new(root.name, root.address, root.size, root.state);
        let mut seen = Vec::new();
        let mut edges = Vec::new();
        for (place, copy) in self.places.iter().zip(0..) {
            let function = self.function(place.plan.procedure);
            if !seen.contains(&place.plan.procedure) {
                seen.push(place.plan.procedure);
                whole.pieces.extend(&function.pieces);
                whole.code.extend(&function.code);
            }
            let made = self.edges(place, &mut whole);
            edges.extend(made.into_iter().map(|edge| (copy, edge)));
        }
        whole.blocks = self.blocks.iter().map(|&(copy, block)| self.block(copy, block)).collect();
        whole.calls.sort_by_key(|call| call.by);
        let copies = self.places.iter().map(|place| Copy {
            procedure: place.plan.procedure,
            call: place.inside.map(|(copy, inside)| (copy, inside.call)),
            merged: place.inside.map(|(_, inside)| inside.merged.clone()).unwrap_or_default(),
            share: 0.0,
        });
        Spliced { function: whole, copies: copies.collect(), blocks: self.blocks, edges }
    }

    fn block(&self, copy: u32, block: u32) -> Block {
        let own = self.function(self.places[copy as usize].plan.procedure).blocks[block as usize];
        Block { counter: None, count: None, is_entry: own.is_entry && copy == 0, ..own }
    }

    /// Adds the edges and the calls of one copy; returns which edges of its function they are.
    fn edges(&self, place: &Place<'_>, whole: &mut Function) -> Vec<u32> {
        let mut made = Vec::new();
        let function = self.function(place.plan.procedure);
        let first_hub = whole.hubs;
        whole.hubs += function.hubs;
        let spliced = |by: CalledBy| {
            place.plan.inside.iter().find(|inside| function.calls[inside.call as usize].by == by)
        };
        let mut numbers = vec![None; function.edges.len()];
        for (edge, number) in function.edges.iter().zip(0u32..) {
            let (mut kind, node) = (edge.kind, |node: Node| self.node(node, &place.at, first_hub));
            let (mut start, mut end) = (node(edge.from), node(edge.to));
            match (kind, edge.from.as_block()) {
                // The call comes back by way of what is called.
                (EdgeKind::CallReturn, Some(block)) if spliced(CalledBy::Block(block)).is_some() => continue,
                (EdgeKind::TailCall, _) if spliced(CalledBy::Edge(number)).is_some() => continue,
                (EdgeKind::Enter, _) if place.inside.is_some() => {
                    let is_main = edge.to.as_block() == function.block_at(function.address);
                    let Some(caller) = self.caller(place).filter(|_| is_main) else { continue };
                    (start, kind) = (Node::block(caller), EdgeKind::FallThrough);
                }
                (EdgeKind::Return | EdgeKind::TailCall, _) => {
                    if let Some(next) = self.next(place) {
                        (end, kind) = (Node::block(next), EdgeKind::Jump);
                    }
                }
                _ => {}
            }
            numbers[number as usize] = Some(whole.edges.len() as u32);
            whole.edges.push(Edge { from: start, to: end, counter: None, kind, count: None });
            made.push(number);
        }
        let case = |&(edge, entry): &(u32, u32)| Some((numbers[edge as usize]?, entry));
        whole.cases.extend(function.cases.iter().filter_map(case));
        for call in function.calls.iter().filter(|call| spliced(call.by).is_none()) {
            let by = match call.by {
                CalledBy::Block(block) => Some(CalledBy::Block(place.at[block as usize])),
                // A jump to a function that is now a jump within this one says no more than before.
                CalledBy::Edge(edge) => numbers[edge as usize].map(CalledBy::Edge),
            };
            whole.calls.extend(by.map(|by| Call { by, ..*call }));
        }
        made
    }

    fn node(&self, node: Node, at: &[u32], first_hub: u32) -> Node {
        match (node.as_block(), node.as_hub()) {
            (Some(block), _) => Node::block(at[block as usize]),
            (_, Some(hub)) => Node::hub(first_hub + hub),
            _ => node,
        }
    }

    /// The block that calls a copy.
    fn caller(&self, place: &Place<'_>) -> Option<u32> {
        let (outer, function, call) = self.call(place)?;
        Some(outer.at[caller(function, &call)? as usize])
    }

    /// Where a copy returns to; `None` if outside.
    fn next(&self, place: &Place<'_>) -> Option<u32> {
        let (outer, function, call) = self.call(place)?;
        match call.by {
            CalledBy::Block(block) => {
                let is_back = |e: &&Edge| e.kind == EdgeKind::CallReturn && e.from.as_block() == Some(block);
                let next = function.edges.iter().find(is_back)?.to.as_block()?;
                Some(outer.at[next as usize])
            }
            CalledBy::Edge(_) => self.next(outer),
        }
    }

    /// What a copy is inside of, and the call it stands for.
    fn call(&self, place: &Place<'_>) -> Option<(&Place<'p>, &'m Function, Call)> {
        let (copy, inside) = place.inside?;
        let outer = &self.places[copy as usize];
        let function = self.function(outer.plan.procedure);
        Some((outer, function, function.calls[inside.call as usize]))
    }
}

/// The block that makes a call.
pub(crate) fn caller(function: &Function, call: &Call) -> Option<u32> {
    match call.by {
        CalledBy::Block(block) => Some(block),
        CalledBy::Edge(edge) => function.edges.get(edge as usize)?.from.as_block(),
    }
}

fn scaled(count: Option<Count>, share: Option<f64>) -> Option<Count> {
    let (count, share) = (count?, share?);
    let raw = if share < 1.0 { (count.value() as f64 * share).round() as u64 } else { count.value() };
    Some(Count { raw, ..count })
}

#[cfg(test)]
mod tests {
    use super::*;
    use relive_profile::model::{Callee, Piece, State};

    fn block(address: u64, count: u64) -> Block {
        Block {
            address,
            size: 4,
            insns: 1,
            line: None,
            is_entry: false,
            is_landing_pad: false,
            counter: None,
            count: Some(Count::measured(count)),
        }
    }

    fn function(module: &mut Module, address: u64, counts: &[u64]) -> Function {
        let name = module.texts.intern("f");
        let len = 4 * counts.len() as u64;
        let mut function = Function::new(name, address, len, State::Measured);
        function.pieces = vec![Piece { start: address, len }];
        function.code = vec![0x90; len as usize];
        function.blocks = counts.iter().zip(0..).map(|(&n, i)| block(address + 4 * i, n)).collect();
        function
    }

    fn edge(from: Option<u32>, to: Option<u32>, kind: EdgeKind, count: u64) -> Edge {
        let node = |block: Option<u32>| block.map_or(Node::OUTSIDE, Node::block);
        let count = Some(Count::measured(count));
        Edge { from: node(from), to: node(to), counter: None, kind, count }
    }

    /// Block 0 of the caller runs 30 times and calls, block 1 returns; the callee is entered 120 times, and loops
    /// through its block 1.
    fn module() -> Module {
        let mut module = Module::default();
        let mut caller = function(&mut module, 0x100, &[30, 30]);
        caller.edges = vec![
            edge(None, Some(0), EdgeKind::Enter, 30),
            edge(Some(0), Some(1), EdgeKind::CallReturn, 30),
            edge(Some(1), None, EdgeKind::Return, 30),
        ];
        let callee = Callee::Direct { address: 0x200, name: caller.name };
        caller.calls = vec![Call { by: CalledBy::Block(0), address: 0x103, callee }];
        let mut callee = function(&mut module, 0x200, &[120, 1200, 120]);
        callee.edges = vec![
            edge(None, Some(0), EdgeKind::Enter, 120),
            edge(Some(0), Some(1), EdgeKind::FallThrough, 120),
            edge(Some(1), Some(1), EdgeKind::Taken, 1080),
            edge(Some(1), Some(2), EdgeKind::FallThrough, 120),
            edge(Some(2), None, EdgeKind::Return, 120),
        ];
        module.functions = vec![caller, callee];
        module
    }

    fn inside(call: u32) -> Inside {
        Inside { call, merged: Vec::new(), plan: Plan::plain(1) }
    }

    fn counts(function: &Function) -> Vec<u64> {
        function.blocks.iter().map(|b| b.count.map_or(0, Count::value)).collect()
    }

    fn shape(function: &Function) -> Vec<(Node, Node, EdgeKind, u64)> {
        function.edges.iter().map(|e| (e.from, e.to, e.kind, e.count.map_or(0, Count::value))).collect()
    }

    #[test]
    fn a_function_as_it_is() {
        let module = module();
        let spliced = Spliced::new(&module, &Plan::plain(1));
        assert_eq!(counts(&spliced.function), [120, 1200, 120]);
        assert_eq!(shape(&spliced.function), shape(&module.functions[1]));
        assert_eq!(spliced.copies.len(), 1);
    }

    #[test]
    fn a_callee_has_its_part_of_the_counts_and_comes_back() {
        let module = module();
        let plan = Plan { procedure: 0, inside: vec![inside(0)] };
        let spliced = Spliced::new(&module, &plan);
        assert_eq!(counts(&spliced.function), [30, 30, 300, 30, 30]);
        assert_eq!(spliced.blocks, [(0, 0), (1, 0), (1, 1), (1, 2), (0, 1)]);
        assert_eq!(
            spliced.copies[1],
            Copy { procedure: 1, call: Some((0, 0)), merged: Vec::new(), share: 0.25 }
        );
        let b = Node::block;
        assert_eq!(
            shape(&spliced.function),
            [
                (Node::OUTSIDE, b(0), EdgeKind::Enter, 30),
                (b(4), Node::OUTSIDE, EdgeKind::Return, 30),
                (b(0), b(1), EdgeKind::FallThrough, 30),
                (b(1), b(2), EdgeKind::FallThrough, 30),
                (b(2), b(2), EdgeKind::Taken, 270),
                (b(2), b(3), EdgeKind::FallThrough, 30),
                (b(3), b(4), EdgeKind::Jump, 30),
            ]
        );
        assert_eq!(spliced.edges[2..4], [(1, 0), (1, 1)]);
        assert!(spliced.function.calls.is_empty());
        assert!(spliced.function.bytes_at(0x208, 4).is_some());
    }

    #[test]
    fn calls_that_were_merged() {
        let mut module = module();
        let caller = &mut module.functions[0];
        caller.blocks[1].count = Some(Count::measured(6));
        caller.calls.push(Call { by: CalledBy::Block(1), ..caller.calls[0] });
        let plan = Plan { procedure: 0, inside: vec![inside(0), inside(1)] };
        let mut spliced = Spliced::new(&module, &plan);
        assert_eq!(spliced.copies.iter().map(|copy| copy.share).collect::<Vec<_>>(), [1.0, 0.25, 0.05]);
        spliced.count(&module, &[true, false, true]);
        assert_eq!(spliced.copies.iter().map(|copy| copy.share).collect::<Vec<_>>(), [1.0, 0.0, 0.3]);
        assert_eq!(counts(&spliced.function), [30, 0, 0, 0, 6, 36, 360, 36]);
        let once = Plan { procedure: 0, inside: vec![Inside { merged: vec![1], ..inside(0) }] };
        let spliced = Spliced::new(&module, &once);
        assert_eq!(counts(&spliced.function), [30, 36, 360, 36, 6]);
    }

    #[test]
    fn a_callee_that_is_jumped_to_returns_outside() {
        let mut module = module();
        let caller = &mut module.functions[0];
        caller.edges[1].kind = EdgeKind::FallThrough;
        caller.edges[2].kind = EdgeKind::TailCall;
        caller.calls[0].by = CalledBy::Edge(2);
        let plan = Plan { procedure: 0, inside: vec![inside(0)] };
        let spliced = Spliced::new(&module, &plan);
        assert_eq!(spliced.blocks, [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]);
        let edges = shape(&spliced.function);
        assert!(edges.contains(&(Node::block(1), Node::block(2), EdgeKind::FallThrough, 30)));
        assert!(edges.contains(&(Node::block(4), Node::OUTSIDE, EdgeKind::Return, 30)));
    }

    #[test]
    fn without_counts_there_are_none() {
        let mut module = module();
        for function in &mut module.functions {
            function.blocks.iter_mut().for_each(|block| block.count = None);
            function.edges.iter_mut().for_each(|edge| edge.count = None);
        }
        let spliced = Spliced::new(&module, &Plan { procedure: 0, inside: vec![inside(0)] });
        assert!(spliced.function.blocks.iter().all(|block| block.count.is_none()));
        assert_eq!(spliced.copies[1].share, 0.0);
    }
}
