//! From the outline of a function to its control-flow graph.

use super::changes::affected;
use super::explore::{Ender, Explorer, Stretch};
use super::remainder::{explain_holes, gaps};
use super::{Block, BlockId, Cfg, Edge, EdgeKind, End, Reason, Target};
use crate::addr::{AddrRange, LinkAddr};
use crate::isa::{Flow, Insn};
use crate::jump_table::{JumpTable, Resolution, Resolver, Scope, TableBound, stated};
use crate::source::Surroundings;
use crate::values::{Flowing, Values};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Ordering;

/// What is known of a function before its code is read.
#[derive(Clone, Debug, Default)]
pub struct Outline {
    /// The stretches of code that belong to it, by address; they do not overlap.
    pub pieces: Vec<AddrRange>,
    /// Where control comes in; the function's own entry first.
    pub entries: Vec<LinkAddr>,
    /// For calls inside a range, where an exception thrown by them lands.
    pub landing_pads: Vec<(AddrRange, LinkAddr)>,
    /// Block starts somebody vouches for.
    pub leaders: Vec<LinkAddr>,
    /// Data among the code.
    pub data: Vec<AddrRange>,
    /// Nobody says where the last piece ends: it ends where its code does.
    pub open_ended: bool,
}

/// Builds the control-flow graph of the function that `outline` describes.
#[must_use]
pub fn recover<S: Surroundings + ?Sized>(surroundings: &S, outline: &Outline) -> Cfg {
    let followed = Followed::new(surroundings, outline, &Jumps::new(), Effort::Local);
    // Few functions jump through tables, and those that do may be looked at once more.
    let kept = followed.explorer.computes().then(|| (followed.explorer.clone(), followed.jumps.clone()));
    let cfg = followed.complete(outline, Effort::Local);
    let jumps = cfg.blocks.iter().any(|b| b.end == End::IndirectJump);
    let guessed = cfg.tables.iter().any(|t| t.bound.is_guess() && t.fenced);
    // What the blocks right before each jump tell is cheap and mostly enough. But a table that was guessed
    // too short need not show: what its last entries lead to may be reached in other ways as well.
    if !jumps || cfg.is_understood() && !guessed {
        return cfg;
    }
    let followed = match kept {
        Some((explorer, jumps)) => {
            let mut followed = Followed { explorer, jumps, told: None };
            followed.resolve_jumps(outline, &Jumps::new(), Effort::Whole);
            followed
        }
        // Its jumps are all in dead code.
        None => Followed::new(surroundings, outline, &Jumps::new(), Effort::Whole),
    };
    let whole = followed.complete(outline, Effort::Whole);
    if cfg.is_understood() && !whole.is_understood() { cfg } else { whole }
}

/// How much to look at to find out where an indirect jump leads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effort {
    /// The blocks right before it.
    Local,
    /// The whole function.
    Whole,
}

/// What was explored, and where indirect jumps were found to lead.
struct Followed<'a, S: ?Sized> {
    explorer: Explorer<'a, S>,
    jumps: Jumps,
    told: Option<Told>,
}

impl<'a, S: Surroundings + ?Sized> Followed<'a, S> {
    /// Explores all that can be reached from where control comes in. Of indirect jumps, `hints` tells what
    /// was once found.
    fn new(surroundings: &'a S, outline: &Outline, hints: &Jumps, effort: Effort) -> Self {
        let mut explorer = Explorer::new(surroundings, &outline.pieces);
        if let Some(piece) =
            outline.pieces.iter().find(|p| surroundings.bytes(p.start).len() < p.len() as usize)
        {
            explorer.problem(Reason::NotInFile, piece.start);
        }
        let pads = outline.landing_pads.iter().map(|(_, pad)| pad);
        for &at in outline.entries.iter().chain(pads).chain(&outline.leaders) {
            explorer.explore(at, true);
        }
        let mut followed = Self { explorer, jumps: Jumps::new(), told: None };
        followed.explore_known(outline, hints);
        followed.resolve_jumps(outline, hints, effort);
        followed
    }

