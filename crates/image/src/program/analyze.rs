//! From facts to a program: read the code of every function, let what it shows change what is known of
//! the others, and read again those it concerns, until nothing changes.

use super::executed::Executed;
use super::holes;
use super::layout::Layout;
use super::links::Links;
use super::noreturn;
use super::pieces;
use super::references::{self, References};
use super::units::{self, Contradiction, Unit};
use super::world::World;
use super::{Function, FunctionId, Program};
use crate::error::Complaint;
use crate::image::Image;
use crate::provenance::{Provenance, Vouchers};
use crate::watch::Watch;
use rayon::prelude::*;
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::cfg::{Cfg, EdgeKind, Outline, recover};
use relive_code::source::{Returns, Surroundings as _};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

/// A function while it is worked on.
pub(super) struct Working<'d> {
    pub(super) names: Vec<Cow<'d, str>>,
    pub(super) vouchers: Vouchers,
    pub(super) fragment: bool,
    pub(super) outline: Outline,
    pub(super) cfg: Cfg,
    /// What `cfg` says about other functions.
    pub(super) links: Links,
    pub(super) stale: bool,
    /// Became a piece of another function.
    pub(super) absorbed: bool,
    /// Whether anybody wants it read.
    pub(super) need: Need,
    /// Whether the outline has what tables say of the inside.
    is_complete: bool,
}

/// Why a function is read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Need {
    /// It is not.
    None,
    /// Others are not understood without it: it may be a piece of them, or not come back.
    Others,
    /// It is asked for.
    Own,
}

impl Working<'_> {
    /// Whether nobody vouches for it: it may be data that happens to decode.
    pub(super) fn is_guess(&self) -> bool {
        self.vouchers.best() == Some(Provenance::Heuristic)
    }

    pub(super) fn entry(&self) -> LinkAddr {
        self.outline.entries[0]
    }

    /// Whether to read it only when there is nothing else to read: it is large, and what is found out
    /// elsewhere meanwhile may concern it too.
    pub(super) fn can_wait(&self) -> bool {
        self.cfg.blocks.len() > MANY_BLOCKS || self.is_unread() && self.len() > MANY_BYTES
    }

    pub(super) fn is_unread(&self) -> bool {
        self.cfg.pieces.is_empty()
    }

    fn is_read(&self) -> bool {
        !self.absorbed && !self.is_unread()
    }

    fn len(&self) -> u64 {
        self.outline.pieces.iter().map(AddrRange::len).sum()
    }

    pub(super) fn add_entry(&mut self, at: LinkAddr) {
        if !self.outline.entries.contains(&at) {
            self.outline.entries.push(at);
            self.stale |= self.need != Need::None;
        }
    }

    /// Adds what tables say of its inside to the outline; what they say that cannot be read.
    fn complete(&mut self, image: &Image<'_>, data: &[AddrRange]) -> Vec<Complaint> {
        let mut complaints = Vec::new();
        if std::mem::replace(&mut self.is_complete, true) {
            return complaints;
        }
        let range = self.outline.pieces[0];
        let frames = &image.unwind.frames;
        let first = frames.partition_point(|f| f.range.end <= range.start);
        for frame in frames[first..].iter().take_while(|f| f.range.start < range.end) {
            match image.unwind.landing_pads(&image.elf, frame) {
                Ok(pads) => self.outline.landing_pads.extend(pads),
                Err(why) => complaints.push(Complaint::new(".gcc_except_table", why)),
            }
        }
        self.outline.data = data.iter().filter(|d| d.overlaps(&range)).copied().collect();
        complaints
    }
}

