//! Makes computed jumps go straight to new code.
//!
//! A table of distances is copied, and the one instruction that names it names the copy: the old table may
//! be read too far, so its neighbours must not change. A table of addresses is changed in place: a word
//! that holds the address of a label of this function means that label, whoever reads it. But a label has one
//! address, and programs compare what they read from tables with others and with what instructions name; so tables of
//! addresses are changed only if no instruction names a label in them, and no word elsewhere holds one. Where neither can
//! be done, the jump leads to the old label, and from there a detour to the new code.

use object::elf;
use relive_code::addr::LinkAddr;
use relive_code::cfg::{BlockId, Cfg, End};
use relive_code::isa::Tie;
use relive_code::jump_table::JumpTable;
use relive_code::source::Pointer;
use relive_image::elf::Kind;
use relive_image::image::Image;
use relive_image::relocations::Filled;
use std::collections::{HashMap, HashSet};

/// A table that leads to new code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redirect {
    /// A copy of the table at that address, with distances from its own start to these old places.
    Copy {
        /// The old table.
        table: LinkAddr,
        /// Where its entries lead.
        targets: Vec<LinkAddr>,
    },
    /// Words to be changed in place: where they are written, and the old place they lead to.
    InPlace(Vec<(LinkAddr, LinkAddr)>),
}

/// The redirected tables of a function.
#[derive(Clone, Debug, Default)]
pub struct Redirects {
    /// The tables.
    pub tables: Vec<Redirect>,
    /// For each jump all of whose tables are redirected, which those are.
    pub of_jump: HashMap<BlockId, Vec<u32>>,
    /// The copy of each copied table.
    pub copy_of: HashMap<LinkAddr, u32>,
}

impl Redirects {
    /// Whether the jump that ends a block goes through copies alone, which nobody else reads.
    #[must_use]
    pub fn is_copied(&self, jump: BlockId) -> bool {
        self.of_jump.get(&jump).is_some_and(|tables| {
            tables.iter().all(|&table| matches!(self.tables[table as usize], Redirect::Copy { .. }))
        })
    }

    /// Tables changed in place: whoever reads one, by an index or at a fixed place, is led to new code.
    pub fn in_place(&self) -> impl Iterator<Item = u32> {
        let numbered = (0..).zip(&self.tables);
        numbered.filter(|(_, table)| matches!(table, Redirect::InPlace(_))).map(|(number, _)| number)
    }

    /// Finds what can be redirected.
    #[must_use]
    pub fn find(image: &Image<'_>, addends: &Addends, cfg: &Cfg) -> Self {
        let mut this = Self::default();
        if cfg.tables.is_empty() {
            return this;
        }
        let named = Named::find(image, cfg);
        let entries: HashSet<LinkAddr> = cfg.entries.iter().map(|&e| cfg.block(e).start).collect();
        let mut known: HashMap<(LinkAddr, Option<LinkAddr>), Option<u32>> = HashMap::new();
        // The same table may be read to different ends for different jumps.
        let mut longest: HashMap<(LinkAddr, Option<LinkAddr>), &JumpTable> = HashMap::new();
        for table in &cfg.tables {
            let best = longest.entry((table.table, table.base)).or_insert(table);
            if table.targets.len() > best.targets.len() {
                *best = table;
            }
        }
        let has_other_names = is_named_elsewhere(image, addends, &named, longest.values().copied());
        for (id, block) in cfg.numbered_blocks().filter(|(_, b)| b.reached && b.end == End::IndirectJump) {
            let site = block.last_insn();
            let mut all = Vec::new();
            let mut complete = true;
            for table in cfg.tables.iter().filter(|t| t.site == site) {
                let key = (table.table, table.base);
                let number = *known.entry(key).or_insert_with(|| {
                    let redirect = redirect(image, addends, &named, &entries, longest[&key])?;
                    if has_other_names && matches!(redirect, Redirect::InPlace(_)) {
                        return None;
                    }
                    if let Redirect::Copy { table, .. } = redirect {
                        this.copy_of.insert(table, this.tables.len() as u32);
                    }
                    this.tables.push(redirect);
                    Some(this.tables.len() as u32 - 1)
                });
                match number {
                    Some(number) => all.push(number),
                    None => complete = false,
                }
            }
            if complete && !all.is_empty() {
                this.of_jump.insert(id, all);
            }
        }
        this
    }
}

fn redirect(
    image: &Image<'_>,
    addends: &Addends,
    named: &Named,
    entries: &HashSet<LinkAddr>,
    table: &JumpTable,
) -> Option<Redirect> {
    match (table.entry_size, table.base) {
        (4, Some(base))
            if base == table.table
                && named.by_lea.contains(&base)
                && !named.otherwise.contains(&base)
                && distance_between(image, table, 4) == Some(4) =>
        {
            Some(Redirect::Copy { table: base, targets: table.targets.clone() })
        }
        _ if is_of_addresses(table) => {
            let stride = distance_between(image, table, FARTHEST)?;
            let mut words = Vec::new();
            for (i, &target) in table.targets.iter().enumerate() {
                let at = table.table.offset(stride * i as u64);
                // An entry of the function keeps its address: others may compare it.
                if entries.contains(&target) {
                    return None;
                }
                words.push((addends.place_of(image, at)?, target));
            }
            Some(Redirect::InPlace(words))
        }
        _ => None,
    }
}