    /// Explores what `hints` say of the jumps there are.
    fn explore_known(&mut self, outline: &Outline, hints: &Jumps) {
        let mut next = 0;
        // Enders are added while they are looked at.
        while let Some(ender) = self.explorer.enders.get(next) {
            next += 1;
            if let Some(hint) = hints.get(&ender.at) {
                self.jumps.insert(ender.at, hint.clone());
                for target in live_targets(hint, outline) {
                    self.explorer.explore(target, true);
                }
            }
        }
    }

    /// Resolves indirect jumps and explores what they lead to, until nothing new turns up: the code behind
    /// one table may hold the next.
    fn resolve_jumps(&mut self, outline: &Outline, hints: &Jumps, effort: Effort) {
        for round in 0.. {
            let count = self.explorer.enders.iter().filter(|e| e.is_computed()).count();
            if count == 0 || round > MAX_ROUNDS_PER_JUMP * count {
                break;
            }
            let cfg = assemble(&self.explorer, outline, &self.jumps);
            let mut look = Look::new(&self.explorer, outline, &cfg, &self.jumps, hints);
            let mut found = look.locally();
            // The whole function only when the cheap way leads no further, nor when it has told all before.
            let whole = effort == Effort::Whole
                && found == self.jumps
                && !all_known(&self.explorer, &self.jumps, hints);
            if whole {
                let told;
                (found, told) = look.wholly(self.told.as_ref());
                self.told = Some(Told { cfg, jumps: told });
            }
            if found == self.jumps {
                break;
            }
            self.jumps = found;
            let known = self.explorer.enders.len();
            for resolution in self.jumps.values() {
                for target in live_targets(resolution, outline) {
                    self.explorer.explore(target, true);
                }
            }
            // Once the whole function was looked at, only code that is new could change what was found.
            if whole && self.explorer.enders.len() == known {
                break;
            }
        }
    }

    /// The graph.
    fn complete(mut self, outline: &Outline, effort: Effort) -> Cfg {
        if self.jumps.values().any(|r| r.corrected) {
            // What the entries too many lead to was taken for reached: begin again with what is known now.
            self = Self::new(self.explorer.surroundings(), outline, &self.jumps, effort);
        }
        if outline.open_ended {
            self.explorer.close();
        }
        self.explorer.has_news = false;
        while explain_holes(&mut self.explorer, outline, &self.jumps) {
            // Dead code may hold indirect jumps of its own, and they may lead into what is left. If it holds none,
            // it has nothing to say of those in code that runs.
            if self.explorer.has_news {
                self.resolve_jumps(outline, &Jumps::new(), effort);
                self.explorer.has_news = false;
            }
        }
        let Self { mut explorer, jumps, .. } = self;
        let gaps = gaps(&explorer, outline, &jumps);
        for ender in &explorer.enders.clone() {
            if ender.flow == Flow::IndirectJump && !jumps.contains_key(&ender.at) {
                explorer.problem(Reason::UnresolvedJump, ender.at);
            }
        }
        explorer.revive_doubtful_calls();
        let mut cfg = assemble(&explorer, outline, &jumps);
        cfg.gaps = gaps;
        cfg.tables = jumps.into_values().flat_map(|r| r.tables).collect();
        cfg.problems = explorer.problems;
        cfg.problems.sort_unstable();
        // Millions of them are kept, and growing leaves room for half as many again.
        cfg.edges.shrink_to_fit();
        cfg
    }
}

/// What the whole function told of its jumps when it was last looked at.
struct Told {
    cfg: Cfg,
    jumps: BTreeMap<LinkAddr, Option<Resolution>>,
}

/// Where each indirect jump leads; keyed by its address.
pub(super) type Jumps = BTreeMap<LinkAddr, Resolution>;

