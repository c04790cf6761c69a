//! How the old code of a function is unwound, looked up by address.

use relive_code::addr::{AddrRange, LinkAddr};
use relive_image::elf::Elf;
use relive_image::lsda::Lsda;
use relive_image::unwind::Unwind;
use relive_image::unwind_rows::{Row, Treatment};

/// What becomes of an exception.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Throw {
    /// Where it lands; without, it goes on to the caller.
    pub pad: Option<LinkAddr>,
    /// The first action, as an offset into the old table.
    pub action: Option<u64>,
}

/// The unwind tables of one function.
#[derive(Default)]
pub struct Frames {
    /// By address.
    pub rows: Vec<(AddrRange, Row)>,
    /// Each frame of the function: where, how it is treated, what it throws.
    pub frames: Vec<(AddrRange, Treatment, Option<Lsda>)>,
}

impl Frames {
    /// Reads the tables for `pieces`.
    ///
    /// # Errors
    /// Why they cannot be carried over.
    pub fn read(elf: &Elf<'_>, unwind: &Unwind<'_>, pieces: &[AddrRange]) -> Result<Self, &'static str> {
        let mut this = Self::default();
        for piece in pieces {
            let first = unwind.frames.partition_point(|f| f.range.end <= piece.start);
            for frame in unwind.frames[first..].iter().take_while(|f| f.range.start < piece.end) {
                let (treatment, rows) = unwind.rows(frame).map_err(|_| "its unwind entry is damaged")?;
                let lsda = unwind.lsda(elf, frame).map_err(|_| "its exception table is damaged")?;
                this.rows.extend(rows);
                this.frames.push((frame.range, treatment, lsda));
            }
        }
        this.rows.sort_by_key(|(range, _)| *range);
        Ok(this)
    }

    /// The row for `at`.
    #[must_use]
    pub fn row_at(&self, at: LinkAddr) -> Option<usize> {
        let behind = self.rows.partition_point(|(range, _)| range.start <= at);
        behind.checked_sub(1).filter(|&i| self.rows[i].0.contains(at))
    }

    /// The frame that covers `at`.
    #[must_use]
    pub fn frame_at(&self, at: LinkAddr) -> Option<&(AddrRange, Treatment, Option<Lsda>)> {
        self.frames.iter().find(|(range, ..)| range.contains(at))
    }

    /// What becomes of an exception from the instruction that ends at `end`. `None` if it ends the program,
    /// or if there are no exceptions here.
    #[must_use]
    pub fn throw_at(&self, end: LinkAddr) -> Option<Throw> {
        let at = LinkAddr(end.0 - 1);
        let lsda = self.frame_at(at)?.2.as_ref()?;
        let first = lsda.call_sites.partition_point(|site| site.range.end <= at);
        let site = lsda.call_sites.get(first).filter(|site| site.range.contains(at))?;
        Some(Throw { pad: site.landing_pad, action: site.action })
    }
}