/// The analysis of one image.
pub struct Analysis<'a, 'd> {
    pub(super) world: World<'a, 'd>,
    pub(super) functions: Vec<Working<'d>>,
    /// What is of interest; everything if nobody says.
    pub(super) executed: Option<&'a Executed>,
    /// Where functions were ever found, also those that became pieces of others.
    pub(super) found: HashSet<LinkAddr>,
    pub(super) layout: Layout,
    data: Vec<AddrRange>,
    contradictions: Vec<Contradiction>,
    complaints: Vec<Complaint>,
    timings: Vec<(&'static str, Duration)>,
}

/// What is said of a place where no function is known.
#[derive(Clone, Copy)]
struct Mention {
    /// Whether anything but a guess refers to it.
    firm: bool,
    need: Need,
}

impl Default for Mention {
    fn default() -> Self {
        Self { firm: false, need: Need::None }
    }
}

impl Mention {
    fn provenance(&self) -> Provenance {
        if self.firm { Provenance::DataFlow } else { Provenance::Heuristic }
    }
}

/// Blocks of a function that takes long to read.
const MANY_BLOCKS: usize = 500;
/// Bytes of one, as long as its blocks are not known.
const MANY_BYTES: u64 = 16 << 10;

/// How often code may change what is known about other code. Programs whose functions are announced settle
/// in four to seven rounds, others in as many as there are unannounced functions in a chain of calls: two
/// dozen. The limit is for files made to be difficult, and only costs precision.
const MAX_ROUNDS: usize = 40;

/// How often to look for executed code in no function, where each time the first of a stretch is found.
const MAX_HIDDEN: usize = 16;

/// Recovers all functions of `image` and their control flow.
pub fn analyze<'d>(image: &Image<'d>) -> Program<'d> {
    analyze_watched(image, &Watch::default())
}

/// The same, and tells how far it is.
pub fn analyze_watched<'d>(image: &Image<'d>, watch: &Watch) -> Program<'d> {
    analyze_scope(image, None, watch)
}

/// Recovers the functions of `image` that were executed, and as much of the others as it takes to understand those.
/// The rest are there, without any blocks, if a table announces them.
pub fn analyze_executed<'d>(image: &Image<'d>, executed: &Executed, watch: &Watch) -> Program<'d> {
    analyze_scope(image, Some(executed), watch)
}

fn analyze_scope<'d>(image: &Image<'d>, executed: Option<&Executed>, watch: &Watch) -> Program<'d> {
    let start = Instant::now();
    let units = units::collect(image);
    let starts: Vec<LinkAddr> = units.units.iter().map(|u| u.range.start).collect();
    let functions_known = start.elapsed();
    let start = Instant::now();
    let references = references::collect(image, &starts, executed.is_some());
    let mut analysis = Analysis::new(image, &references, units, executed);
    watch.begin(analysis.functions.len());
    analysis.timings.push(("function starts", functions_known));
    analysis.timings.push(("references", start.elapsed()));
    let start = Instant::now();
    analysis.settle(watch);
    analysis.consult_block_maps();
    analysis.settle(watch);
    analysis.timings.push(("control flow", start.elapsed()));
    let start = Instant::now();
    // What is left of the text may hold functions nobody mentions; they may call yet others.
    for _ in 0..if executed.is_some() { MAX_HIDDEN } else { 3 } {
        if !analysis.look_into_holes() {
            break;
        }
        analysis.settle(watch);
    }
    analysis.timings.push(("text without a function", start.elapsed()));
    analysis.finish()
}

impl<'a, 'd> Analysis<'a, 'd> {
    fn new(
        image: &'a Image<'d>,
        references: &'a References,
        units: units::Units<'d>,
        executed: Option<&'a Executed>,
    ) -> Self {
        let (noreturn_slots, noreturn_stubs) = noreturn::of_imports(image);
        let named = units.units.iter().filter(|u| u.names.iter().any(|name| noreturn::never_returns(name)));
        let declared = noreturn_stubs.into_iter().chain(named.map(|unit| unit.range.start));
        let noreturn = declared.map(|at| (at, Returns::Never)).collect();
        let mut analysis = Self {
            world: World { image, references, starts: Vec::new(), noreturn, noreturn_slots },
            functions: Vec::new(),
            executed,
            found: HashSet::new(),
            layout: Layout::default(),
            data: units.data,
            contradictions: units.contradictions,
            complaints: Vec::new(),
            timings: Vec::new(),
        };
        for unit in units.units {
            let need = match executed {
                Some(executed) if !executed.touches(unit.range) => Need::None,
                _ => Need::Own,
            };
            analysis.add(unit, need);
        }
        analysis.add_executed();
        analysis.reach_ahead();
        analysis
    }

