//! Any bytes as a profile.
//!
//! What a profile says is compressed and has a checksum, so that blind changes of a file hardly ever get far.
//! Hence a second kind of input, a [`Case`]: the same before it is packed.

use crate::stopwatch::timed;
use prost::Message as _;
use relive_abi::rprof::{MAGIC, SlotLayout, VERSION};
use relive_abi::{PAGE, hash, page_up};
use relive_interchange::export::FORMATS;
use relive_interchange::surroundings::Nothing;
use relive_migrate::evaluate::evaluate;
use relive_profile::model::Profile;
use relive_profile::{file, flow, merge, proto};

/// What must hold of every profile: it is read or refused with a reason; what was read can be asked anything,
/// added up, written in every format that can hold it, written and read again, and writing changes nothing any more; and it is as good as
/// itself.
///
/// # Panics
/// If it does not hold.
pub fn check(bytes: &[u8]) {
    timed("a profile", bytes.len(), || {
        check_file(bytes);
        if let Some(case) = Case::decode(bytes) {
            check_file(&case.pack());
        }
    });
}

fn check_file(bytes: &[u8]) {
    match file::read(bytes) {
        Ok(profile) => check_profile(profile),
        Err(why) => assert!(!why.to_string().is_empty()),
    }
}

fn check_profile(profile: Profile) {
    for module in &profile.modules {
        for function in &module.functions {
            let _ = (function.loop_counts(), function.entries(), function.executed_insns());
            let _ = flow::check(function);
            let _ = module.name(function);
            for call in &function.calls {
                let _ = (module.call_count(function, call), module.callee_name(call.callee));
                for target in module.targets(call.callee) {
                    let _ = profile.target_name(module, target.target);
                }
            }
            for line in function.blocks.iter().filter_map(|block| block.line) {
                let _ = module.file(line);
            }
        }
    }
    for format in FORMATS {
        if let Err(why) = format.write(&profile, &Nothing, &mut std::io::sink()) {
            assert!(!why.to_string().is_empty());
        }
    }
    if let Ok(found) = evaluate(&profile, &profile) {
        let overlaps = [&found.blocks, &found.edges, &found.instructions].map(|overlap| overlap.metric());
        let others =
            [found.branches.metric(), found.coverage.metric(), found.targets.overlap, found.trips.metric()];
        let figures = overlaps.into_iter().chain(others);
        assert!(figures.flatten().all(|figure| figure == 1.0), "as good as itself: {found:?}");
    }
    let written = file::write(&profile);
    let again = file::read(&written).expect("what was read can be written");
    assert!(file::write(&again) == written, "what was written and read again is written alike");
    let sum = merge::merge([profile, again]);
    let written = file::write(&sum);
    let again = file::read(&written).expect("what was added up can be written");
    assert!(file::write(&again) == written, "a sum that was read again is written alike");
}

/// A profile before it is packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// A [`proto::Description`].
    pub description: Vec<u8>,
    /// All slots.
    pub slots: Vec<u8>,
}

impl Case {
    /// The case that `bytes` stand for: the length of the description, the description, slots.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (len, rest) = bytes.split_first_chunk()?;
        let (description, slots) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        Some(Self { description: description.to_vec(), slots: slots.to_vec() })
    }

    /// The opposite of [`Case::decode`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let len = (self.description.len() as u32).to_le_bytes();
        [&len, &*self.description, &*self.slots].concat()
    }

    /// The case that a sound profile is made of.
    ///
    /// # Panics
    /// If it is not sound.
    #[must_use]
    pub fn unpack(file: &[u8]) -> Self {
        let number =
            |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().expect("eight bytes")) as usize;
        let (start, len, slots) = (number(24), number(32), number(40));
        let description = zstd::decode_all(&file[start..start + len]).expect("packed");
        Self { description, slots: if slots == 0 { Vec::new() } else { file[slots..].to_vec() } }
    }

    /// A file whose header says of the description what is so.
    #[must_use]
    pub fn pack(&self) -> Vec<u8> {
        let packed = zstd::encode_all(&*self.description, 1).expect("memory for compression");
        let end = PAGE + packed.len() as u64;
        let code = self.first_code();
        let slot = proto::Code::decode(code.as_deref().unwrap_or_default()).ok().and_then(|code| code.slot);
        let proto::SlotLayout { counters, sites, overflows, modules } = slot.unwrap_or_default();
        let slot = SlotLayout { counters, sites, overflows, modules };
        let mut file = MAGIC.to_vec();
        file.extend(u64::from(VERSION).to_le_bytes());
        let slots = if slot.counters > 0 { page_up(end) } else { 0 };
        for number in [code.map_or(0, |code| hash::of(&code)), PAGE, packed.len() as u64, slots] {
            file.extend(number.to_le_bytes());
        }
        for number in [slot.counters, slot.sites, slot.overflows, slot.modules] {
            file.extend(number.to_le_bytes());
        }
        file.resize(PAGE as usize, 0);
        file.extend(packed);
        if slots > 0 {
            file.resize(slots as usize, 0);
            // Whole ones, as many as there are.
            let rest = self.slots.len() as u64 % slot.len();
            file.extend(&self.slots[..self.slots.len() - rest as usize]);
        }
        file
    }

    fn first_code(&self) -> Option<Vec<u8>> {
        let description = proto::Description::decode(&*self.description).ok()?;
        Some(proto::Module::decode(&**description.modules.first()?).ok()?.code)
    }
}
