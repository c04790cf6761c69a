//! Which memory serves to bring threads in order: what has to be known of all of a trace before races are looked for.
//!
//! That is what a locked instruction ever touches, what a loop waits for ([`spin`](super::spin)), what is accessed by code that is meant for
//! that ([`atomic`](super::atomic)), what the kernel wakes or lets wait (`futex`), and what whoever asks says is atomic.

use super::atomic;
use super::kernel::{FUTEX, is_shared_word};
use super::part::LATEST;
use super::runtime::Runtime;
use super::spin;
use crate::map::Map;
use crate::{Analysis, Code, Locate, Segment};
use relive_trace::visit::{Event, Ran, Visitor};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Bytes that serve to bring threads in order: by address divided by eight, a bit for each.
pub(super) type Bytes = Map<u64, u8>;

/// How much memory behind the base of `fs` belongs to the description of a thread.
const THREAD_LEN: u64 = 0x900;

/// The segments of threads, in order, by the numbers of threads.
pub(super) type Segments = Map<u32, VecDeque<Beginning>>;

/// How a segment begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Beginning {
    /// A thread begins there.
    pub(super) is_first: bool,
    /// Nothing in the segment is earlier; if a thread begins there, the first moment in it that is known.
    pub(super) time: u64,
}

/// Such memory of one process, and what else has to be known before races are looked for.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    pub(super) bytes: Bytes,
    /// The descriptions of threads: from where to where, and whose.
    pub(super) threads: Vec<(u64, u64, u32)>,
    /// The segments of each thread, in order.
    pub(super) segments: Segments,
    /// A bit for each hash of an address: none of them is set if it is in neither.
    filter: Vec<u64>,
}

const FILTER_BITS: u64 = 1 << 16;

impl Variables {
    fn new(Seen { bytes, bases, segments, .. }: Seen) -> Self {
        let threads: Vec<_> = bases.iter().map(|&(base, thread)| (base, base + THREAD_LEN, thread)).collect();
        let mut variables = Self { bytes, threads, segments, filter: vec![0; FILTER_BITS as usize / 64] };
        let threads = variables.threads.clone();
        let of_threads = threads.iter().flat_map(|&(start, end, _)| start / 8..end.div_ceil(8));
        let all: Vec<u64> = variables.bytes.keys().copied().chain(of_threads).collect();
        for granule in all {
            let bit = granule % FILTER_BITS;
            variables.filter[bit as usize / 64] |= 1 << (bit % 64);
        }
        variables
    }

    /// Whether eight bytes may hold any.
    #[inline]
    pub(super) fn may_hold(&self, granule: u64) -> bool {
        let bit = granule % FILTER_BITS;
        self.filter.get(bit as usize / 64).is_some_and(|word| word >> (bit % 64) & 1 != 0)
    }

    /// Whose description eight bytes are in.
    pub(super) fn thread(&self, granule: u64) -> Option<u32> {
        let holds = |&&(start, end, _): &&(u64, u64, u32)| (start..end).contains(&(granule * 8));
        self.threads.iter().find(holds).map(|thread| thread.2)
    }
}

/// Eight bytes each, and which of them an access touches.
pub(super) fn granules(address: u64, size: u32) -> impl Iterator<Item = (u64, u8)> {
    let end = address.saturating_add(size.max(1).into());
    (address / 8..end.div_ceil(8)).map(move |granule| {
        let from = address.saturating_sub(granule * 8).min(8) as u32;
        let to = (end - granule * 8).min(8) as u32;
        (granule, (0xffu32 << from & 0xffu32 >> (8 - to)) as u8)
    })
}

/// The question.
pub struct FindVariables {
    /// Plain loads that wait, and loads and stores that are atomic.
    meant: BTreeMap<u32, Arc<BTreeSet<u64>>>,
    found: BTreeMap<u32, Seen>,
}

/// What has been seen of a process.
#[derive(Default)]
struct Seen {
    bytes: Bytes,
    /// The descriptions of threads, and whose.
    bases: BTreeSet<(u64, u32)>,
    segments: Segments,
    /// The last moments of threads that are known.
    last: Map<u32, u64>,
}

impl FindVariables {
    /// Asks a trace whose code is known. `atomic` are bytes of processes that are known to be atomic: from where, how many.
    #[must_use]
    pub fn new(
        code: &dyn Code,
        processes: &[u32],
        runtime: &dyn Runtime,
        atomic: &[(u32, u64, u32)],
    ) -> Self {
        let meant = |&process: &u32| {
            let units = code.units(process);
            let mut meant = spin::loads(units, process, runtime);
            meant.extend(atomic::accesses(units, process, runtime));
            (process, Arc::new(meant))
        };
        let mut found: BTreeMap<u32, Seen> = BTreeMap::new();
        for &(process, address, len) in atomic {
            add(&mut found.entry(process).or_default().bytes, address, len);
        }
        Self { meant: processes.iter().map(meant).collect(), found }
    }
}