impl<S: Surroundings + ?Sized> Scope for Explorer<'_, S> {
    fn is_inside(&self, at: LinkAddr) -> bool {
        Explorer::is_inside(self, at)
    }

    fn is_inside_insn(&self, at: LinkAddr) -> bool {
        Explorer::is_inside_insn(self, at)
    }

    fn is_end(&self, at: LinkAddr) -> bool {
        Explorer::is_end(self, at)
    }

    fn is_linear_start(&self, at: LinkAddr) -> bool {
        Explorer::is_linear_start(self, at)
    }
}

/// How often, for each indirect jump, all of them are looked at again. In sound code each tells all it
/// will in a few rounds; where instructions overlap, what one jump tells can change what another does,
/// and back.
const MAX_ROUNDS_PER_JUMP: usize = 8;

/// Whether every jump leads just where `hints` say.
fn all_known<S: Surroundings + ?Sized>(explorer: &Explorer<'_, S>, jumps: &Jumps, hints: &Jumps) -> bool {
    let mut computed = explorer.enders.iter().filter(|e| e.is_computed());
    computed.all(|e| jumps.contains_key(&e.at) && jumps.get(&e.at) == hints.get(&e.at))
}

/// The jumps of a function as it is known at one time.
struct Look<'a, S: ?Sized> {
    explorer: &'a Explorer<'a, S>,
    outline: &'a Outline,
    cfg: &'a Cfg,
    known: &'a Jumps,
    hints: &'a Jumps,
    resolver: Resolver<'a, S, Explorer<'a, S>>,
    /// Each jump, and what the blocks right before it tell.
    local: Vec<(BlockId, Insn, Option<Resolution>)>,
}

impl<'a, S: Surroundings + ?Sized> Look<'a, S> {
    fn new(
        explorer: &'a Explorer<'a, S>,
        outline: &'a Outline,
        cfg: &'a Cfg,
        known: &'a Jumps,
        hints: &'a Jumps,
    ) -> Self {
        let surroundings = explorer.surroundings();
        let resolver = Resolver {
            surroundings,
            scope: explorer,
            values: Values::new(surroundings, Flowing::new(&cfg.blocks, &cfg.edges, &cfg.entries)),
            cfg,
            constants: None,
            heights: None,
            has_labels: labels(explorer, outline, cfg, known, LinkAddr(0)).is_some(),
        };
        Self { explorer, outline, cfg, known, hints, resolver, local: Vec::new() }
    }

    /// Where the jumps lead, as far as the blocks right before them tell.
    fn locally(&mut self) -> Jumps {
        let mut found = Jumps::new();
        for (id, block) in self.cfg.numbered_blocks().filter(|(_, b)| b.end == End::IndirectJump) {
            let at = block.last_insn();
            let Some(jump) = Insn::decode(self.explorer.surroundings().bytes(at), at) else { continue };
            let stated = stated(self.explorer.surroundings(), at);
            let local = match stated {
                Some(stated) => Some(self.resolver.find_tables(id, &jump, stated)),
                None => self.resolver.resolve_locally(id, &jump),
            };
            found.extend(self.settle(at, local.clone()).map(|settled| (at, settled)));
            self.local.push((id, jump, local));
        }
        for ender in self.explorer.enders.iter().filter(|e| e.pushed) {
            let pushed = self.cfg.block_holding(ender.at).and_then(|id| self.resolver.pushed(id));
            let resolution = pushed.map(|at| Resolution { places: alloc::vec![at], ..Resolution::default() });
            // Where it leads stays once known: it depends on nothing but the instructions right before it.
            if let Some(resolution) = self.known.get(&ender.at).cloned().or(resolution) {
                found.insert(ender.at, resolution);
            }
        }
        found
    }

