//! What running programs counted: adds slots to a module.

use crate::error::{Damage, ProfileError};
use crate::header::Bytes;
use crate::model::{Foreign, Module, Target, TargetCount};
use relive_abi::rprof::{ForeignModule, Overflow, Site, SlotHeader, SlotLayout, target};
use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom};

/// Adds all slots from `offset` to the end of the file.
pub(crate) fn add(
    module: &mut Module,
    file: &mut (impl Read + Seek),
    offset: u64,
    file_len: u64,
) -> Result<(), ProfileError> {
    let layout = module.layout;
    let mut sums = Sums::new(module);
    let count = file_len.saturating_sub(offset) / layout.len();
    let rest = file_len.saturating_sub(offset) % layout.len();
    if rest != 0 {
        return Err(ProfileError::damaged(format!("slot {count}"), Damage::CutShort));
    }
    for slot in 0..count {
        let reader = SlotReader { file, start: offset + slot * layout.len(), layout };
        sums.add(module, reader).map_err(|error| match error {
            SlotError::Io(error) => ProfileError::Io(error),
            SlotError::Damage(damage) => ProfileError::damaged(format!("slot {slot}"), damage),
        })?;
    }
    sums.finish(module);
    Ok(())
}

enum SlotError {
    Io(std::io::Error),
    Damage(Damage),
}

impl From<std::io::Error> for SlotError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

/// One slot in the file.
struct SlotReader<'f, F> {
    file: &'f mut F,
    start: u64,
    layout: SlotLayout,
}

/// How much is read at once.
const CHUNK: usize = 1 << 18;

impl<F: Read + Seek> SlotReader<'_, F> {
    /// Calls `each` with each of `count` items of `size` bytes, from `offset`.
    fn items(
        &mut self,
        offset: u64,
        size: usize,
        count: u64,
        mut each: impl FnMut(Bytes<'_>) -> Result<(), SlotError>,
    ) -> Result<(), SlotError> {
        self.file.seek(SeekFrom::Start(self.start + offset))?;
        let mut left = count;
        let at_once = (CHUNK / size).max(1);
        let mut chunk = vec![0; size * usize::try_from(left).map_or(at_once, |left| left.min(at_once))];
        while left > 0 {
            let now = usize::try_from(left).map_or(at_once, |left| left.min(at_once));
            let bytes = &mut chunk[..now * size];
            self.file.read_exact(bytes)?;
            for item in bytes.chunks_exact(size) {
                each(Bytes(item))?;
            }
            left -= now as u64;
        }
        Ok(())
    }

    fn header(&mut self) -> Result<SlotHeader, SlotError> {
        let mut bytes = [0; size_of::<SlotHeader>()];
        self.file.seek(SeekFrom::Start(self.start))?;
        self.file.read_exact(&mut bytes)?;
        let mut bytes = Bytes(&bytes);
        Ok(SlotHeader {
            owner: bytes.u64(),
            runs: bytes.u64(),
            overflows: bytes.u32(),
            modules: bytes.u32(),
            lost: bytes.u32(),
            reserved: bytes.u32(),
            first_run: bytes.u64(),
            last_run: bytes.u64(),
        })
    }

    fn modules(&mut self, count: u32) -> Result<Vec<Foreign>, SlotError> {
        let mut modules = Vec::new();
        self.items(self.layout.modules_offset(), size_of::<ForeignModule>(), count.into(), |mut bytes| {
            let (build_id_len, path_len) = (bytes.u32() as usize, bytes.u32() as usize);
            let (build_id, path): ([u8; 32], [u8; 216]) = (bytes.take(), bytes.take());
            modules.push(Foreign {
                build_id: build_id[..build_id_len.min(32)].to_vec(),
                path: String::from_utf8_lossy(&path[..path_len.min(216)]).into_owned(),
            });
            Ok(())
        })?;
        Ok(modules)
    }
}

