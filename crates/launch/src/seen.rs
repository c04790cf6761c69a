//! What was executed, by file: the counters of all processes, put together.

use crate::arena::{Arena, Process};
use crate::flow::{Flow, Taken};
use crate::generated::Generated;
use crate::intervals::Intervals;
use crate::vdso;
use relive_abi::engine as abi;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

/// Where code comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A file.
    File(PathBuf),
    /// The kernel: code that every process has.
    Kernel,
    /// The program made it.
    Generated,
}

/// A place in a file: which of [`Seen::files`], and how far from its start. For generated code, the address in
/// [`Seen::generated`].
pub type Place = (usize, u64);

/// What was executed of one file.
#[derive(Debug)]
pub struct File {
    /// Where the code is.
    pub origin: Origin,
    /// Which processes executed any of it, as the kernel numbers them.
    pub processes: Vec<u32>,
    /// Instructions that were executed one after the other: from where to where, and how often.
    pub straight: Vec<(u64, u64, u64)>,
    /// Branches that were taken, by where the branch ends and where it led. [`ELSEWHERE`] is another file.
    pub taken: HashMap<(u64, u64), u64>,
    /// Computed jumps and calls, by their own place and where they led.
    pub targets: HashMap<(u64, Place), u64>,
    /// Of generated code: where other jumps and calls lead, by where they end and the address they name.
    pub ways: HashMap<(u64, u64), Place>,
    /// Code that ran when there were no counters any more.
    pub uncounted: Vec<(u64, u64)>,
    /// Whether code ran that need not be counted.
    pub has_exempt: bool,
    /// How much of `straight` has been put together already.
    compact: usize,
}

impl File {
    /// Puts counts of the same code together, when there is much new: most processes do what others did.
    fn compact(&mut self) {
        const LITTLE: usize = 1 << 16;
        if self.straight.len() < 2 * self.compact + LITTLE {
            return;
        }
        self.straight.sort_unstable();
        self.straight.dedup_by(|next, first| {
            let same = (next.0, next.1) == (first.0, first.1);
            if same {
                first.2 += next.2;
            }
            same
        });
        self.compact = self.straight.len();
    }
}

/// Not in the same file.
pub const ELSEWHERE: u64 = u64::MAX;

/// Everything that was executed.
#[derive(Debug, Default)]
pub struct Seen {
    /// In the order in which they were met.
    pub files: Vec<File>,
    /// Code in no file.
    pub generated: Generated,
    /// What code of the kernel is.
    pub kernel: Vec<u8>,
    /// How many units and targets ran that were not counted.
    pub lost: u64,
    by_origin: HashMap<Origin, usize>,
}

/// A mapping of a process.
#[derive(Clone, Copy, Debug)]
struct Mapping {
    /// What to add to an address for a place in the file.
    shift: u64,
    file: usize,
}

/// What lies where in a process, as far as its log has been read.
#[derive(Default)]
struct View {
    pid: u32,
    mappings: Intervals<Mapping>,
    /// What to add to an address of generated code for its version.
    versions: Intervals<u64>,
    /// Ways to generated code, of which it is not known yet what version they lead to.
    open: Vec<Open>,
    touched: HashSet<usize>,
    /// Where generated code of units lies, by their number: see [`abi::AGAIN`].
    units: HashMap<u32, Vec<(abi::Piece, u64)>>,
}

/// A way out of generated code: where it ends, what to add to addresses there, and the address it names.
struct Open {
    end: u64,
    shift: u64,
    to: u64,
    count: Option<u64>,
    is_call: bool,
}

/// A way from the end of some code to an address.
struct Way {
    end: u64,
    from: Mapping,
    to: u64,
    is_call: bool,
}

/// Code that was translated in one go.
pub struct Unit<'a> {
    /// Instructions one behind the other.
    pub pieces: Vec<abi::Piece>,
    /// The ways out. Those of a [`abi::GUESS`] say in `to` where the jump is.
    pub exits: Vec<abi::Exit>,
    /// The code of each piece, if it was written down.
    pub code: Vec<&'a [u8]>,
}

/// How often a unit was executed.
pub struct Counts {
    /// How often it was entered; none if nobody counted.
    pub entered: Option<u64>,
    /// Where it was left in the middle.
    pub stopped: Vec<Stopped>,
    /// For each exit, how often it was taken.
    pub left: Vec<u64>,
}

