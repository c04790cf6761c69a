//! Memory for translated code: near the code it is made from, so that what is relative to an instruction stays in
//! reach.

use crate::boot::die;
use crate::room;
use crate::translate::emit::reaches;
use crate::zone;
use alloc::vec::Vec;
use relive_abi::kernel::{self, MAP_ANONYMOUS, MAP_FIXED_NOREPLACE, MAP_NORESERVE, MAP_PRIVATE};

const PROT_ALL: u32 = 7;
/// How much is reserved at once.
const USUAL_LEN: u64 = 128 << 20;
/// The share of it for what is rarely executed lies behind this.
const USUAL_HOT: u64 = 80 << 20;
/// Distances from the code at which to look for room.
const STEP: u64 = 64 << 20;

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

    /// What is rarely executed begins here.
    fn cold_start(&self) -> u64 {
        self.start + self.len / (USUAL_LEN >> 20) * (USUAL_HOT >> 20)
    }

    fn is_near(&self, pc: u64) -> bool {
        reaches(self.start, pc) && reaches(self.end(), pc)
    }

    /// Asks for memory some time before it is needed, for many pages at once.
    fn prepare(&mut self) {
        const AHEAD: u64 = 128 << 10;
        const MADVISE: usize = 28;
        const POPULATE_WRITE: usize = 23;
        for (next, ready) in [(self.hot, &mut self.ready.0), (self.cold, &mut self.ready.1)] {
            if next + AHEAD / 4 > *ready {
                // SAFETY: only brings memory of this region in. Where the kernel does not know how, it does so later.
                let _ = unsafe {
                    kernel::call6(MADVISE, [*ready as usize, AHEAD as usize, POPULATE_WRITE, 0, 0, 0])
                };
                *ready += AHEAD;
            }
        }
    }

    /// Whether there is room for another unit.
    pub fn has_room(&self) -> bool {
        self.hot + (64 << 10) < self.cold_start() && self.cold + (64 << 10) < self.end()
    }
}

/// All of them.
#[derive(Default)]
pub struct Regions {
    all: Vec<Region>,
}

impl Regions {
    /// One with room that is near an address; the second says whether it is new. Without room for code nothing can
    /// go on.
    pub fn near(&mut self, pc: u64) -> (&mut Region, bool) {
        let found = self.all.iter().position(|r| r.is_near(pc) && r.has_room());
        let is_new = found.is_none();
        let index = match found {
            Some(index) => index,
            None => {
                let region =
                    reserve(pc).unwrap_or_else(|| die(b"relive: no room for code near the program\n"));
                self.all.push(region);
                self.all.len() - 1
            }
        };
        self.all[index].prepare();
        (&mut self.all[index], is_new)
    }

    /// Gives the memory back: nothing is executed there any more.
    pub fn unmap(&mut self) {
        for region in self.all.drain(..) {
            // SAFETY: ours, and not used any more.
            unsafe { kernel::munmap(region.start, region.len) };
        }
    }

    /// Whether an address is in translated code.
    pub fn contains(&self, at: u64) -> bool {
        self.all.iter().any(|r| (r.start..r.end()).contains(&at))
    }
}

/// Below the code if possible: heaps grow upwards from the program.
fn reserve(pc: u64) -> Option<Region> {
    let (len, step) = (USUAL_LEN >> room::smaller(), STEP >> room::smaller());
    let pc = pc & !(step - 1);
    let times = |n: u64| n << room::smaller();
    let below = (times(4)..times(28)).filter_map(|n| pc.checked_sub(n * step));
    let above = (times(4)..times(24)).map(|n| pc + n * step);
    below.chain(above).filter(|&at| at >= STEP).find_map(|at| {
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
        let mut region = Region { start, len, hot: start, cold: 0, ready: (start, 0) };
        (region.cold, region.ready.1) = (region.cold_start(), region.cold_start());
        if len == USUAL_LEN {
            zone::use_large_pages(start + zone::LARGE, USUAL_HOT - zone::LARGE);
        }
        Some(region)
    })
}