    fn add(&mut self, unit: Unit<'d>, need: Need) {
        if self.executed.is_some() {
            // Others must see it, whether it will be read or not.
            self.layout.insert(unit.range, self.functions.len());
        }
        let mut entries = vec![unit.range.start];
        entries.extend(unit.more_entries);
        self.found.insert(unit.range.start);
        self.functions.push(Working {
            names: unit.names,
            vouchers: unit.vouchers,
            fragment: unit.fragment,
            outline: Outline {
                pieces: vec![unit.range],
                entries,
                landing_pads: Vec::new(),
                leaders: Vec::new(),
                data: Vec::new(),
                open_ended: !unit.sized,
            },
            cfg: Cfg::default(),
            links: Links::default(),
            stale: need != Need::None,
            absorbed: false,
            need,
            is_complete: false,
        });
    }

    /// Reads stale functions and follows up on what they show, until none is stale.
    fn settle(&mut self, watch: &Watch) {
        let mut read = Vec::new();
        for round in 0..MAX_ROUNDS {
            self.fence_unread();
            self.refresh_world();
            let more = self.read_stale(watch);
            if more.is_empty() {
                return;
            }
            self.reach(&more);
            read.extend(more);
            if round + 1 == MAX_ROUNDS {
                return;
            }
            // Who refers to what can be told when all have been read.
            if !self.functions.iter().any(|f| f.is_unread() && f.stale && !f.absorbed) {
                read.sort_unstable();
                read.dedup();
                self.follow_targets(&read);
                pieces::absorb(&mut self.functions, &mut self.layout, self.world.references);
                read.clear();
            }
            self.follow_noreturn();
        }
    }