/// A unit was left in the middle.
#[derive(Clone, Copy)]
pub struct Stopped {
    /// In which piece.
    pub piece: u32,
    /// The instruction that was not executed any more.
    pub pc: u64,
    /// How often.
    pub times: u64,
    /// Whether these are among [`Counts::entered`].
    pub is_counted: bool,
}

impl<'a> Unit<'a> {
    /// One of the log of a process, and how it is counted.
    fn read(body: &[u8], code: Option<&'a [u8]>) -> Option<(abi::Unit, Self)> {
        let (head, mut rest) = read::<abi::Unit>(body)?;
        let mut unit = Self { pieces: Vec::new(), exits: Vec::new(), code: Vec::new() };
        for _ in 0..head.pieces {
            let (piece, behind) = read::<abi::Piece>(rest)?;
            unit.pieces.push(piece);
            rest = behind;
        }
        for _ in 0..head.exits {
            let (exit, behind) = read::<abi::Exit>(rest)?;
            unit.exits.push(exit);
            rest = behind;
        }
        if let Some(code) = code {
            unit.set_code(code)?;
        }
        Some((head, unit))
    }

    /// Takes the code of all pieces, one behind the other. `None` if there is not enough.
    pub fn set_code(&mut self, mut code: &'a [u8]) -> Option<()> {
        self.code.clear();
        for piece in &self.pieces {
            let (bytes, behind) = code.split_at_checked(piece.end.checked_sub(piece.start)? as usize)?;
            self.code.push(bytes);
            code = behind;
        }
        Some(())
    }
}

/// Takes in what one process has executed, told in the order in which its code was met.
pub struct Telling<'s> {
    seen: &'s mut Seen,
    view: View,
    /// How many units have been told of.
    units: u32,
}

impl Telling<'_> {
    /// Executable memory of the process: from where to where, what to add to an address for a place in the file, and what it is.
    pub fn mapping(&mut self, start: u64, end: u64, offset: u64, origin: Origin) {
        let shift = match origin {
            Origin::File(_) => offset,
            Origin::Kernel => start.wrapping_neg(),
            Origin::Generated => 0,
        };
        let file = self.seen.file(origin);
        self.view.mappings.insert(start, end, Mapping { shift, file });
    }

    /// A unit, and how often it was executed. Gives back where each of its pieces begins, if that can be said.
    pub fn unit(&mut self, unit: &Unit<'_>, counts: &Counts) -> Option<Vec<Place>> {
        self.units += 1;
        let places = self.seen.unit(self.units - 1, unit, &mut self.view, counts)?;
        let place =
            |(piece, place): (&abi::Piece, Mapping)| (place.file, piece.start.wrapping_add(place.shift));
        Some(unit.pieces.iter().zip(places).map(place).collect())
    }

    /// A computed jump or call has led from one place to another so often.
    pub fn target(&mut self, (file, site): Place, to: Place, count: u64) {
        if count > 0 {
            *self.seen.files[file].targets.entry((site, to)).or_default() += count;
        }
    }

    /// That was all.
    pub fn finish(self) {
        let Self { seen, view, .. } = self;
        seen.close(&view);
        for &file in &view.touched {
            seen.files[file].processes.push(view.pid);
            seen.files[file].compact();
        }
    }
}

impl Seen {
    /// Nothing yet.
    #[must_use]
    pub fn nothing() -> Self {
        Self { kernel: vdso::image().unwrap_or_default(), ..Self::default() }
    }

