//! Rewrites a whole module: which functions move, where everything goes, and the new file.

use crate::callers::{Moved, told_by_callers};
use crate::eh_frame::{self, Entry, Writer};
use crate::elf_file::{self, Changes, NewSection, NewSegment, NewSymbol, Old};
use crate::emit::{Job, convention, emit};
use crate::flat::{Flat, Map, Unwound, collect, flatten};
use crate::frames::Frames;
use crate::prepared::{Linked, Unusable};
use crate::promote::{Promotions, journeys, lines, promote};
use crate::redirect::{Addends, Redirect, Redirects};
use crate::runtime::{Home, Runtime};
use crate::select::{Left, Movable, Survey, check, survey};
use crate::start;
use crate::tight::Tight;
use object::elf::{PF_R, PF_W, PF_X};
use rayon::prelude::*;
use relive_abi::counters::{area_len, settled_len};
use relive_abi::page_up;
use relive_abi::parameters::{self, Parameters};
use relive_abi::rprof::SlotLayout;
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::cfg::BlockId;
use relive_code::liveness::Liveness;
use relive_image::elf::Kind;
use relive_image::image::Image;
use relive_image::program::needs::Needs;
use relive_image::program::{FunctionId, Program};
use relive_image::unwind_rows::Row;
use relive_image::watch::Watch;
use relive_probe::describe::{Fate, Measured};
use relive_probe::frequency::Frequencies;
use relive_probe::graph::Flow;
use relive_probe::placement::Plan;
use relive_probe::steady::Steady;
use relive_probe::survey::number_sites;
use relive_probe::weights::Weights;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// What to count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Calls of each function.
    Functions,
    /// Each block.
    Blocks,
    /// Each edge.
    Edges,
}

/// What of a function to measure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent<'a> {
    /// Nothing: it stays as it is.
    Nothing,
    /// All of it.
    All,
    /// How often these blocks run, by address, and nothing that follows from it.
    Blocks(&'a HashSet<u64>),
}

/// Says what of each function to measure. One that says yes or no means all of it or nothing.
pub trait Selection: Sync {
    /// What of a function.
    fn extent(&self, function: FunctionId) -> Extent<'_>;
}

impl<F: Fn(FunctionId) -> bool + Sync> Selection for F {
    fn extent(&self, function: FunctionId) -> Extent<'_> {
        if self(function) { Extent::All } else { Extent::Nothing }
    }
}

/// What is asked for.
pub struct Options<'a> {
    /// What to count.
    pub mode: Mode,
    /// Record where indirect calls lead.
    pub calls: bool,
    /// Fill the old code of moved functions with traps.
    pub trap: bool,
    /// What of each function to measure.
    pub wanted: &'a dyn Selection,
    /// What an earlier run counted, to place counters by.
    pub weights: Option<&'a Weights>,
    /// Where the profile goes.
    pub pattern: &'a str,
    /// The name of the module, for the pattern.
    pub name: &'a str,
    /// The linked runtime.
    pub runtime: &'a [u8],
    /// Told how far it is.
    pub watch: &'a Watch,
}

/// What is known before anything is written: enough to describe every counter.
pub struct Outline {
    /// By function.
    pub fates: Vec<Fate>,
    /// What a slot holds.
    pub layout: SlotLayout,
    /// The block of each indirect call site.
    pub sites: Vec<(FunctionId, BlockId)>,
}

