//! Memory for translated code: near the code it is made from, so that what is relative to an instruction stays in
//! reach.

use crate::boot::die;
use crate::limits;
use crate::zone;
use alloc::vec::Vec;
use relive_abi::kernel::{self, MAP_ANONYMOUS, MAP_FIXED_NOREPLACE, MAP_NORESERVE, MAP_PRIVATE};

const PROT_ALL: u32 = 7;
/// How much is reserved at once at most, and at least.
const LONGEST: u64 = 128 << 20;
const SHORTEST: u64 = 2 << 20;

/// How much is reserved at once: a share of all there may be, so that some can wait until no thread is in it any more.
fn len_for(most: u64) -> u64 {
    (most / 4).next_power_of_two().clamp(SHORTEST, LONGEST)
}

/// The share of it for what is usually executed; the rest lies behind.
fn hot_part(len: u64) -> u64 {
    len / 8 * 5
}

/// Distances from the code at which to look for room. What code refers to may lie beyond it, and has to be in reach as
/// well; only if there is no other room it may be farther.
const NEAREST: u64 = 256 << 20;
const FAR: u64 = 1200 << 20;
const FARTHEST: u64 = 1800 << 20;
/// Below is no room for anybody.
const LOWEST: u64 = 64 << 20;

/// Where code can go.
pub struct Region {
    start: u64,
    len: u64,
    /// The next free byte of either part.
    pub hot: u64,
    /// The same for what is rarely executed.
    pub cold: u64,
    /// Up to where either part is in memory already.
    ready: (u64, u64),
}

impl Region {
    /// Its end.
    pub fn end(&self) -> u64 {
        self.start + self.len
    }

    /// Its beginning.
    pub fn start(&self) -> u64 {
        self.start
    }

    fn is_near(&self, pc: u64, far: u64) -> bool {
        self.start.abs_diff(pc) <= far && self.end().abs_diff(pc) <= far
    }

    /// Asks for memory some time before it is needed, for many pages at once where there is much code.
    fn prepare(&mut self) {
        const LEAST: u64 = 16 << 10;
        const MOST: u64 = 128 << 10;
        let (hot, cold) = (self.start, self.start + hot_part(self.len));
        for (start, next, ready) in [(hot, self.hot, &mut self.ready.0), (cold, self.cold, &mut self.ready.1)]
        {
            let ahead = (*ready - start).clamp(LEAST, MOST);
            if next + ahead / 4 > *ready {
                zone::populate(*ready, ahead);
                *ready += ahead;
            }
        }
    }

    /// Whether there is room for another unit.
    pub fn has_room(&self) -> bool {
        self.hot + (64 << 10) < self.start + hot_part(self.len) && self.cold + (64 << 10) < self.end()
    }
}

/// All of them.
pub struct Regions {
    all: Vec<Region>,
    /// The length of a new one.
    len: u64,
}

impl Regions {
    /// None yet, for so many bytes of code at most.
    pub fn new(most: u64) -> Self {
        Self { all: Vec::new(), len: len_for(most) }
    }

    /// Parts of some that are full.
    pub fn full(ranges: &[(u64, u64)]) -> Self {
        let full = |&(start, end): &(u64, u64)| Region {
            start,
            len: end - start,
            hot: end,
            cold: end,
            ready: (end, end),
        };
        Self { all: ranges.iter().map(full).collect(), len: 0 }
    }

    /// One with room that is near an address; the second says whether it is new. Without room for code nothing can
    /// go on.
    pub fn near(&mut self, pc: u64) -> (&mut Region, bool) {
        let known = self.all.len();
        let index = [FAR, FARTHEST].into_iter().find_map(|far| {
            let found = self.all.iter().position(|r| r.is_near(pc, far) && r.has_room());
            found.or_else(|| {
                // The program may have limited itself since.
                let len = self.len.min(LONGEST >> limits::smaller()).max(SHORTEST);
                self.all.push(reserve(pc, len, far)?);
                Some(self.all.len() - 1)
            })
        });
        let index = index.unwrap_or_else(|| die(b"relive: no room for code near the program\n"));
        let is_new = index == known;
        self.all[index].prepare();
        (&mut self.all[index], is_new)
    }

    /// The one in which the next code lies at an address.
    pub fn at(&mut self, next: u64) -> Option<&mut Region> {
        let region = self.all.iter_mut().find(|region| region.hot == next)?;
        region.prepare();
        Some(region)
    }

    /// How many bytes of code there are.
    pub fn used(&self) -> u64 {
        self.all.iter().map(|r| r.hot - r.start + r.cold - (r.start + hot_part(r.len))).sum()
    }

    /// Where they are.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        self.all.iter().map(|r| (r.start, r.end()))
    }

    /// Whether an address is in translated code.
    pub fn contains(&self, at: u64) -> bool {
        self.all.iter().any(|r| (r.start..r.end()).contains(&at))
    }
}

/// Below the code if possible: heaps grow upwards from the program.
fn reserve(pc: u64, len: u64, far: u64) -> Option<Region> {
    let pc = pc & !(len - 1);
    let distances = || (NEAREST..far - len).step_by(len as usize);
    let below = distances().filter_map(|distance| pc.checked_sub(distance));
    let above = distances().map(|distance| pc + distance);
    below.chain(above).filter(|&at| at >= LOWEST).find_map(|at| {
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
        // SAFETY: replaces nothing.
        let start = unsafe { kernel::mmap(at, len, PROT_ALL, flags, -1, 0) }.ok()?;
        if start != at {
            // An old kernel takes the address for a hint.
            // SAFETY: mapped just now.
            unsafe { kernel::munmap(start, len) };
            return None;
        }
        kernel::keep_out_of_cores(start, len);
        let hot = hot_part(len);
        if hot > zone::LARGE {
            zone::use_large_pages(start + zone::LARGE, hot - zone::LARGE);
        }
        Some(Region { start, len, hot: start, cold: start + hot, ready: (start, start + hot) })
    })
}