/// Whether a label in a table of addresses is named by an instruction, or by a word that is in none of the `tables`.
fn is_named_elsewhere<'t>(
    image: &Image<'_>,
    addends: &Addends,
    named: &Named,
    tables: impl Iterator<Item = &'t JumpTable>,
) -> bool {
    let mut words: HashMap<LinkAddr, HashSet<LinkAddr>> = HashMap::new();
    for table in tables.filter(|table| is_of_addresses(table)) {
        let Some(stride) = distance_between(image, table, FARTHEST) else { continue };
        for (i, &target) in table.targets.iter().enumerate() {
            words.entry(target).or_default().insert(table.table.offset(stride * i as u64));
        }
    }
    words.iter().any(|(target, words)| {
        let elsewhere = addends.holders.get(target).is_some_and(|&all| all as usize > words.len());
        elsewhere || named.by_lea.contains(target) || named.otherwise.contains(target)
    })
}

fn is_of_addresses(table: &JumpTable) -> bool {
    (table.entry_size, table.base) == (8, None) && table.table.0 != 0
}

/// How far entries that are addresses may be apart: often they are fields of larger structures.
const FARTHEST: u64 = 128;

/// How far the entries of a table are apart, so that each leads where it should.
pub(crate) fn distance_between(image: &Image<'_>, table: &JumpTable, most: u64) -> Option<u64> {
    let leads_to = |at: LinkAddr| match table.base {
        None => match image.pointer(at) {
            Pointer::Here(to) => Some(to),
            _ => None,
        },
        Some(base) => {
            let distance = i32::from_le_bytes(*image.elf.bytes_at(at).first_chunk()?);
            Some(LinkAddr(base.0.wrapping_add_signed(i64::from(distance))))
        }
    };
    let size = u64::from(table.entry_size);
    (size..=most).step_by(size as usize).find(|&stride| {
        let entries = table.targets.iter().enumerate();
        entries
            .into_iter()
            .all(|(i, &target)| leads_to(table.table.offset(stride * i as u64)) == Some(target))
    })
}

/// Addresses the instructions of a function name.
struct Named {
    /// By `lea`, relative to the instruction.
    by_lea: HashSet<LinkAddr>,
    /// In any other way.
    otherwise: HashSet<LinkAddr>,
}

impl Named {
    fn find(image: &Image<'_>, cfg: &Cfg) -> Self {
        let mut named = Self { by_lea: HashSet::new(), otherwise: HashSet::new() };
        for block in &cfg.blocks {
            for insn in block.insns(&image.elf) {
                let bytes = &image.elf.bytes_at(insn.addr())[..insn.len() as usize];
                match insn.tie(bytes) {
                    Tie::Operand { target, .. } if insn.is_lea() => named.by_lea.insert(target),
                    _ => {
                        named.otherwise.extend(insn.address_constants(image.elf.kind == Kind::Executable));
                        continue;
                    }
                };
            }
        }
        named
    }
}

/// Where the loader finds what it writes into words of the module.
pub struct Addends {
    /// Relocations of words to addresses of this module, and where each says so.
    places: HashMap<LinkAddr, LinkAddr>,
    /// How many words hold each address.
    holders: HashMap<LinkAddr, u32>,
}

impl Addends {
    /// Looks at all relocations.
    #[must_use]
    pub fn new(image: &Image<'_>) -> Self {
        let (mut places, mut holders) = (HashMap::new(), HashMap::new());
        let value = |tag| image.elf.dynamic_value(tag);
        let in_table: HashMap<LinkAddr, LinkAddr> = match (value(elf::DT_RELA), value(elf::DT_RELASZ)) {
            (Some(table), Some(len)) => {
                let bytes = image.elf.bytes_in(LinkAddr(table), len).unwrap_or_default();
                let entries = bytes.chunks_exact(24).enumerate();
                entries
                    .map(|(i, entry)| {
                        let at = u64::from_le_bytes(entry[..8].try_into().expect("eight bytes"));
                        (LinkAddr(at), LinkAddr(table + 24 * i as u64 + 16))
                    })
                    .collect()
            }
            _ => HashMap::new(),
        };
        for relocation in &image.relocations {
            if let Filled::Here(to) = relocation.filled {
                // Packed relocations have what they add in place.
                let place = in_table.get(&relocation.at).copied().unwrap_or(relocation.at);
                places.insert(relocation.at, place);
                *holders.entry(to).or_default() += 1;
            }
        }
        // Code linked for fixed addresses stores them without a relocation to tell.
        let fixed = image.elf.kind == Kind::Executable;
        for segment in image.elf.segments.iter().filter(|segment| fixed && !segment.executable) {
            let unaligned = segment.range.start.0.wrapping_neg() as usize % 8;
            for word in segment.data.get(unaligned..).unwrap_or_default().as_chunks::<8>().0 {
                let to = LinkAddr(u64::from_le_bytes(*word));
                if image.elf.is_text(to) {
                    *holders.entry(to).or_default() += 1;
                }
            }
        }
        Self { places, holders }
    }

    /// Where the address in the word at `at` is written.
    pub(crate) fn place_of(&self, image: &Image<'_>, at: LinkAddr) -> Option<LinkAddr> {
        match image.elf.kind {
            // Without relocations the word itself says it; it must be in the file.
            Kind::Executable => {
                let place = self.places.get(&at).copied().unwrap_or(at);
                (image.elf.bytes_at(place).len() >= 8).then_some(place)
            }
            Kind::Pie | Kind::SharedObject => self.places.get(&at).copied(),
        }
    }
}
