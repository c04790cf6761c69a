//! Who has last accessed every byte of memory (Flanagan and Freund, "FastTrack").
//!
//! Eight bytes are kept together, in as many cells as there are groups of bytes with different pasts: mostly one.

use super::clock::{Clock, Epoch};
use crate::map::Map;

/// So many eights are on a page.
const PAGE: usize = 512;

/// So many pages are kept: half a million take from 10 to 20 GB at the very worst, a program that touches 100 MB makes 25 thousand.
pub(super) const MOST_PAGES: usize = 1 << 17;

/// The past of all memory of a process.
#[derive(Default)]
pub(super) struct Shadow {
    pages: Map<u64, Box<[Granule]>>,
    /// How many pages had to be given up.
    pub(super) given_up: u64,
}

type Granule = Cells;

/// Groups of bytes with the same past.
#[derive(Clone, Debug, Default)]
enum Cells {
    #[default]
    None,
    One(Cell),
    Several(Vec<Cell>),
}

#[derive(Clone, Debug)]
struct Cell {
    mask: u8,
    wrote: Access,
    write: Epoch,
    reads: Reads,
}

#[derive(Clone, Debug)]
enum Reads {
    One(Epoch, Access),
    /// That nobody has put in order.
    Several(Vec<(Epoch, Access)>),
}

/// Which access of a thread something is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Access {
    /// Where.
    pub(super) spot: u32,
    /// Which of the thread's.
    pub(super) number: u32,
}

/// Two accesses that nobody has put in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    /// The earlier one.
    pub(super) thread: u32,
    pub(super) access: Access,
    pub(super) is_write: bool,
}

/// An access as it happens.
#[derive(Clone, Copy)]
pub(super) struct Now<'c> {
    pub(super) clock: &'c Clock,
    pub(super) thread: u32,
    pub(super) access: Access,
    pub(super) is_write: bool,
}

impl Shadow {
    /// Some of eight bytes are accessed.
    pub(super) fn access(
        &mut self,
        granule: u64,
        mask: u8,
        now: Now<'_>,
        conflict: &mut impl FnMut(Conflict),
    ) {
        let page = granule / PAGE as u64;
        if !self.pages.contains_key(&page) && self.pages.len() >= MOST_PAGES {
            self.give_up();
        }
        let page = self.pages.entry(page).or_insert_with(|| vec![Cells::None; PAGE].into());
        page[granule as usize % PAGE].access(mask, now, conflict);
    }

    /// Any page will do: what is in use comes back.
    #[cold]
    fn give_up(&mut self) {
        if let Some(&page) = self.pages.keys().next() {
            self.pages.remove(&page);
            self.given_up += 1;
        }
    }

    /// What was in this memory is not there any more.
    pub(super) fn forget(&mut self, address: u64, len: u64) {
        let (first, end) = (address / 8, address.saturating_add(len).div_ceil(8));
        let page_of = |granule: u64| granule / PAGE as u64;
        let whole = |page: u64| page * PAGE as u64 >= first && (page + 1) * PAGE as u64 <= end;
        if (page_of(end) - page_of(first)) as usize > self.pages.len() {
            self.pages.retain(|&page, _| !whole(page));
        } else {
            (page_of(first)..=page_of(end)).filter(|&page| whole(page)).for_each(|page| {
                self.pages.remove(&page);
            });
        }
        for page in [page_of(first), page_of(end)] {
            let Some(granules) = self.pages.get_mut(&page) else { continue };
            for (granule, cells) in (page * PAGE as u64..).zip(granules.iter_mut()) {
                if (first..end).contains(&granule) {
                    *cells = Cells::None;
                }
            }
        }
    }
}

impl Cells {
    fn access(&mut self, mask: u8, now: Now<'_>, conflict: &mut impl FnMut(Conflict)) {
        match self {
            Self::None => *self = Self::One(Cell::new(mask, now)),
            Self::One(cell) if cell.mask == mask => cell.access(now, conflict),
            Self::One(cell) => {
                let mut cells = vec![cell.clone()];
                split(&mut cells, mask, now, conflict);
                *self = Self::Several(cells);
            }
            Self::Several(cells) => split(cells, mask, now, conflict),
        }
    }
}

/// Accesses bytes whose pasts may differ from those of their neighbours.
fn split(cells: &mut Vec<Cell>, mask: u8, now: Now<'_>, conflict: &mut impl FnMut(Conflict)) {
    let mut fresh = mask;
    for at in 0..cells.len() {
        let both = cells[at].mask & mask;
        if both == 0 {
            continue;
        }
        fresh &= !both;
        if both != cells[at].mask {
            let rest = Cell { mask: cells[at].mask & !both, ..cells[at].clone() };
            cells.push(rest);
            cells[at].mask = both;
        }
        cells[at].access(now, conflict);
    }
    if fresh != 0 {
        cells.push(Cell::new(fresh, now));
    }
}

impl Cell {
    fn new(mask: u8, now: Now<'_>) -> Self {
        let mut cell = Self {
            mask,
            write: Epoch::NONE,
            wrote: Access::default(),
            reads: Reads::One(Epoch::NONE, Access::default()),
        };
        cell.access(now, &mut |_| {});
        cell
    }

    #[inline]
    fn access(&mut self, now: Now<'_>, conflict: &mut impl FnMut(Conflict)) {
        let Now { clock, thread, access, is_write } = now;
        let epoch = Epoch::new(thread, clock.of(thread));
        if !clock.knows(self.write) {
            conflict(Conflict { thread: self.write.thread(), access: self.wrote, is_write: true });
        }
        if is_write {
            let mut check = |&(epoch, access): &(Epoch, Access)| {
                if !clock.knows(epoch) {
                    conflict(Conflict { thread: epoch.thread(), access, is_write: false });
                }
            };
            match &self.reads {
                Reads::One(epoch, access) => check(&(*epoch, *access)),
                Reads::Several(all) => all.iter().for_each(check),
            }
            (self.write, self.wrote) = (epoch, access);
            self.reads = Reads::One(Epoch::NONE, Access::default());
            return;
        }
        match &mut self.reads {
            Reads::One(before, at) => {
                if clock.knows(*before) {
                    (*before, *at) = (epoch, access);
                } else {
                    self.reads = Reads::Several(vec![(*before, *at), (epoch, access)]);
                }
            }
            Reads::Several(all) => match all.iter_mut().find(|(epoch, _)| epoch.thread() == thread) {
                Some(mine) => *mine = (epoch, access),
                None => all.push((epoch, access)),
            },
        }
    }
}