/// Why a module is not rewritten.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// It walks its own stack by tables that do not know of moved code.
    #[error("Go programs walk their own stacks and cannot be moved")]
    Go,
    /// It uses the segment counters are reached through.
    #[error("it uses the gs segment itself, in {0}")]
    UsesGs(String),
    /// It is the program loader.
    #[error("it is the program loader, which runs before anything can be set up")]
    Loader,
    /// The file is not laid out as it must be.
    #[error("it cannot be extended: {0}")]
    File(#[from] elf_file::Unwritable),
    /// There is no place to start the runtime from.
    #[error("{0}")]
    Start(&'static str),
    /// New code would not be reached by the distances instructions can hold.
    #[error("it would grow beyond two gigabytes")]
    TooLarge,
    /// The runtime is damaged; it is part of this program.
    #[error("the runtime inside this program is damaged: {0}")]
    Runtime(String),
    /// Nothing in it can be measured.
    #[error("none of its functions can be measured")]
    Nothing,
}

/// The new file and what was done.
pub struct Rewritten {
    /// The file.
    pub bytes: Vec<u8>,
    /// Bytes of new code.
    pub code_bytes: u64,
    /// Counters by the way they are incremented: see [`crate::counting::Way::price`].
    pub ways: [u32; 3],
    /// Counters that a register tells which moves on in a loop.
    pub travelled: u64,
    /// Whether the runtime of a prepared binary could be used; nothing if the binary was not prepared.
    pub linked: Option<Result<(), Unusable>>,
}

struct Ready {
    movable: Movable,
    redirects: Redirects,
    promotions: Promotions,
    measured: Measured,
}

/// What is known of a module whatever is measured of it: made once, for all the times it is rewritten.
pub struct Groundwork<'a, 'd> {
    image: &'a Image<'d>,
    program: &'a Program<'d>,
    /// By function.
    surveys: Vec<Survey>,
    steady: Steady,
    addends: Addends,
    needs: Needs<'a, 'd>,
}

impl<'a, 'd> Groundwork<'a, 'd> {
    /// Looks at every function.
    ///
    /// # Errors
    /// Why the module cannot be rewritten at all.
    pub fn new(image: &'a Image<'d>, program: &'a Program<'d>) -> Result<Self, Refusal> {
        if image.go.is_some() {
            return Err(Refusal::Go);
        }
        if image.elf.kind == Kind::SharedObject
            && image.dynamic_symbols.iter().any(|s| s.defined && s.name == "_r_debug")
        {
            return Err(Refusal::Loader);
        }
        let surveys: Vec<Survey> = program.functions.par_iter().map(|f| survey(image, &f.cfg)).collect();
        if let Some(i) = surveys.iter().position(|s| s.gs) {
            return Err(Refusal::UsesGs(program.functions[i].name().into_owned()));
        }
        let kernel: Vec<bool> = surveys.iter().map(|s| s.syscall).collect();
        let steady = Steady::new(image, program, &kernel);
        let addends = Addends::new(image);
        Ok(Self { image, program, surveys, steady, addends, needs: Needs::new(image, program) })
    }
}

/// A module on its way.
pub struct Rewriter<'a, 'd> {
    image: &'a Image<'d>,
    program: &'a Program<'d>,
    options: &'a Options<'a>,
    old: Old<'d>,
    movables: Vec<Option<(Movable, Redirects, Promotions)>>,
    needs: &'a Needs<'a, 'd>,
    /// What was decided.
    pub outline: Outline,
}

impl<'a, 'd> Rewriter<'a, 'd> {
    /// Decides what becomes of each function.
    ///
    /// # Errors
    /// Why the module cannot be rewritten at all.
    pub fn new(ground: &'a Groundwork<'a, 'd>, options: &'a Options<'a>) -> Result<Self, Refusal> {
        let Groundwork { image, program, surveys, steady, addends, needs } = ground;
        let (image, program) = (*image, *program);
        let old = Old::parse(image.elf.data)?;
        options.watch.begin(program.functions.len());
        let mut decided: Vec<Result<Ready, Left>> = program
            .functions
            .par_iter()
            .enumerate()
            .map(|(i, function)| {
                options.watch.step();
                if options.wanted.extent(FunctionId(i as u32)) == Extent::Nothing {
                    return Err(Left::NotWanted);
                }
                let cfg = &function.cfg;
                let redirects = Redirects::find(image, addends, cfg);
                let redirected = |jump| redirects.is_copied(jump);
                let movable = check(image, program, function, &surveys[i], &redirected)?;
                let in_kernel =
                    |block: BlockId| surveys[i].syscall && cfg.block(block).has_syscall(&image.elf);
                let flow = Flow::new(cfg, &steady.calls(cfg, &in_kernel), &redirected);
                let measured =
                    Measured { flow, plan: Plan::default(), first_counter: 0, sites: HashMap::new() };
                Ok(Ready { movable, redirects, promotions: Promotions::default(), measured })
            })
            .collect();
        let moved: Vec<Moved<'_>> = program
            .functions
            .iter()
            .zip(&decided)
            .map(|(function, ready)| ready.as_ref().ok().map(|ready| (&function.cfg, &ready.measured.flow)))
            .collect();
        let is_partial = |i: usize| matches!(options.wanted.extent(FunctionId(i as u32)), Extent::Blocks(_));
        let told = told_by_callers(image, surveys, &moved, &is_partial);
        decided.par_iter_mut().enumerate().for_each(|(i, ready)| {
            let Ok(Ready { promotions, measured, .. }) = ready else { return };
            (measured.plan, *promotions) =
                placed(image, program, FunctionId(i as u32), &measured.flow, needs, options, told[i]);
        });
        let outline = number(image, program, options, &mut decided);
        let mut movables = Vec::new();
        let mut fates = Vec::new();
        for function in decided {
            match function {
                Ok(Ready { movable, redirects, promotions, measured }) => {
                    movables.push(Some((movable, redirects, promotions)));
                    fates.push(Fate::Measured(Box::new(measured)));
                }
                Err(left) => {
                    movables.push(None);
                    fates.push(Fate::Left(left.to_string()));
                }
            }
        }
        if movables.iter().all(Option::is_none) {
            return Err(Refusal::Nothing);
        }
        Ok(Self { image, program, options, old, movables, needs, outline: Outline { fates, ..outline } })
    }

    /// Writes the new file. `profile` is what a run writes to start a new profile.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub fn finish(&self, profile: &[u8]) -> Result<Rewritten, Refusal> {
        let flats = self.emit();
        let runtime = Runtime::parse(self.options.runtime).map_err(|e| Refusal::Runtime(e.to_string()))?;
        let runtime_facts =
            Image::parse(runtime.bytes(), None).map_err(|e| Refusal::Runtime(e.to_string()))?;

        // Code, then the runtime, then tables, then the counters.
        let code_at = self.old.free;
        let mut at = code_at;
        let mut places = Vec::with_capacity(flats.len());
        for flat in &flats {
            at = LinkAddr(at.0.next_multiple_of(u64::from(flat.align)));
            places.push(at);
            at = at.offset(flat.bytes.len() as u64);
        }
        let code_len = at.since(code_at);
        let runtime_at = LinkAddr(page_up(at.0));
        let linked = Linked::find(self.image, self.options.runtime);
        let home = match &linked {
            Some(Ok(linked)) => Home::Linked(linked),
            _ => Home::Copied(runtime_at),
        };
        let tables_at = runtime_at.offset(home.added_len(&runtime));

        let mut tables = vec![0; self.old.headers_len(home.added_segments(&runtime) + 3) as usize];
        let pattern_at = tables_at.offset(tables.len() as u64);
        for text in [self.options.pattern, self.options.name] {
            tables.extend(text.as_bytes());
            tables.push(0);
        }
        tables.resize(tables.len().next_multiple_of(16), 0);
        let profile_at = tables_at.offset(tables.len() as u64);
        tables.extend(profile);
        tables.resize(tables.len().next_multiple_of(8), 0);
        let cases = cases(&flats, &places);
        let copies = self.jump_tables(&cases, &mut tables, tables_at);
        let lsda_at = tables_at.offset(tables.len() as u64);
        let lsdas = exception_tables(&flats, &mut tables, tables_at);
        let lsda_len = tables_at.0 + tables.len() as u64 - lsda_at.0;
        tables.resize(tables.len().next_multiple_of(8), 0);
        let frame_at = tables_at.offset(tables.len() as u64);
        let (frame, index) = self.unwind_section(frame_at, &flats, &places, &lsdas, &runtime_facts, &home);
        tables.extend(&frame);
        tables.resize(tables.len().next_multiple_of(8), 0);
        let search_at = tables_at.offset(tables.len() as u64);
        tables.extend(eh_frame::search_table(search_at, frame_at, &index));
        let area = LinkAddr(page_up(tables_at.0 + tables.len() as u64));
        let area_len = area_len(&self.outline.layout);
        let (settled, settled_len) = (area.offset(area_len), settled_len(self.outline.layout.sites));
        if settled.0 + settled_len - self.image.elf.segments.first().map_or(0, |s| s.range.start.0)
            > 0x7fff_0000
        {
            return Err(Refusal::TooLarge);
        }

        let symbol = |name: &str| -> Result<LinkAddr, Refusal> {
            let at = runtime.symbol(name).and_then(|at| home.address(at));
            at.ok_or_else(|| Refusal::Runtime(format!("no {name}")))
        };
        let patches = self.patches(&cases, &flats, &places);
        drop(cases);
        let symbols = self.symbols(&flats, &places);
        let ways = flats.iter().fold([0; 3], |mut sum, flat| {
            sum.iter_mut().zip(flat.ways).for_each(|(a, b)| *a += b);
            sum
        });
        let map = Map::new(&flats, &places, area, [symbol("relive_enter")?, symbol("relive_call")?]);
        let mut code = vec![0xcc; code_len as usize];
        // Each goes once it is written.
        for (flat, &place) in flats.into_iter().zip(&places) {
            let bytes = &mut code[place.since(code_at) as usize..][..flat.bytes.len()];
            flat.write(bytes, place, &map, |table| copies[&(flat.function, table)]);
        }

        let mut changes = Changes { patches, symbols, ..Changes::default() };
        let parameters_at = symbol("relive_parameters")?;
        let is_library = self.image.elf.kind == Kind::SharedObject;
        let start = if is_library { symbol("relive_init")? } else { symbol("relive_start")? };
        let next = start::hook(self.image, start, &mut changes).map_err(Refusal::Start)?;
        let text = self.old_code();
        let parameters = Parameters {
            magic: parameters::MAGIC,
            flags: if is_library { parameters::LIBRARY } else { 0 }
                | if self.runs_early() { parameters::EARLY } else { 0 },
            reserved: 0,
            here: parameters_at.0,
            next: next.0,
            area: area.0,
            file: profile_at.0,
            file_len: profile.len() as u64,
            pattern: pattern_at.0,
            module_start: self.image.elf.segments.first().map_or(0, |s| s.range.start.0),
            module_end: settled.0 + settled_len,
            settled: settled.0,
            text_start: text.start.0,
            text_end: text.end.0,
            code_start: code_at.0,
            code_end: code_at.0 + code_len,
        };
        changes.segments.push(NewSegment { at: code_at, len: code_len, bytes: code, flags: PF_R.0 | PF_X.0 });
        changes.sections.push(NewSection::new(".relive.text", code_at, code_len).code());
        home.settle(&runtime, parameters_at, parameter_bytes(&parameters), &mut changes);
        changes.headers_in = changes.segments.len();
        let tables_len = tables.len() as u64;
        changes.segments.push(NewSegment { at: tables_at, len: tables_len, bytes: tables, flags: PF_R.0 });
        changes.segments.push(NewSegment {
            at: area,
            len: area_len + settled_len,
            bytes: Vec::new(),
            flags: PF_R.0 | PF_W.0,
        });
        debug_assert_eq!(changes.segments.len(), home.added_segments(&runtime) + 3);
        let search_len = eh_frame::search_table_len(index.len());
        changes.eh_frame_hdr = Some((search_at, search_len));
        changes.sections.extend([
            NewSection::new(".relive.profile", profile_at, profile.len() as u64),
            NewSection::new(".relive.except_table", lsda_at, lsda_len),
            NewSection::new(".eh_frame", frame_at, frame.len() as u64),
            NewSection::new(".eh_frame_hdr", search_at, search_len),
            NewSection::new(".relive.counters", area, area_len).zero(),
        ]);
        let travelled = self.movables.iter().flatten().map(|(.., kept)| kept.travelled.len() as u64).sum();
        Ok(Rewritten {
            bytes: elf_file::write(&self.old, changes),
            code_bytes: code_len,
            ways,
            travelled,
            linked: linked.map(|linked| linked.map(|_| ())),
        })
    }

    /// All new code, by old address.
    fn emit(&self) -> Vec<Flat> {
        let needs = self.needs;
        self.options.watch.begin(self.outline.fates.len());
        let mut flats: Vec<Flat> = self
            .outline
            .fates
            .par_iter()
            .enumerate()
            .flat_map_iter(|(i, fate)| match (fate, &self.movables[i]) {
                (Fate::Measured(measured), Some((_, redirects, promotions))) => {
                    let cfg = &self.program.functions[i].cfg;
                    // They were read before to see whether they can be, but all of them take too much memory.
                    let frames = Frames::read(&self.image.elf, &self.image.unwind, &cfg.pieces);
                    let frames = frames.unwrap_or_default();
                    let job = Job {
                        cfg,
                        flow: &measured.flow,
                        plan: &measured.plan,
                        promotions,
                        first_counter: measured.first_counter,
                        sites: &measured.sites,
                        redirects,
                        needs,
                        layout: self.outline.layout,
                        summaries: needs.summaries(FunctionId(i as u32)),
                        frames: &frames,
                    };
                    self.options.watch.step();
                    flatten(i, emit(&self.image.elf, &job), &frames)
                }
                _ => Vec::new(),
            })
            .collect();
        flats.par_sort_by_key(|flat| flat.old);
        flats
    }

    /// Copies of jump tables, by function and number.
    fn jump_tables(
        &self,
        cases: &Cases,
        tables: &mut Vec<u8>,
        tables_at: LinkAddr,
    ) -> HashMap<(usize, u32), LinkAddr> {
        let mut copies = HashMap::new();
        for (i, movable) in self.movables.iter().enumerate() {
            let Some((_, redirects, _)) = movable else { continue };
            for (number, redirect) in redirects.tables.iter().enumerate() {
                let Redirect::Copy { targets, .. } = redirect else { continue };
                tables.resize(tables.len().next_multiple_of(4), 0);
                let at = tables_at.offset(tables.len() as u64);
                copies.insert((i, number as u32), at);
                for target in targets {
                    let to = cases.get(&(i, number as u32, *target)).unwrap_or(target);
                    tables.extend((to.0.wrapping_sub(at.0) as u32).to_le_bytes());
                }
            }
        }
        copies
    }

    /// The old code, from the first byte to the last; nothing if some of it cannot be read.
    fn old_code(&self) -> AddrRange {
        let elf = &self.image.elf;
        let start = elf.text.first().map_or(LinkAddr(0), |text| text.start);
        let end = elf.text.last().map_or(start, |text| text.end);
        let is_readable = |text: &AddrRange| elf.segment_holding(text.start).is_some_and(|s| s.readable);
        AddrRange::new(start, if elf.text.iter().all(is_readable) { end } else { start })
    }

    /// Whether code of the module may run before its start: resolvers of indirect functions.
    fn runs_early(&self) -> bool {
        use relive_image::relocations::Filled;
        use relive_image::symbols::SymbolKind;
        self.image.relocations.iter().any(|r| matches!(r.filled, Filled::Resolved(_)))
            || self.image.dynamic_symbols.iter().any(|s| s.kind == SymbolKind::Resolver)
    }

    /// The complete unwind section: old code as it was, new code, and the runtime.
    #[allow(clippy::type_complexity)]
    fn unwind_section(
        &self,
        at: LinkAddr,
        flats: &[Flat],
        places: &[LinkAddr],
        lsdas: &[Option<LinkAddr>],
        runtime: &Image<'_>,
        home: &Home<'_>,
    ) -> (Vec<u8>, Vec<(LinkAddr, LinkAddr)>) {
        let mut writer = Writer::new(at);
        let program = |start: LinkAddr, rows: Vec<(AddrRange, Row)>| {
            let rows = rows.into_iter().map(|(range, row)| (range.start.since(start), Cow::Owned(row)));
            eh_frame::program(rows)
        };
        let unwind = &self.image.unwind;
        let old: Vec<_> = unwind
            .frames
            .par_iter()
            .map(|frame| {
                let (treatment, rows) = unwind.rows(frame).ok()?;
                Some((frame.range, treatment, frame.lsda, program(frame.range.start, rows)))
            })
            .collect();
        for (range, treatment, lsda, program) in old.into_iter().flatten() {
            writer.entry(&Entry { range, treatment, lsda, program: &program });
        }
        for ((flat, &place), &lsda) in flats.iter().zip(places).zip(lsdas) {
            let Some(Unwound { treatment, program, .. }) = &flat.unwound else { continue };
            let range = AddrRange::sized(place, flat.bytes.len() as u64);
            writer.entry(&Entry { range, treatment: *treatment, lsda, program });
        }
        for frame in &runtime.unwind.frames {
            let Ok((treatment, rows)) = runtime.unwind.rows(frame) else { continue };
            let Some(start) = home.address(frame.range.start) else { continue };
            let range = AddrRange::sized(start, frame.range.len());
            let program = program(frame.range.start, rows);
            writer.entry(&Entry { range, treatment, lsda: None, program: &program });
        }
        writer.finish()
    }

    /// Jumps from old code to new, and traps.
    fn patches(&self, cases: &Cases, flats: &[Flat], places: &[LinkAddr]) -> Vec<(LinkAddr, Vec<u8>)> {
        let mut lead: HashMap<LinkAddr, LinkAddr> = collect(flats, places, |flat| &flat.labels).collect();
        lead.extend(collect(flats, places, |flat| &flat.gates));
        let mut patches = Vec::new();
        for (i, movable) in self.movables.iter().enumerate() {
            let tables = movable.iter().flat_map(|(_, redirects, _)| redirects.tables.iter().enumerate());
            for (number, table) in tables {
                let Redirect::InPlace(words) = table else { continue };
                for (at, target) in words {
                    if let Some(to) = cases.get(&(i, number as u32, *target)) {
                        patches.push((*at, to.0.to_le_bytes().to_vec()));
                    }
                }
            }
        }
        for (movable, ..) in self.movables.iter().flatten() {
            if self.options.trap {
                let kept: Vec<AddrRange> = movable.detours.iter().flat_map(|d| d.keeps()).collect();
                for range in &movable.dead {
                    patches.extend(traps(*range, &kept));
                }
            }
            for detour in &movable.detours {
                if let Some(&to) = lead.get(&detour.place) {
                    patches.extend(detour.patches(to));
                }
            }
        }
        patches
    }

    fn symbols(&self, flats: &[Flat], places: &[LinkAddr]) -> Vec<NewSymbol<'a>> {
        let mut symbols = Vec::with_capacity(2 * flats.len());
        for (flat, &at) in flats.iter().zip(places) {
            let function = &self.program.functions[flat.function];
            let name = function.name();
            let entry = flat.entries.iter().find(|(old, _)| *old == function.entry).map(|&(_, new)| new);
            let len = flat.bytes.len() as u64;
            // A function begins where every call comes by: behind its gate.
            match entry.map(u64::from) {
                Some(entry) => {
                    symbols.push(NewSymbol { name: name.clone(), suffix: ".gate", at, len: entry });
                    symbols.push(NewSymbol { name, suffix: "", at: at.offset(entry), len: len - entry });
                }
                None => symbols.push(NewSymbol { name, suffix: ".cold", at, len }),
            }
        }
        symbols
    }
}

