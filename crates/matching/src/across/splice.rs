//! A function with some of the functions it calls in place of the calls, as if the compiler had inlined them.

use relive_profile::model::{Block, Call, CalledBy, Count, Edge, EdgeKind, Function, Module, Node};

/// Which calls of a procedure to replace by what they call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) procedure: u32,
    /// Calls by their index in the function, ascending, and what to put there.
    pub(crate) inside: Vec<(u32, Plan)>,
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Copy {
    /// Which.
    pub procedure: u32,
    /// The copy that it is inside of.
    pub inside: Option<u32>,
    /// The share of what the function did that it did here: calls from here among all. Zero if nothing was counted.
    pub share: f64,
}

impl Spliced {
    /// Carries out a plan.
    pub(crate) fn new(module: &Module, plan: &Plan) -> Self {
        let mut pieces = Pieces { module, places: Vec::new(), blocks: Vec::new() };
        pieces.place(plan, None);
        pieces.join(plan.procedure)
    }
}

/// A copy that has its place.
struct Place<'p> {
    plan: &'p Plan,
    inside: Option<(u32, Call)>,
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
    fn place(&mut self, plan: &'p Plan, inside: Option<(u32, Call)>) {
        let copy = self.places.len() as u32;
        let function = self.function(plan.procedure);
        self.places.push(Place { plan, inside, at: vec![0; function.blocks.len()] });
        for block in 0..function.blocks.len() as u32 {
            self.places[copy as usize].at[block as usize] = self.blocks.len() as u32;
            self.blocks.push((copy, block));
            for (number, plan) in &plan.inside {
                let call = function.calls[*number as usize];
                if caller(function, &call) == Some(block) {
                    self.place(plan, Some((copy, call)));
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
        let shares = self.shares();
        let mut seen = Vec::new();
        let mut edges = Vec::new();
        for ((place, &share), copy) in self.places.iter().zip(&shares).zip(0..) {
            let function = self.function(place.plan.procedure);
            if !seen.contains(&place.plan.procedure) {
                seen.push(place.plan.procedure);
                whole.pieces.extend(&function.pieces);
                whole.code.extend(&function.code);
            }
            let made = self.edges(place, share, &mut whole);
            edges.extend(made.into_iter().map(|edge| (copy, edge)));
        }
        whole.blocks = self.blocks.iter().map(|&(copy, block)| self.block(copy, block, &shares)).collect();
        whole.calls.sort_by_key(|call| call.by);
        let copies = self.places.iter().zip(shares).map(|(place, share)| Copy {
            procedure: place.plan.procedure,
            inside: place.inside.map(|(copy, _)| copy),
            share: share.unwrap_or(0.0),
        });
        Spliced { function: whole, copies: copies.collect(), blocks: self.blocks, edges }
    }

    /// What part of its function each copy did, where something was counted.
    fn shares(&self) -> Vec<Option<f64>> {
        let mut shares: Vec<Option<f64>> = Vec::with_capacity(self.places.len());
        for place in &self.places {
            let share = match &place.inside {
                None => Some(1.0),
                Some((copy, call)) => (|| {
                    let caller = self.function(self.places[*copy as usize].plan.procedure);
                    let calls = self.module.call_count(caller, call)?.value() as f64 * shares[*copy as usize]?;
                    let entries = self.function(place.plan.procedure).entries()?.value() as f64;
                    Some(if entries > 0.0 { (calls / entries).min(1.0) } else { 0.0 })
                })(),
            };
            shares.push(share);
        }
        shares
    }

    fn block(&self, copy: u32, block: u32, shares: &[Option<f64>]) -> Block {
        let own = self.function(self.places[copy as usize].plan.procedure).blocks[block as usize];
        Block {
            counter: None,
            count: scaled(own.count, shares[copy as usize]),
            is_entry: own.is_entry && copy == 0,
            ..own
        }
    }

    /// Adds the edges and the calls of one copy; returns which edges of its function they are.
    fn edges(&self, place: &Place<'_>, share: Option<f64>, whole: &mut Function) -> Vec<u32> {
        let mut made = Vec::new();
        let function = self.function(place.plan.procedure);
        let first_hub = whole.hubs;
        whole.hubs += function.hubs;
        let spliced = |by: CalledBy| {
            place.plan.inside.iter().find(|(call, _)| function.calls[*call as usize].by == by)
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
            let count = scaled(edge.count, share);
            whole.edges.push(Edge { from: start, to: end, counter: None, kind, count });
            made.push(number);
        }
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
        let (copy, call) = place.inside.as_ref()?;
        let outer = &self.places[*copy as usize];
        Some(outer.at[caller(self.function(outer.plan.procedure), call)? as usize])
    }

    /// Where a copy returns to; `None` if outside.
    fn next(&self, place: &Place<'_>) -> Option<u32> {
        let (copy, call) = place.inside.as_ref()?;
        let outer = &self.places[*copy as usize];
        match call.by {
            CalledBy::Block(block) => {
                let back = self.function(outer.plan.procedure).edges.iter().find(|edge| {
                    edge.kind == EdgeKind::CallReturn && edge.from.as_block() == Some(block)
                })?;
                back.to.as_block().map(|next| outer.at[next as usize])
            }
            CalledBy::Edge(_) => self.next(outer),
        }
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