    /// Where the jumps lead, as far as the whole function tells, when the blocks right before them tell no more than
    /// is known; and what it told by itself. What it told `before` holds where no new code leads to.
    fn wholly(mut self, before: Option<&Told>) -> (Jumps, BTreeMap<LinkAddr, Option<Resolution>>) {
        let affected = before.map(|before| affected(&before.cfg, self.cfg));
        let mut found = self.known.clone();
        let mut told = BTreeMap::new();
        for (id, jump, local) in core::mem::take(&mut self.local) {
            let at = jump.addr();
            let resolution = local.filter(|local| !local.is_doubtful()).or_else(|| {
                let same = before.filter(|_| affected.as_ref().is_some_and(|affected| !affected[id.index()]));
                let own = match same.and_then(|before| before.jumps.get(&at)) {
                    Some(own) => own.clone(),
                    None => self.resolver.resolve(id, &jump),
                };
                told.insert(at, own.clone());
                own.or_else(|| {
                    let mut labels = labels(self.explorer, self.outline, self.cfg, self.known, at)?;
                    labels.leaves = !jump.is_notrack() && self.resolver.is_at_entry_height(id);
                    Some(labels)
                })
            });
            match self.settle(at, resolution) {
                Some(settled) => found.insert(at, settled),
                None => found.remove(&at),
            };
        }
        (found, told)
    }

    /// What to take of what was found now and before of the jump at `at`.
    fn settle(&self, at: LinkAddr, now: Option<Resolution>) -> Option<Resolution> {
        // What was once found stays unless more is found: more known code only makes values less certain,
        // and going back and forth would never end.
        let resolution = match (now, self.known.get(&at).or_else(|| self.hints.get(&at))) {
            (Some(new), Some(old)) if !is_better(&new, old) => Some(old.clone()),
            (Some(new), Some(old)) => {
                let corrected = old.corrected || size(&new) < size(old);
                Some(Resolution { corrected, ..new })
            }
            (None, old) => old.cloned(),
            (new, None) => new,
        };
        // A jump that leads nowhere but to the end of the function is not understood.
        resolution.filter(|r| r.leaves || live_targets(r, self.outline).next().is_some())
    }
}

/// Where a jump can really lead. Table entries of cases the compiler knows cannot happen point to the
/// very end of the function; but in a table of functions, one of them may just begin there.
fn live_targets<'r>(
    resolution: &'r Resolution,
    outline: &'r Outline,
) -> impl Iterator<Item = LinkAddr> + use<'r> {
    let listed = resolution.tables.iter().flat_map(move |table| {
        let of_functions = lists_functions(table, outline);
        table.targets.iter().filter(move |&&target| of_functions || !is_end(outline, target))
    });
    // A jump to one fixed place goes there: the next function begins right behind this one.
    let is_sure = resolution.tables.is_empty() && resolution.places.len() == 1;
    let places = resolution.places.iter().filter(move |&&place| is_sure || !is_end(outline, place));
    listed.chain(places).copied()
}

/// Whether all entries lead out of the function, and not only to its end.
fn lists_functions(table: &JumpTable, outline: &Outline) -> bool {
    let is_inside = |at: LinkAddr| outline.pieces.iter().any(|piece| piece.contains(at));
    table.targets.iter().any(|&at| !is_end(outline, at)) && !table.targets.iter().any(|&at| is_inside(at))
}

/// Whether somebody says that a piece ends at `at`, and it is not inside another. Where the last piece
/// ends is only a guess if it is open: another function may begin there.
fn is_end(outline: &Outline, at: LinkAddr) -> bool {
    let stated = outline.pieces.len().saturating_sub(usize::from(outline.open_ended));
    outline.pieces[..stated].iter().any(|p| p.end == at) && !outline.pieces.iter().any(|p| p.contains(at))
}

/// Whether what was found now says more than what was found before.
fn is_better(new: &Resolution, old: &Resolution) -> bool {
    if new.has_same_tables(old) {
        // Who reads a table until it makes no sense may read too far; a check tells. Not the other way
        // round, or the two would take turns.
        if old.is_doubtful() && !new.is_doubtful() {
            return true;
        }
        if old.corrected && new.is_doubtful() {
            return false;
        }
    }
    match size(new).cmp(&size(old)) {
        Ordering::Greater => true,
        Ordering::Equal => old.is_doubtful() && !new.is_doubtful() || new.leaves && !old.leaves,
        Ordering::Less => false,
    }
}

