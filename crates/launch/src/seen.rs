//! What was executed, by file: the counters of all processes, put together.

use crate::arena::{Arena, Process};
use relive_abi::engine as abi;
use std::collections::HashMap;
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

/// A place in a file: which of [`Seen::files`], and how far from its start. For code that no file has, the address.
pub type Place = (usize, u64);

/// What was executed of one file.
#[derive(Debug)]
pub struct File {
    /// Where the code is.
    pub origin: Origin,
    /// How many processes executed any of it.
    pub processes: u64,
    /// Instructions that were executed one after the other: from where to where, and how often.
    pub straight: Vec<(u64, u64, u64)>,
    /// Branches that were taken, by where the branch ends and where it led.
    pub taken: HashMap<(u64, u64), u64>,
    /// Computed jumps and calls, by their own place and where they led.
    pub targets: HashMap<(u64, Place), u64>,
}

/// Everything that was executed.
#[derive(Debug, Default)]
pub struct Seen {
    /// In the order in which they were met.
    pub files: Vec<File>,
    by_origin: HashMap<Origin, usize>,
}

/// A mapping of a process.
struct Mapping {
    start: u64,
    end: u64,
    /// What to add to an address for a place in the file.
    shift: u64,
    file: usize,
}

impl Seen {
    /// All that an arena holds.
    #[must_use]
    pub fn new(arena: &Arena) -> Self {
        let mut seen = Self::default();
        for process in arena.processes() {
            seen.add(arena, &process);
        }
        seen
    }

    /// What one process has executed.
    pub fn add(&mut self, arena: &Arena, process: &Process<'_>) {
        let mut mappings: HashMap<u32, Mapping> = HashMap::new();
        let mut touched = vec![false; self.files.len()];
        let mut targets = Vec::new();
        let records = arena.records(process);
        let mut cut: HashMap<u32, Vec<abi::Interruption>> = HashMap::new();
        for (_, body) in records.iter().filter(|(kind, _)| *kind == abi::INTERRUPTION) {
            if let Some((cut_at, _)) = read::<abi::Interruption>(body).filter(|(i, _)| i.holds != 0) {
                cut.entry(cut_at.unit).or_default().push(cut_at);
            }
        }
        let mut units = 0;
        for (kind, body) in records {
            match kind {
                abi::MAPPING => {
                    if let Some((number, mapping)) = self.mapping(body) {
                        mappings.insert(number, mapping);
                        touched.resize(self.files.len(), false);
                    }
                }
                abi::UNIT => {
                    let cut = cut.get(&units).map_or(&[][..], Vec::as_slice);
                    units += 1;
                    self.unit(body, process, &mappings, cut, &mut touched);
                }
                abi::TARGET => targets.push(body),
                _ => {}
            }
        }
        for body in targets {
            self.target(body, process, &mappings);
        }
        for (file, touched) in self.files.iter_mut().zip(touched) {
            file.processes += u64::from(touched);
        }
    }

    fn mapping(&mut self, body: &[u8]) -> Option<(u32, Mapping)> {
        let (head, rest) = read::<abi::Mapping>(body)?;
        let path = rest.get(..head.path_len as usize)?;
        let origin = match path {
            b"[vdso]" => Origin::Kernel,
            // A file that is gone has no code to look up any more.
            [b'/', ..] if head.inode != 0 && !path.ends_with(b" (deleted)") => Origin::File(path_of(path)),
            _ => Origin::Generated,
        };
        let shift = match origin {
            Origin::File(_) => head.offset,
            Origin::Kernel => head.start.wrapping_neg(),
            Origin::Generated => 0,
        };
        let files = &mut self.files;
        let file = *self.by_origin.entry(origin.clone()).or_insert_with(|| {
            let (straight, taken, targets) = (Vec::new(), HashMap::new(), HashMap::new());
            files.push(File { origin, processes: 0, straight, taken, targets });
            files.len() - 1
        });
        Some((head.number, Mapping { start: head.start, end: head.end, shift, file }))
    }

    /// The counts of a unit. Those of the files that it has code of are `touched`, if it ran.
    fn unit(
        &mut self,
        body: &[u8],
        process: &Process<'_>,
        mappings: &HashMap<u32, Mapping>,
        cut: &[abi::Interruption],
        touched: &mut [bool],
    ) -> Option<()> {
        let (head, mut rest) = read::<abi::Unit>(body)?;
        if head.entries == abi::NO_COUNTER {
            return None;
        }
        let mut reached = process.count(head.entries);
        if reached == 0 && cut.is_empty() {
            return None;
        }
        let mut pieces = Vec::new();
        for _ in 0..head.pieces {
            let (piece, behind) = read::<abi::Piece>(rest)?;
            pieces.push((piece, mappings.get(&piece.mapping)?));
            rest = behind;
        }
        let mut exits: Vec<abi::Exit> = Vec::new();
        for _ in 0..head.exits {
            let (exit, behind) = read::<abi::Exit>(rest)?;
            exits.push(exit);
            rest = behind;
        }
        for (i, &(piece, mapping)) in pieces.iter().enumerate() {
            touched[mapping.file] = true;
            let file = &mut self.files[mapping.file];
            let place = |at: u64| at.wrapping_add(mapping.shift);
            // Those that were interrupted here have not seen the rest.
            let (mut start, here) = (piece.start, cut.iter().filter(|cut| cut.piece as usize == i));
            let mut here: Vec<&abi::Interruption> = here.collect();
            here.sort_unstable_by_key(|cut| cut.pc);
            reached += here.iter().filter(|cut| cut.counted == 0).count() as u64;
            for cut in here {
                if start < cut.pc {
                    file.straight.push((place(start), place(cut.pc), reached));
                    start = cut.pc;
                }
                reached = reached.saturating_sub(1);
            }
            if reached == 0 {
                break;
            }
            if start < piece.end {
                file.straight.push((place(start), place(piece.end), reached));
            }
            let left = exits.iter().filter(|exit| exit.piece as usize == i);
            for exit in left.filter(|exit| exit.counter != abi::NO_COUNTER) {
                let count = process.count(exit.counter).min(reached);
                let rest = reached - count;
                // Where the branch led, and how often; and how often the unit goes on.
                let (to, taken, goes_on) = match exit.kind {
                    abi::LOOP => (exit.to, rest, count),
                    abi::STRAY | abi::GUESS => (pieces.get(i + 1)?.0.start, rest, rest),
                    _ => (exit.to, count, rest),
                };
                reached = goes_on;
                if taken == 0 {
                    continue;
                }
                if exit.kind == abi::GUESS {
                    let there = pieces[i + 1].1;
                    let to = (there.file, to.wrapping_add(there.shift));
                    *file.targets.entry((place(exit.to), to)).or_default() += taken;
                } else {
                    *file.taken.entry((place(piece.end), place(to))).or_default() += taken;
                }
            }
        }
        Some(())
    }

    fn target(&mut self, body: &[u8], process: &Process<'_>, mappings: &HashMap<u32, Mapping>) -> Option<()> {
        let (target, _) = read::<abi::Target>(body)?;
        let count = process.count(target.counter);
        let from = mappings.get(&target.mapping)?;
        let to = mappings.values().find(|m| (m.start..m.end).contains(&target.to))?;
        if count > 0 {
            let to = (to.file, target.to.wrapping_add(to.shift));
            let site = target.site.wrapping_add(from.shift);
            *self.files[from.file].targets.entry((site, to)).or_default() += count;
        }
        Some(())
    }
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