/// The sums over slots.
struct Sums {
    counters: Vec<u64>,
    foreign: HashMap<Foreign, u32>,
    targets: HashMap<(u32, Target), u64>,
}

impl Sums {
    /// With what the description itself holds.
    fn new(module: &mut Module) -> Self {
        let foreign = module.foreign.iter().cloned().zip(0..).collect();
        let mut targets = HashMap::new();
        for (site, i) in module.sites.iter_mut().zip(0..) {
            for TargetCount { target, count } in std::mem::take(&mut site.targets) {
                let sum: &mut u64 = targets.entry((i, target)).or_default();
                *sum = sum.wrapping_add(count);
            }
        }
        Self { counters: std::mem::take(&mut module.counters), foreign, targets }
    }

    /// A program may be counting just now, and may have been stopped between any two of its steps. So
    /// modules are read after the targets that name them, and whatever has a count is taken, in use or not
    /// according to the header.
    fn add<F: Read + Seek>(
        &mut self,
        module: &mut Module,
        mut slot: SlotReader<'_, F>,
    ) -> Result<(), SlotError> {
        let layout = slot.layout;
        let header = slot.header()?;
        module.runs = module.runs.saturating_add(header.runs);
        module.lost.0 |= header.lost;
        if header.first_run > 0 && (module.first_run == 0 || header.first_run < module.first_run) {
            module.first_run = header.first_run;
        }
        module.last_run = module.last_run.max(header.last_run);

        self.counters.resize(layout.counters as usize, 0);
        let mut sums = self.counters.iter_mut();
        slot.items(layout.counters_offset(), 8, layout.counters.into(), |mut bytes| {
            if let Some(sum) = sums.next() {
                *sum = sum.wrapping_add(bytes.u64());
            }
            Ok(())
        })?;

        let mut found = Vec::new();
        let mut site = 0;
        slot.items(layout.sites_offset(), size_of::<Site>(), layout.sites.into(), |mut bytes| {
            let (target, count) = (bytes.u64(), bytes.u64());
            if count > 0 {
                found.push((site, target, count));
            }
            site += 1;
            Ok(())
        })?;
        slot.items(
            layout.overflows_offset(),
            size_of::<Overflow>(),
            layout.overflows.into(),
            |mut bytes| {
                let (site, _reserved) = (bytes.u32(), bytes.u32());
                let (target, count) = (bytes.u64(), bytes.u64());
                if count == 0 {
                    return Ok(());
                }
                if site >= layout.sites {
                    return Err(SlotError::Damage(
                        format!("a target of call site {site}, which is not there").into(),
                    ));
                }
                found.push((site, target, count));
                Ok(())
            },
        )?;
        let mut numbers = Vec::new();
        for foreign in slot.modules(layout.modules)? {
            let next = u32::try_from(self.foreign.len()).unwrap_or(u32::MAX);
            numbers.push(*self.foreign.entry(foreign).or_insert(next));
        }
        for (site, packed, count) in found {
            let target = match target::split(packed) {
                (target::SELF, address) => Target::Own(address),
                (target::GENERATED, _) => Target::Generated,
                (number, address) => match numbers.get(number as usize - 1) {
                    Some(&module) => Target::Foreign { module, address },
                    None => {
                        return Err(SlotError::Damage(
                            format!("call site {site} leads to module {number}, which is not there").into(),
                        ));
                    }
                },
            };
            let sum = self.targets.entry((site, target)).or_default();
            *sum = sum.wrapping_add(count);
        }
        Ok(())
    }

    fn finish(self, module: &mut Module) {
        module.counters = self.counters;
        let mut foreign: Vec<_> = self.foreign.into_iter().collect();
        foreign.sort_by_key(|&(_, number)| number);
        module.foreign = foreign.into_iter().map(|(foreign, _)| foreign).collect();
        for ((site, target), count) in self.targets {
            if let Some(site) = module.sites.get_mut(site as usize) {
                site.targets.push(TargetCount { target, count });
            }
        }
        crate::merge::sort_targets(module);
    }
}