fn size(resolution: &Resolution) -> usize {
    resolution.tables.iter().map(|t| t.targets.len()).sum::<usize>() + resolution.places.len()
}

/// A computed goto whose table nobody can see: it leads to labels whose address is taken. Those that
/// stand in the table of a switch, which is a jump behind a check of its index, are spoken for. Without
/// one it may be a table of labels, and what is read from it may be kept somewhere and jumped to by others.
fn labels<S: Surroundings + ?Sized>(
    explorer: &Explorer<'_, S>,
    outline: &Outline,
    cfg: &Cfg,
    known: &Jumps,
    site: LinkAddr,
) -> Option<Resolution> {
    let spoken_for: BTreeSet<LinkAddr> = known
        .values()
        .flat_map(|r| &r.tables)
        .filter(|t| !t.bound.is_guess())
        .flat_map(|t| t.targets.iter().copied())
        .collect();
    let mut targets: Vec<LinkAddr> = Vec::new();
    for piece in &outline.pieces {
        explorer.surroundings().labels(*piece, &mut |label| {
            if !outline.entries.contains(&label)
                && !explorer.is_inside_insn(label)
                && !spoken_for.contains(&label)
            {
                targets.push(label);
            }
        });
    }
    // Where somebody vouches for all block starts, those that nothing else leads to must be it.
    let stated = !outline.leaders.is_empty();
    if stated {
        let entered: BTreeSet<BlockId> = cfg.edges.iter().filter_map(Edge::inner_target).collect();
        let lonely = |at: &LinkAddr| cfg.block_starting(*at).is_some_and(|block| !entered.contains(&block));
        targets.extend(
            outline.leaders.iter().filter(|at| !outline.entries.contains(at)).copied().filter(lonely),
        );
    }
    targets.sort_unstable();
    targets.dedup();
    (!targets.is_empty()).then(|| Resolution {
        tables: alloc::vec![JumpTable {
            site,
            table: LinkAddr(0),
            entry_size: 0,
            base: None,
            targets,
            bound: if stated { TableBound::Stated } else { TableBound::Labels },
            fenced: false,
        }],
        ..Resolution::default()
    })
}

/// Cuts what was explored into blocks and connects them.
fn assemble<S: Surroundings + ?Sized>(explorer: &Explorer<'_, S>, outline: &Outline, jumps: &Jumps) -> Cfg {
    let mut enders: Vec<&Ender> = explorer.enders.iter().collect();
    enders.sort_unstable_by_key(|e| e.at);
    let mut enders = enders.into_iter().peekable();
    let stretches = explorer.stretches();
    let mut cfg = Cfg { pieces: explorer.pieces.iter().map(|p| p.range).collect(), ..Cfg::default() };
    cfg.blocks.reserve_exact(stretches.len());
    let mut ends: Vec<Option<&Ender>> = Vec::with_capacity(stretches.len());
    for stretch in &stretches {
        while enders.next_if(|e| e.at < stretch.last).is_some() {}
        let ender = enders.next_if(|e| e.at == stretch.last);
        cfg.blocks.push(block(stretch, ender));
        ends.push(ender);
    }
    cfg.edges.reserve(2 * stretches.len());
    for (id, ender) in (0..).map(BlockId).zip(ends) {
        let first = cfg.edges.len();
        connect(&mut cfg, id, ender, outline, jumps);
        sort_from(&mut cfg.edges, first);
    }
    cfg.entries = outline.entries.iter().filter_map(|&at| cfg.block_starting(at)).collect();
    let mut pads: Vec<BlockId> =
        outline.landing_pads.iter().filter_map(|&(_, at)| cfg.block_starting(at)).collect();
    pads.sort_unstable();
    pads.dedup();
    cfg.landing_pads = pads;
    cfg
}