fn add(bytes: &mut Bytes, address: u64, len: u32) {
    for (granule, mask) in granules(address, len) {
        *bytes.entry(granule).or_default() |= mask;
    }
}

/// What a segment tells.
pub struct Part {
    meant: Option<Arc<BTreeSet<u64>>>,
    /// By unit: which of its instructions these are.
    units: Vec<Option<Box<[u16]>>>,
    bytes: Bytes,
    /// The first state of the thread.
    base: Option<u64>,
    has_begun: bool,
    moments: Moments,
}

/// The moments of a segment that are known.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    first: Option<u64>,
    last: Option<u64>,
    /// Whether nothing happens before the first.
    begins_with: Option<bool>,
}

impl Moments {
    fn add(&mut self, time: u64) {
        let time = time.min(LATEST);
        self.begins_with.get_or_insert(true);
        self.first.get_or_insert(time);
        self.last = self.last.max(Some(time));
    }

    /// Something happens, nobody knows when.
    fn something(&mut self) {
        self.begins_with.get_or_insert(false);
    }
}

impl Visitor for Part {
    fn ran(&mut self, ran: &Ran<'_>) {
        self.has_begun = true;
        self.moments.something();
        ran.stamps.iter().for_each(|stamp| self.moments.add(stamp.after));
        let number = ran.unit.number as usize;
        if self.units.len() <= number {
            self.units.resize(number + 1, None);
        }
        let meant = self.units[number].get_or_insert_with(|| {
            let is_meant = |pc| self.meant.as_ref().is_some_and(|meant| meant.contains(pc));
            let steps = ran.unit.steps.iter().zip(0..).filter(|(step, _)| is_meant(&step.pc));
            steps.map(|(_, number)| number).collect()
        });
        if meant.is_empty() && ran.stamps.is_empty() {
            return;
        }
        for reference in ran.references {
            if reference.is_locked || meant.contains(&reference.step) {
                add(&mut self.bytes, reference.address, reference.size);
            }
        }
    }

    fn event(&mut self, event: &Event) {
        match *event {
            Event::Call { time, .. } | Event::Result { time, .. } => self.moments.add(time),
            Event::State(_) | Event::NotCalled => self.moments.something(),
        }
        match event {
            Event::State(state) if !self.has_begun => self.base = Some(state.fs),
            Event::Call { number: FUTEX, arguments, .. } if is_shared_word(arguments) => {
                add(&mut self.bytes, arguments[0], 4);
            }
            _ => {}
        }
    }
}

impl Analysis for FindVariables {
    type Part = Part;
    type Report = BTreeMap<u32, Arc<Variables>>;

    fn part(&self, segment: &Segment) -> Part {
        Part {
            meant: self.meant.get(&segment.process).cloned(),
            units: Vec::new(),
            bytes: Bytes::default(),
            base: None,
            has_begun: segment.number > 0,
            moments: Moments::default(),
        }
    }

    fn combine(&mut self, segment: &Segment, part: Part) {
        let seen = self.found.entry(segment.process).or_default();
        for (granule, mask) in part.bytes {
            *seen.bytes.entry(granule).or_default() |= mask;
        }
        seen.bases.extend(part.base.filter(|base| *base != 0).map(|base| (base, segment.thread)));
        let segments = seen.segments.entry(segment.thread).or_default();
        // The first segment of a thread may be missing.
        let is_first = segment.number == 0 || segments.is_empty();
        let last = seen.last.entry(segment.thread).or_default();
        let begins = part.moments.first.filter(|_| is_first || part.moments.begins_with == Some(true));
        *last = begins.unwrap_or(0).max(*last);
        segments.push_back(Beginning { is_first, time: *last });
        *last = part.moments.last.unwrap_or(0).max(*last);
    }

    fn finish(self, _: &dyn Code, _: &dyn Locate) -> Self::Report {
        self.found.into_iter().map(|(process, seen)| (process, Arc::new(Variables::new(seen)))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::granules;

    #[test]
    fn bytes_in_eights() {
        let all = |address, size| granules(address, size).collect::<Vec<_>>();
        assert_eq!(all(16, 8), [(2, 0xff)]);
        assert_eq!(all(17, 2), [(2, 0b110)]);
        assert_eq!(all(22, 4), [(2, 0b1100_0000), (3, 0b11)]);
        assert_eq!(all(8, 20), [(1, 0xff), (2, 0xff), (3, 0x0f)]);
    }
}