    /// Reads the functions whose turn it is; which they were.
    fn read_stale(&mut self, watch: &Watch) -> Vec<usize> {
        let mut work: Vec<(usize, &mut Working<'d>)> =
            self.functions.iter_mut().enumerate().filter(|(_, f)| f.stale && !f.absorbed).collect();
        if work.iter().any(|(_, f)| !f.can_wait()) {
            work.retain(|(_, f)| !f.can_wait());
        }
        let read: Vec<usize> = work.iter().map(|&(i, _)| i).collect();
        for (i, function) in &work {
            for piece in &function.cfg.pieces {
                self.layout.remove(piece.start, *i);
            }
        }
        // The largest first: one that takes a second must not be the last to start.
        work.sort_by_key(|(_, f)| std::cmp::Reverse(f.len()));
        let (world, data) = (&self.world, &self.data);
        let mut complaints: Vec<(usize, Complaint)> = work
            .into_iter()
            .par_bridge()
            .flat_map_iter(|(i, function)| {
                let complaints = function.complete(world.image, data);
                function.cfg = recover(world, &function.outline);
                function.links = Links::of(&function.cfg);
                function.stale = false;
                watch.step();
                complaints.into_iter().map(move |complaint| (i, complaint))
            })
            .collect();
        complaints.sort_by_key(|&(i, _)| i);
        self.complaints.extend(complaints.into_iter().map(|(_, complaint)| complaint));
        for &i in &read {
            for &piece in &self.functions[i].cfg.pieces {
                self.layout.insert(piece, i);
            }
        }
        read
    }

    fn refresh_world(&mut self) {
        let mut starts: Vec<LinkAddr> = self
            .functions
            .iter()
            .filter(|f| !f.absorbed)
            .flat_map(|f| f.outline.entries.iter().copied())
            .collect();
        starts.sort_unstable();
        starts.dedup();
        self.world.starts = starts;
    }

    /// Calls and jumps out of the given functions: new functions, and new entries of known ones.
    fn follow_targets(&mut self, among: &[usize]) {
        let (called, jumped) = rayon::join(
            || self.new_targets(among, |links, found| found.extend(&links.calls)),
            || {
                self.new_targets(among, |links, found| {
                    let jumps = links.exits.iter().filter(|(_, kind)| *kind != EdgeKind::LandingPad);
                    found.extend(jumps.map(|(to, _)| to));
                })
            },
        );
        // From the back, so that each finds the next one as its fence.
        for (&target, mention) in called.iter().rev() {
            match self.layout.holding(target) {
                Some(owner) if !self.is_beyond_code(owner, target) => {
                    if mention.firm {
                        self.functions[owner].add_entry(target);
                    }
                }
                _ => self.add_found(target, mention.provenance(), mention.need),
            }
        }
        for (&target, mention) in jumped.iter().rev() {
            // Into the middle of a known function: that is for `pieces` to judge.
            if self.layout.holding(target).is_none() {
                self.add_found(target, mention.provenance(), mention.need);
            }
        }
    }

    /// What the given functions refer to and no function is known at.
    fn new_targets(
        &self,
        among: &[usize],
        targets: impl Fn(&Links, &mut Vec<LinkAddr>),
    ) -> BTreeMap<LinkAddr, Mention> {
        let image = self.world.image;
        let mut new: BTreeMap<LinkAddr, Mention> = BTreeMap::new();
        let mut found = Vec::new();
        for &i in among {
            let function = &self.functions[i];
            targets(&function.links, &mut found);
            for at in found.drain(..) {
                if self.world.starts.binary_search(&at).is_err()
                    && image.elf.is_text(at)
                    && image.stub_holding(at).is_none()
                {
                    let mention = new.entry(at).or_default();
                    mention.firm |= !function.is_guess();
                    mention.need = mention.need.max(self.need_of_found(function, at));
                }
            }
        }
        new
    }

    /// Whether the function has no stated end and no code at `at`.
    pub(super) fn is_beyond_code(&self, function: usize, at: LinkAddr) -> bool {
        let function = &self.functions[function];
        function.outline.open_ended && function.cfg.block_holding(at).is_none()
    }

    /// A function nobody announced.
    pub(super) fn add_found(&mut self, at: LinkAddr, who: Provenance, need: Need) {
        if self.found.contains(&at) {
            return;
        }
        let elf = &self.world.image.elf;
        let Some(text) = elf.text.iter().find(|t| t.contains(at)) else { return };
        // Whoever ended where its code did must not reach beyond this one any more.
        if let Some((_, before)) = self.layout.up_to(at) {
            let function = &mut self.functions[before];
            if let Some(piece) = function.outline.pieces.iter_mut().find(|p| p.contains(at) && p.start != at)
                && function.outline.open_ended
            {
                piece.end = at;
                function.stale |= function.cfg.blocks.last().is_some_and(|b| b.end_addr() > at);
            }
        }
        let end = self.layout.next_start(at).map_or(text.end, |next| next.min(text.end));
        // A jump to where only fill is left: compilers point cases there that cannot happen.
        if holes::is_fill(self.world.image, AddrRange::new(at, end)) {
            return;
        }
        let unit = Unit {
            range: AddrRange::new(at, end),
            names: Vec::new(),
            vouchers: Vouchers::one(who),
            sized: false,
            fragment: false,
            more_entries: Vec::new(),
        };
        self.add(unit, need);
        // Later finds must see this one as a fence.
        self.layout.insert(AddrRange::sized(at, 1), self.functions.len() - 1);
    }

    /// Functions that turn out never to return change their callers.
    fn follow_noreturn(&mut self) {
        let returns = noreturn::returning(&self.functions, &self.world);
        let mut fresh: Vec<LinkAddr> = Vec::new();
        for (function, returns) in self.functions.iter().zip(returns) {
            let entry = function.entry();
            if !returns && !function.absorbed && self.world.returns(entry) == Returns::Yes {
                fresh.push(entry);
            }
        }
        if fresh.is_empty() {
            return;
        }
        fresh.sort_unstable();
        let stated = &self.world.image.stated;
        self.functions.par_iter_mut().for_each(|function| {
            let is_concerned = function.links.calls.iter().any(|callee| fresh.binary_search(callee).is_ok());
            // Where it is stated which calls come back, nobody asks what they call.
            function.stale |=
                is_concerned && !function.cfg.pieces.iter().all(|piece| stated.covers(piece.start));
        });
        self.world.noreturn.extend(fresh.into_iter().map(|at| (at, Returns::SeeminglyNot)));
    }

    /// Where the compiler left a map of its blocks: notes where the code says otherwise, and takes the map's
    /// word for functions that are not understood without.
    fn consult_block_maps(&mut self) {
        let (elf, stated) = (&self.world.image.elf, &self.world.image.stated);
        let maps = self.world.image.block_maps.iter().flat_map(|map| &map.ranges);
        // What is stated comes from the map, or before it.
        for range in maps.filter(|range| !stated.covers(range.start)) {
            let Some(owner) = self.layout.holding(range.start) else { continue };
            let function = &mut self.functions[owner];
            let starts = range.blocks.iter().filter(|b| !b.range.is_empty()).map(|b| b.range.start);
            for at in starts.clone() {
                let Some(block) = function.cfg.block_holding(at) else { continue };
                if !function.cfg.block(block).insns(elf).any(|insn| insn.addr() == at) {
                    self.contradictions.push(Contradiction {
                        at,
                        one: (Provenance::BbAddrMap, "a block starts here".to_string()),
                        other: (Provenance::DataFlow, "this is inside an instruction".to_string()),
                    });
                }
            }
            if !function.cfg.is_understood() {
                function.outline.leaders.extend(starts);
                function.stale = true;
            }
        }
        for function in self.functions.iter_mut().filter(|f| f.is_read() && !f.cfg.is_understood()) {
            let leaders: Vec<LinkAddr> =
                function.outline.pieces.iter().flat_map(|&piece| stated.blocks_in(piece)).copied().collect();
            function.stale |= !leaders.is_empty();
            function.outline.leaders.extend(leaders);
        }
    }

    /// Adds functions found in text that belongs to none; whether there were any.
    fn look_into_holes(&mut self) -> bool {
        if self.executed.is_some() {
            return self.look_into_executed();
        }
        let found = holes::candidates(self.world.image, &self.layout, &self.data, self.world.references);
        // From the back, so that each finds the next one as its fence.
        for &(at, who) in found.iter().rev() {
            self.add_found(at, who, Need::Own);
        }
        !found.is_empty()
    }

    fn finish(mut self) -> Program<'d> {
        self.outline_others();
        // A guess that does not hold is no function: the bytes are not understood, and that is all.
        for (i, function) in self.functions.iter_mut().enumerate() {
            if function.is_guess() && (!function.cfg.is_understood() || function.cfg.blocks.is_empty()) {
                function.absorbed = true;
                for piece in &function.cfg.pieces {
                    self.layout.remove(piece.start, i);
                }
            }
        }
        let returns = noreturn::returning(&self.functions, &self.world);
        let stretches = holes::stretches(self.world.image, &self.layout, &self.data);
        let world = self.world;
        let mut functions: Vec<Function<'d>> = self
            .functions
            .into_iter()
            .zip(returns)
            .filter(|(f, _)| !f.absorbed)
            .map(|(working, returns)| Function {
                entry: working.entry(),
                returns: returns && world.returns(working.entry()) != Returns::Never,
                names: working.names,
                vouchers: working.vouchers,
                cfg: working.cfg,
            })
            .collect();
        functions.par_sort_by_key(|f| f.entry);
        let mut pieces: Vec<(AddrRange, FunctionId)> = functions
            .iter()
            .zip(0..)
            .flat_map(|(f, id)| f.cfg.pieces.iter().map(move |&p| (p, FunctionId(id))))
            .collect();
        pieces.sort_unstable();
        Program {
            functions,
            only_executed: self.executed.is_some(),
            stretches,
            contradictions: self.contradictions,
            complaints: self.complaints,
            pieces,
            timings: self.timings,
        }
    }
}