/// Puts the edges from `first` on in order, each once.
fn sort_from(edges: &mut Vec<Edge>, first: usize) {
    edges[first..].sort_unstable();
    let mut kept = first;
    for i in first..edges.len() {
        if kept == first || edges[i] != edges[kept - 1] {
            edges[kept] = edges[i];
            kept += 1;
        }
    }
    edges.truncate(kept);
}

fn block(stretch: &Stretch, ender: Option<&Ender>) -> Block {
    let end = match ender {
        None => End::FallThrough,
        Some(ender) => match ender.flow {
            Flow::Next => End::FallThrough,
            Flow::Jump(_) => End::Jump,
            Flow::Branch(_) => End::Branch,
            Flow::IndirectJump => End::IndirectJump,
            Flow::Call(target) => End::Call(target),
            Flow::IndirectCall => End::IndirectCall(ender.slot),
            Flow::Return => End::Return,
            Flow::Stop => End::Stop,
        },
    };
    Block {
        start: stretch.range.start,
        len: stretch.range.len() as u32,
        insns: stretch.insns,
        last: stretch.last.since(stretch.range.start) as u32,
        end,
        reached: stretch.reached,
    }
}

fn connect(cfg: &mut Cfg, from: BlockId, ender: Option<&Ender>, outline: &Outline, jumps: &Jumps) {
    let next = cfg.block(from).end_addr();
    let place = |cfg: &Cfg, at: LinkAddr| cfg.block_starting(at).map_or(Target::Outside(at), Target::Block);
    // Most often the next block begins right behind this one.
    let following = |cfg: &Cfg| match cfg.blocks.get(from.index() + 1) {
        Some(block) if block.start == next => Target::Block(BlockId(from.0 + 1)),
        _ => place(cfg, next),
    };
    let edge = |cfg: &mut Cfg, to: Target, kind: EdgeKind| cfg.edges.push(Edge { from, to, kind });
    // A jump out of the function is a tail call, whatever it was inside.
    let kind_for = |to: Target, inside: EdgeKind| match to {
        Target::Block(_) => inside,
        _ => EdgeKind::TailCall,
    };
    let Some(ender) = ender else {
        let to = following(cfg);
        edge(cfg, to, EdgeKind::FallThrough);
        return;
    };
    match ender.flow {
        Flow::Next | Flow::Stop => {}
        Flow::Branch(target) => {
            let (taken, not) = (place(cfg, target), following(cfg));
            edge(cfg, taken, kind_for(taken, EdgeKind::Taken));
            edge(cfg, not, EdgeKind::FallThrough);
        }
        Flow::Jump(target) => {
            let to = place(cfg, target);
            edge(cfg, to, kind_for(to, EdgeKind::Jump));
        }
        Flow::Return => match jumps.get(&ender.at).and_then(|pushed| pushed.places.first()) {
            None => edge(cfg, Target::Elsewhere, EdgeKind::Return),
            Some(&pushed) => {
                let to = place(cfg, pushed);
                edge(cfg, to, kind_for(to, EdgeKind::Jump));
            }
        },
        Flow::Call(_) | Flow::IndirectCall => {
            if ender.goes_on {
                let to = following(cfg);
                edge(cfg, to, EdgeKind::CallReturn);
            }
            // The unwinder looks up the byte before the return address.
            let thrown_from = LinkAddr(next.0 - 1);
            let first = outline.landing_pads.partition_point(|(range, _)| range.end <= thrown_from);
            if let Some((range, pad)) = outline.landing_pads.get(first)
                && range.contains(thrown_from)
            {
                let to = place(cfg, *pad);
                edge(cfg, to, EdgeKind::LandingPad);
            }
        }
        Flow::IndirectJump => match jumps.get(&ender.at) {
            None => edge(cfg, Target::Elsewhere, EdgeKind::Unknown),
            Some(resolution) => {
                for target in live_targets(resolution, outline) {
                    let to = place(cfg, target);
                    edge(cfg, to, kind_for(to, EdgeKind::Case));
                }
                if resolution.leaves {
                    edge(cfg, Target::Elsewhere, EdgeKind::TailCall);
                }
            }
        },
    }
}