    /// A process, of which somebody tells what it has executed.
    pub fn process(&mut self, pid: u32) -> Telling<'_> {
        Telling { seen: self, view: View { pid, ..View::default() }, units: 0 }
    }

    /// What one process has executed.
    pub fn add(&mut self, arena: &Arena, process: &Process<'_>) {
        let records = arena.records(process);
        let mut cut: HashMap<u32, Vec<Stopped>> = HashMap::new();
        for (_, body) in records.iter().filter(|(kind, _)| *kind == abi::INTERRUPTION) {
            if let Some((at, _)) = read::<abi::Interruption>(body).filter(|(i, _)| i.holds != 0) {
                let stopped = Stopped { piece: at.piece, pc: at.pc, times: 1, is_counted: at.counted != 0 };
                cut.entry(at.unit).or_default().push(stopped);
            }
        }
        let taken = taken(&records, process, &cut);
        let mut telling = self.process(process.pid);
        let mut units = 0;
        let mut records = records.into_iter().peekable();
        while let Some((kind, body)) = records.next() {
            match kind {
                abi::MAPPING => mapping(body, &mut telling),
                abi::UNIT => {
                    let code = records.next_if(|(kind, _)| *kind == abi::CODE).map(|(_, code)| code);
                    if let Some((head, unit)) = Unit::read(body, code) {
                        let left = |(exit, n): (&abi::Exit, u32)| match exit.kind.into() {
                            abi::GUESS => process.count(exit.number),
                            _ => taken.of(units, n),
                        };
                        let is_exempt = head.exempt != 0;
                        let is_counted = head.entries != abi::NO_COUNTER;
                        let entered = is_counted.then(|| process.count(head.entries));
                        let counts = Counts {
                            // That of exempt code is nothing to add, not something that is missing.
                            entered: if is_exempt { Some(0) } else { entered },
                            stopped: if is_exempt {
                                Vec::new()
                            } else {
                                cut.get(&units).cloned().unwrap_or_default()
                            },
                            left: unit.exits.iter().zip(0..).map(left).collect(),
                        };
                        telling.units = units;
                        let places = telling.unit(&unit, &counts);
                        if let (true, Some(&(file, _))) =
                            (is_exempt, places.as_deref().and_then(<[_]>::first))
                        {
                            telling.seen.files[file].has_exempt = true;
                            telling.view.touched.insert(file);
                        }
                    }
                    units += 1;
                }
                abi::AGAIN => {
                    let Some((number, _)) = read::<u32>(body) else { continue };
                    let View { units, versions, .. } = &mut telling.view;
                    for (piece, shift) in units.get(&number).into_iter().flatten() {
                        versions.insert(piece.start, piece.end, *shift);
                    }
                }
                abi::TARGET => {
                    target(body, process, &mut telling);
                }
                _ => {}
            }
        }
        telling.finish();
        self.lost += process.statistics.lost;
    }

    fn file(&mut self, origin: Origin) -> usize {
        let files = &mut self.files;
        *self.by_origin.entry(origin.clone()).or_insert_with(|| {
            files.push(File {
                origin,
                processes: Vec::new(),
                straight: Vec::new(),
                taken: HashMap::new(),
                targets: HashMap::new(),
                ways: HashMap::new(),
                uncounted: Vec::new(),
                has_exempt: false,
                compact: 0,
            });
            files.len() - 1
        })
    }

    /// Where the pieces of a unit lie. `None` if that cannot be said.
    fn locate(&mut self, unit: &Unit<'_>, view: &mut View) -> Option<Vec<Mapping>> {
        let mut found = Vec::with_capacity(unit.pieces.len());
        let mut generated = Vec::new();
        for (i, piece) in unit.pieces.iter().enumerate() {
            let mut mapping = view.mappings.at(piece.start)?;
            let code = unit.code.get(i).copied();
            if self.files[mapping.file].origin == Origin::Kernel {
                let start = piece.start.wrapping_add(mapping.shift) as usize;
                let known = self.kernel.get(start..).and_then(|rest| rest.get(..code?.len()));
                if known != code {
                    // Not the code that this kernel gives to this process.
                    mapping = Mapping { shift: 0, file: self.file(Origin::Generated) };
                }
            }
            if self.files[mapping.file].origin == Origin::Generated {
                generated.push((i, piece, code?));
            }
            found.push(mapping);
        }
        if !generated.is_empty() {
            let code: Vec<_> = generated.iter().map(|&(_, piece, code)| (piece.start, code)).collect();
            let shift = self.generated.add(&code, view.pid)?;
            for (i, piece, _) in generated {
                found[i].shift = shift;
                view.versions.insert(piece.start, piece.end, shift);
            }
        }
        Some(found)
    }

    /// The counts of a unit. Gives back where its pieces lie, if that can be said.
    fn unit(
        &mut self,
        number: u32,
        unit: &Unit<'_>,
        view: &mut View,
        counts: &Counts,
    ) -> Option<Vec<Mapping>> {
        let Some(places) = self.locate(unit, view) else {
            self.lost += 1;
            return None;
        };
        let generated = unit.pieces.iter().zip(&places);
        let generated = generated.filter(|(_, place)| self.files[place.file].origin == Origin::Generated);
        let generated: Vec<_> = generated.map(|(piece, place)| (*piece, place.shift)).collect();
        if !generated.is_empty() {
            view.units.insert(number, generated);
        }
        let Some(mut reached) = counts.entered else {
            for (piece, place) in unit.pieces.iter().zip(&places) {
                let (start, end) =
                    (piece.start.wrapping_add(place.shift), piece.end.wrapping_add(place.shift));
                self.files[place.file].uncounted.push((start, end));
            }
            return Some(places);
        };
        if reached == 0 && counts.stopped.is_empty() {
            return Some(places);
        }
        for (i, (piece, place)) in unit.pieces.iter().zip(&places).enumerate() {
            view.touched.insert(place.file);
            let file = &mut self.files[place.file];
            let at = |at: u64| at.wrapping_add(place.shift);
            // Those that were interrupted here have not seen the rest.
            let here = counts.stopped.iter().filter(|cut| cut.piece as usize == i);
            let (mut start, mut here) = (piece.start, here.collect::<Vec<_>>());
            here.sort_unstable_by_key(|cut| cut.pc);
            reached += here.iter().filter(|cut| !cut.is_counted).map(|cut| cut.times).sum::<u64>();
            for cut in here {
                if start < cut.pc {
                    file.straight.push((at(start), at(cut.pc), reached));
                    start = cut.pc;
                }
                reached = reached.saturating_sub(cut.times);
            }
            if reached == 0 {
                break;
            }
            if start < piece.end {
                file.straight.push((at(start), at(piece.end), reached));
            }
            let exits = unit.exits.iter().zip(&counts.left);
            for (exit, &left) in exits.filter(|(exit, _)| exit.piece as usize == i) {
                let next = unit.pieces.get(i + 1).zip(places.get(i + 1));
                let is_call = matches!(exit.kind.into(), abi::CALL | abi::CALL_NEXT);
                let way = Way { end: at(piece.end), from: *place, to: exit.to, is_call };
                let left = left.min(reached);
                if !matches!(exit.kind.into(), abi::BRANCH | abi::STRAY | abi::GUESS) {
                    self.way(&way, None, view);
                    // A return that was to lead to the next piece, and did not.
                    reached -= if u32::from(exit.kind) == abi::RETURN { left } else { 0 };
                    continue;
                }
                reached -= left;
                match (exit.kind.into(), next) {
                    (abi::BRANCH, _) if left > 0 => self.way(&way, Some(left), view),
                    (abi::GUESS, Some((next, there))) if reached > 0 => {
                        let to = (there.file, next.start.wrapping_add(there.shift));
                        *self.files[place.file].targets.entry((at(exit.to), to)).or_default() += reached;
                    }
                    (abi::STRAY, Some((next, _))) if reached > 0 => {
                        self.way(&Way { to: next.start, ..way }, Some(reached), view);
                    }
                    _ => {}
                }
            }
            // A jump inside the unit, or simply the next instruction.
            let next = unit.pieces.get(i + 1).zip(places.get(i + 1));
            if let Some((next, there)) = next.filter(|_| reached > 0)
                && self.files[place.file].origin == Origin::Generated
            {
                let there = (there.file, next.start.wrapping_add(there.shift));
                self.files[place.file]
                    .ways
                    .insert((at(piece.end), next.start.wrapping_add(place.shift)), there);
            }
        }
        Some(places)
    }

    /// A way, and how often it was taken if that was counted.
    fn way(&mut self, way: &Way, count: Option<u64>, view: &mut View) {
        let &Way { end, from, to, is_call } = way;
        if to == 0 {
            return;
        }
        if self.files[from.file].origin == Origin::Generated {
            view.open.push(Open { end, shift: from.shift, to, count, is_call });
        } else if let Some(count) = count {
            let there = view.mappings.at(to).filter(|there| there.file == from.file);
            let to = there.map_or(ELSEWHERE, |there| to.wrapping_add(there.shift));
            *self.files[from.file].taken.entry((end, to)).or_default() += count;
        }
    }

    /// Where ways out of generated code lead, when all of it is known.
    fn close(&mut self, view: &View) {
        let Some(&file) = self.by_origin.get(&Origin::Generated) else { return };
        for &Open { end, shift, to, count, is_call } in &view.open {
            // What hangs together by jumps is of the same version.
            let version = Some(shift).filter(|_| !is_call);
            let there = self.place(to, version, view).or_else(|| self.place(to, Some(shift), view));
            let Some(there) = there else { continue };
            self.files[file].ways.insert((end, to.wrapping_add(shift)), there);
            if let Some(count) = count {
                let to = if there.0 == file { there.1 } else { ELSEWHERE };
                *self.files[file].taken.entry((end, to)).or_default() += count;
            }
        }
    }

    /// The place of an address, in the version that is asked for if it is in that.
    fn place(&self, at: u64, version: Option<u64>, view: &View) -> Option<Place> {
        let mapping = view.mappings.at(at)?;
        let shift = match &self.files[mapping.file].origin {
            Origin::Generated => version
                .filter(|version| self.generated.holds(at.wrapping_add(*version)))
                .or_else(|| view.versions.at(at))
                .or(version)?,
            _ => mapping.shift,
        };
        Some((mapping.file, at.wrapping_add(shift)))
    }
}