/// Where the counters of a function go, and which of them are kept in registers.
fn placed(
    image: &Image<'_>,
    program: &Program<'_>,
    id: FunctionId,
    flow: &Flow,
    needs: &Needs<'_, '_>,
    options: &Options<'_>,
    told: Option<f64>,
) -> (Plan, Promotions) {
    let function = program.function(id);
    let cfg = &function.cfg;
    let tight = Tight::find(cfg, &image.elf, flow);
    let extent = options.wanted.extent(id);
    if options.mode == Mode::Functions && extent == Extent::All {
        return (
            Plan::functions(flow),
            Promotions { lines: lines(cfg, &tight, None), ..Promotions::default() },
        );
    }
    let measured = options.weights.and_then(|w| w.frequencies(function.entry, cfg, &image.elf, flow));
    let lines = lines(cfg, &tight, measured.as_ref());
    let often = measured.unwrap_or_else(|| Frequencies::estimate(cfg, &image.elf, flow));
    let plan = |cheap| match (extent, options.mode) {
        (Extent::Blocks(blocks), _) => Plan::part(cfg, flow, &|block| blocks.contains(&block.0)),
        (_, Mode::Edges) => Plan::edges(cfg, flow, &often, cheap, told),
        _ => Plan::blocks(cfg, flow),
    };
    if tight.is_empty() {
        return (plan(&HashMap::new()), Promotions::default());
    }
    let (callees, summaries) = (|at| needs.of(at), needs.summaries(id));
    let liveness = Liveness::with_summaries(cfg, &image.elf, &convention(needs, cfg), &callees, summaries);
    let journeys = journeys(&tight, flow, &often, &liveness);
    let plan = plan(&journeys.iter().map(|(&header, journey)| (header, journey.price)).collect());
    let promotions = promote(lines, &tight, &journeys, flow, &plan, &often, &liveness);
    (plan, promotions)
}

