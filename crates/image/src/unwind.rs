//! `.eh_frame`: where functions lie, and where exceptions land.

use crate::elf::Elf;
use crate::error::Complaint;
use crate::lsda;
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EhFrameHdr, EndianSlice, LittleEndian, Pointer, UnwindContext,
    UnwindSection as _,
};
use relive_code::addr::{AddrRange, LinkAddr};

type Slice<'d> = EndianSlice<'d, LittleEndian>;

/// A frame description entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The code it describes.
    pub range: AddrRange,
    /// Where its exception table lies.
    pub lsda: Option<LinkAddr>,
    /// Whether the stack is, at its start, as a call leaves it. A piece split off a function begins
    /// deep inside that function's frame.
    pub starts_like_a_function: bool,
    /// Offset of the entry in `.eh_frame`.
    pub offset: usize,
}

/// All of `.eh_frame`.
pub struct Unwind<'d> {
    section: EhFrame<Slice<'d>>,
    bases: BaseAddresses,
    /// Entries by address.
    pub frames: Vec<Frame>,
}

/// DWARF's number for the stack pointer.
const DWARF_RSP: gimli::Register = gimli::X86_64::RSP;

impl<'d> Unwind<'d> {
    /// Reads the section; what is damaged is left out with a complaint.
    pub(crate) fn read(elf: &Elf<'d>, complaints: &mut Vec<Complaint>) -> Self {
        let (at, data) = find_eh_frame(elf);
        let mut section = EhFrame::new(data, LittleEndian);
        section.set_address_size(8);
        let mut bases = BaseAddresses::default().set_eh_frame(at.0);
        if let Some(text) = elf.section(".text") {
            bases = bases.set_text(text.range.start.0);
        }
        if let Some(header) = elf.eh_frame_hdr {
            bases = bases.set_eh_frame_hdr(header.start.0);
        }
        let mut this = Self { section, bases, frames: Vec::new() };
        if let Err(why) = this.read_frames(elf) {
            complaints.push(Complaint::new(".eh_frame", why));
        }
        this.frames.sort_by_key(|f| f.range);
        this
    }

    fn read_frames(&mut self, elf: &Elf<'d>) -> gimli::Result<()> {
        let mut context = UnwindContext::new();
        let mut entries = self.section.entries(&self.bases);
        while let Some(entry) = entries.next()? {
            let CieOrFde::Fde(partial) = entry else { continue };
            let fde = partial.parse(EhFrame::cie_from_offset)?;
            let range = AddrRange::sized(LinkAddr(fde.initial_address()), fde.len());
            // Discarded functions leave entries behind that describe address zero.
            if range.is_empty() || !elf.is_text(range.start) {
                continue;
            }
            let lsda = match fde.lsda() {
                Some(Pointer::Direct(0)) | None => None,
                Some(Pointer::Direct(at)) => Some(LinkAddr(at)),
                Some(Pointer::Indirect(at)) => {
                    elf.bytes_at(LinkAddr(at)).first_chunk().map(|word| LinkAddr(u64::from_le_bytes(*word)))
                }
            };
            let starts_like_a_function = match fde.rows(&self.section, &self.bases, &mut context) {
                Ok(mut rows) => match rows.next_row() {
                    Ok(Some(row)) => {
                        matches!(row.cfa(), CfaRule::RegisterAndOffset { register, offset: 8 } if *register == DWARF_RSP)
                    }
                    _ => true,
                },
                Err(_) => true,
            };
            self.frames.push(Frame { range, lsda, starts_like_a_function, offset: fde.offset() });
        }
        Ok(())
    }

    /// The section and what its pointers are relative to.
    pub(crate) fn section(&self) -> (&EhFrame<Slice<'d>>, &BaseAddresses) {
        (&self.section, &self.bases)
    }

    /// The entry that describes `at`.
    #[must_use]
    pub fn frame_holding(&self, at: LinkAddr) -> Option<&Frame> {
        let behind = self.frames.partition_point(|f| f.range.start <= at);
        self.frames[..behind].last().filter(|f| f.range.contains(at))
    }

    /// For each stretch of the frame, how far the stack pointer is below the frame's start, where the
    /// table says it in terms of the stack pointer.
    ///
    /// # Errors
    /// If the entry's instructions are damaged.
    pub fn stack_depths(&self, frame: &Frame) -> gimli::Result<Vec<(AddrRange, Option<i64>)>> {
        let fde = self.section.fde_from_offset(
            &self.bases,
            gimli::EhFrameOffset(frame.offset),
            EhFrame::cie_from_offset,
        )?;
        let mut context = UnwindContext::new();
        let mut rows = fde.rows(&self.section, &self.bases, &mut context)?;
        let mut depths = Vec::new();
        while let Some(row) = rows.next_row()? {
            let range = AddrRange::new(LinkAddr(row.start_address()), LinkAddr(row.end_address()));
            let depth = match row.cfa() {
                CfaRule::RegisterAndOffset { register, offset } if *register == DWARF_RSP => Some(*offset),
                _ => None,
            };
            depths.push((range, depth));
        }
        Ok(depths)
    }

    /// The exception tables of the frame, if it has any.
    ///
    /// # Errors
    /// If they are damaged.
    pub fn lsda(&self, elf: &Elf<'d>, frame: &Frame) -> Result<Option<lsda::Lsda>, lsda::Error> {
        let Some(at) = frame.lsda else { return Ok(None) };
        let (start, data) = match elf.section_holding(at) {
            Some(section) => (section.range.start, section.data),
            None => (at, elf.bytes_at(at)),
        };
        let bases = lsda::Bases { section: start, function: frame.range.start, data: None };
        lsda::parse(data, at, bases).map(Some)
    }

    /// Where exceptions thrown inside the frame land, sorted by call site.
    ///
    /// # Errors
    /// If the exception table is damaged.
    pub fn landing_pads(
        &self,
        elf: &Elf<'d>,
        frame: &Frame,
    ) -> Result<Vec<(AddrRange, LinkAddr)>, lsda::Error> {
        let Some(table) = self.lsda(elf, frame)? else { return Ok(Vec::new()) };
        let mut pads: Vec<_> = table
            .call_sites
            .iter()
            .filter_map(|site| site.landing_pad.map(|pad| (site.range, pad)))
            .collect();
        pads.sort_unstable();
        Ok(pads)
    }
}

fn find_eh_frame<'d>(elf: &Elf<'d>) -> (LinkAddr, &'d [u8]) {
    if let Some(section) = elf.section(".eh_frame").filter(|s| !s.data.is_empty()) {
        return (section.range.start, section.data);
    }
    // Without section headers the search table still points to it.
    let Some(header) = elf.eh_frame_hdr else { return (LinkAddr(0), &[]) };
    let bases = BaseAddresses::default().set_eh_frame_hdr(header.start.0);
    let Some(bytes) = elf.bytes_in(header.start, header.len()) else { return (LinkAddr(0), &[]) };
    match EhFrameHdr::new(bytes, LittleEndian).parse(&bases, 8).map(|h| h.eh_frame_ptr()) {
        Ok(Pointer::Direct(at)) => (LinkAddr(at), elf.bytes_at(LinkAddr(at))),
        _ => (LinkAddr(0), &[]),
    }
}