/// Executable memory, as it was written down.
fn mapping(body: &[u8], telling: &mut Telling<'_>) {
    let Some((head, rest)) = read::<abi::Mapping>(body) else { return };
    let Some(path) = rest.get(..head.path_len as usize) else { return };
    let origin = match path {
        b"[vdso]" => Origin::Kernel,
        path if abi::is_file(path, head.inode) => Origin::File(path_of(path)),
        _ => Origin::Generated,
    };
    telling.mapping(head.start, head.end, head.offset, origin);
}

/// The same for where a computed jump or call went.
fn target(body: &[u8], process: &Process<'_>, telling: &mut Telling<'_>) -> Option<()> {
    let (target, _) = read::<abi::Target>(body)?;
    let (file, site) = telling.seen.place(target.site, None, &telling.view)?;
    let to = telling.seen.place(target.to, None, &telling.view)?;
    if target.counter == abi::NO_COUNTER {
        telling.seen.files[file].uncounted.push((site, site + 1));
        return None;
    }
    telling.target((file, site), to, process.count(target.counter));
    Some(())
}

/// How often the exits of all units were taken.
fn taken(records: &[(u32, &[u8])], process: &Process<'_>, cut: &HashMap<u32, Vec<Stopped>>) -> Taken {
    let mut flow = Flow::default();
    let mut units = 0;
    for (kind, body) in records {
        match *kind {
            abi::UNIT => {
                if let Some((head, unit)) = Unit::read(body, None) {
                    let cut = cut.get(&units).map_or(&[][..], Vec::as_slice);
                    // Some had not been counted yet.
                    let more = cut.iter().filter(|cut| !cut.is_counted).count() as u64;
                    let entered = match head.entries {
                        abi::NO_COUNTER => 0,
                        counter => process.count(counter) + more,
                    };
                    flow.unit(&head, &unit.exits, entered, cut.len() as u64);
                } else {
                    flow.lost_unit();
                }
                units += 1;
            }
            abi::TARGET => {
                if let Some((target, _)) =
                    read::<abi::Target>(body).filter(|(t, _)| t.counter != abi::NO_COUNTER)
                {
                    flow.target(&target, process.count(target.counter));
                }
            }
            abi::EDGE => {
                if let Some((edge, _)) = read::<abi::Edge>(body) {
                    flow.edge(&edge, process);
                }
            }
            _ => {}
        }
    }
    flow.solve()
}

fn path_of(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

/// A structure at the start of some bytes, and what follows.
fn read<T: Copy>(bytes: &[u8]) -> Option<(T, &[u8])> {
    let (head, rest) = bytes.split_at_checked(size_of::<T>())?;
    // SAFETY: the structures of the log are plain numbers, and there are enough bytes.
    Some((unsafe { head.as_ptr().cast::<T>().read_unaligned() }, rest))
}