/// Where cases of redirected tables are now, by function, table and old place.
type Cases = HashMap<(usize, u32, LinkAddr), LinkAddr>;

fn cases(flats: &[Flat], places: &[LinkAddr]) -> Cases {
    let all = flats.iter().zip(places);
    all.flat_map(|(flat, &place)| {
        let cases = flat.cases.iter();
        cases.map(move |&(table, old, new)| ((flat.function, table, old), place.offset(u64::from(new))))
    })
    .collect()
}

/// Writes the exception tables of new code; where each chunk's is.
fn exception_tables(flats: &[Flat], tables: &mut Vec<u8>, tables_at: LinkAddr) -> Vec<Option<LinkAddr>> {
    let throws = |flat: &Flat| {
        let (old, sites) = &**flat.unwound.as_ref()?.throws.as_ref()?;
        tables.resize(tables.len().next_multiple_of(4), 0);
        let at = tables_at.offset(tables.len() as u64);
        tables.extend(eh_frame::exception_table(at, old, sites));
        Some(at)
    };
    flats.iter().map(throws).collect()
}

/// Numbers counters and call sites.
fn number(
    image: &Image<'_>,
    program: &Program<'_>,
    options: &Options<'_>,
    decided: &mut [Result<Ready, Left>],
) -> Outline {
    let mut layout = SlotLayout::default();
    let mut sites = Vec::new();
    for (i, function) in decided.iter_mut().enumerate() {
        let Ok(Ready { measured, .. }) = function else { continue };
        measured.first_counter = layout.counters;
        layout.counters += measured.plan.counters;
        if !options.calls {
            continue;
        }
        let (id, cfg) = (FunctionId(i as u32), &program.functions[i].cfg);
        let extent = options.wanted.extent(id);
        let is_counted = |block: BlockId| match extent {
            Extent::Blocks(blocks) => blocks.contains(&cfg.block(block).start.0),
            _ => true,
        };
        number_sites(image, id, cfg, &is_counted, &mut measured.sites, &mut sites);
    }
    layout.sites = sites.len() as u32;
    if layout.sites > 0 {
        layout.overflows = layout.sites + layout.sites.max(256);
        layout.modules = 64;
    }
    Outline { fates: Vec::new(), layout, sites }
}

/// Traps over `range` but for what is kept.
fn traps(range: AddrRange, kept: &[AddrRange]) -> Vec<(LinkAddr, Vec<u8>)> {
    let mut traps = Vec::new();
    let mut start = range.start;
    let mut inside: Vec<_> = kept.iter().filter(|k| !k.is_empty() && k.overlaps(&range)).collect();
    inside.sort_unstable();
    for keep in inside {
        if start < keep.start {
            traps.push((start, vec![0xcc; keep.start.since(start) as usize]));
        }
        start = start.max(keep.end);
    }
    if start < range.end {
        traps.push((start, vec![0xcc; range.end.since(start) as usize]));
    }
    traps
}

fn parameter_bytes(p: &Parameters) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size_of::<Parameters>());
    bytes.extend(p.magic.to_le_bytes());
    bytes.extend(p.flags.to_le_bytes());
    bytes.extend(p.reserved.to_le_bytes());
    let module = [p.here, p.next, p.area, p.file, p.file_len, p.pattern, p.module_start, p.module_end];
    let code = [p.settled, p.text_start, p.text_end, p.code_start, p.code_end];
    for word in module.into_iter().chain(code) {
        bytes.extend(word.to_le_bytes());
    }
    bytes
}
