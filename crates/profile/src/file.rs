//! Reads and writes `.rprof`: a header page, a description, slots. See `docs/profile-format.md`.

use crate::columns::{self, Code, CodeWriter};
use crate::error::{Damage, ProfileError};
use crate::model::{Function, Module, Profile};
use crate::{flow, header, proto, slots};
use prost::Message as _;
use rayon::prelude::*;
use relive_abi::rprof::{FileHeader, MAGIC, VERSION};
use relive_abi::{PAGE, hash, page_up};
use std::io::{Cursor, Read, Seek, SeekFrom};

/// How much [`zstd`] tries. The description of gcc 12's cc1 (1.35 million blocks, 2.4 million edges, 35.0 MB)
/// packs to 14.3 MB in 0.2 s at level 3, to 13.1 MB in 15 s at level 19; the hashes alone take 10.8 MB.
const LEVEL: i32 = 3;

/// What a description may unpack to: this, and [`UNPACK_RATIO`] times its length.
const UNPACK_LEAST: u64 = 1 << 20;
const UNPACK_RATIO: u64 = 100;

/// How a frame begins that means nothing; its length follows.
const SKIPPED_FRAME: u32 = 0x184d_2a50;

/// The memory that unpacking may take beside: 2 to this power. [`LEVEL`] asks for 2²¹.
const WINDOW_LOG: u32 = 23;

/// Counters that a module may have beside two for each block and edge.
const SPARE_COUNTERS: u64 = 1024;

/// Stands for the code of a module and the meaning of each counter: FNV-1a, 64 bits, of the message
/// `Code`. Where the module was and how often it ran does not matter.
#[must_use]
pub fn checksum(module: &Module) -> u64 {
    Code::of(module).checksum()
}

/// The description of one module: what stands between header and slots of a profile.
#[must_use]
pub fn describe(module: &Module) -> Vec<u8> {
    describe_all([(module, Code::of(module))])
}

/// A [`proto::Description`], put together without holding any part of it twice.
fn describe_all<'m>(modules: impl IntoIterator<Item = (&'m Module, Code)>) -> Vec<u8> {
    let mut description = Vec::new();
    for (module, code) in modules {
        let code_head = columns::field_head(1, code.len());
        let counts = columns::encode(module).encode_to_vec();
        let len = code_head.len() + code.len() + counts.len();
        description.reserve_exact(len);
        description.extend(columns::field_head(1, len));
        description.extend(code_head);
        code.write(&mut description);
        description.extend(counts);
    }
    let producer = concat!("relive ", env!("CARGO_PKG_VERSION")).to_string();
    let rest = proto::Description { modules: Vec::new(), producer };
    description.extend(rest.encode_to_vec());
    compress(&description)
}

fn compress(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::bulk::Compressor::new(LEVEL).expect("memory for compression");
    encoder.include_checksum(true).expect("a parameter that zstd knows");
    let mut packed = encoder.compress(bytes).expect("memory for compression");
    // What is much the same everywhere packs better than readers believe.
    let least = (bytes.len() as u64).saturating_sub(UNPACK_LEAST).div_ceil(UNPACK_RATIO) as usize;
    if let Some(missing) = least.checked_sub(packed.len()).filter(|&missing| missing > 0) {
        packed.extend(SKIPPED_FRAME.to_le_bytes());
        packed.extend((missing as u32).to_le_bytes());
        packed.resize(packed.len() + missing, 0);
    }
    packed
}

/// The start of a profile up to the first slot: what a rewritten program writes before it counts.
/// [`Module::checksum`] need not be set; [`Module::build_id`] must not be empty.
#[must_use]
pub fn file_image(module: &Module) -> Vec<u8> {
    write_modules([(module, Code::of(module))])
}

/// The same for a module whose functions come one by one and need not be held.
#[derive(Default)]
pub struct ImageWriter(CodeWriter);

impl ImageWriter {
    /// Adds a function.
    pub fn add(&mut self, function: &Function) {
        self.0.add(function);
    }

    /// The image of `module`, whose functions are those that were added, and whose texts are theirs.
    #[must_use]
    pub fn finish(self, module: &Module) -> Vec<u8> {
        debug_assert!(module.functions.is_empty(), "added one by one");
        write_modules([(module, self.0.finish(module))])
    }
}

/// The bytes of a profile. Runs of the program can add to it if it has one module and that has counters.
#[must_use]
pub fn write(profile: &Profile) -> Vec<u8> {
    let modules: Vec<_> = profile.modules.par_iter().map(|module| (module, Code::of(module))).collect();
    write_modules(modules)
}

fn write_modules<'m>(modules: impl IntoIterator<Item = (&'m Module, Code)>) -> Vec<u8> {
    let modules: Vec<_> = modules.into_iter().collect();
    let only = match &*modules {
        [(module, code)] => Some((*module, code.checksum())),
        _ => None,
    };
    let description = describe_all(modules);
    let mut header = FileHeader {
        magic: MAGIC,
        version: VERSION,
        flags: 0,
        checksum: 0,
        description_offset: PAGE,
        description_len: description.len() as u64,
        slots_offset: 0,
        slot: Default::default(),
        build_id_len: 0,
        reserved: 0,
        build_id: [0; 32],
    };
    let end = PAGE + description.len() as u64;
    if let Some((module, checksum)) = only {
        let len = module.build_id.len().min(header.build_id.len());
        header.checksum = checksum;
        header.slot = module.layout;
        header.build_id_len = len as u32;
        header.build_id[..len].copy_from_slice(&module.build_id[..len]);
        if module.layout.counters > 0 {
            header.slots_offset = page_up(end);
        }
    }
    let mut bytes = header::write(&header);
    bytes.resize(PAGE as usize, 0);
    bytes.extend(description);
    bytes.resize(page_up(end) as usize, 0);
    bytes
}

/// Reads a profile: its description and all slots, and what follows from them.
///
/// # Errors
/// If it is not a profile, or damaged.
pub fn read(bytes: &[u8]) -> Result<Profile, ProfileError> {
    read_from(&mut Cursor::new(bytes))
}

/// Reads a profile from a file, slot by slot. The file may grow in the meantime.
///
/// # Errors
/// If it is not a profile, or damaged, or cannot be read.
pub fn read_from(file: &mut (impl Read + Seek)) -> Result<Profile, ProfileError> {
    let file_len = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(0))?;
    let mut start = Vec::new();
    file.by_ref().take(header::LEN as u64).read_to_end(&mut start)?;
    let header = header::read(&start)?;
    let description = read_description(file, &header, file_len)?;
    let place = |i: usize| format!("module {i} of the description");
    let mut modules = Vec::new();
    for (i, message) in description.modules.into_iter().enumerate() {
        modules.push(read_module(&message).map_err(|damage| ProfileError::damaged(place(i), damage))?);
    }
    match &mut *modules {
        [module] => {
            check_header(&header, module, file_len).map_err(|what| ProfileError::damaged("header", what))?;
            if header.slots_offset != 0 {
                slots::add(module, file, header.slots_offset, file_len)?;
            }
        }
        _ if header.slots_offset != 0 => {
            return Err(ProfileError::damaged("header", "slots, but not exactly one module"));
        }
        _ => {}
    }
    for module in &mut modules {
        flow::recover(module).map_err(|(function, undetermined)| {
            let name = module.name(&module.functions[function]);
            ProfileError::damaged(format!("function {name}"), undetermined.to_string())
        })?;
    }
    Ok(Profile { modules })
}

fn read_module(message: &[u8]) -> Result<Module, Damage> {
    let message = proto::Module::decode(message)?;
    let checksum = hash::of(&message.code);
    let mut module = columns::decode(message)?;
    module.checksum = checksum;
    check_module(&module)?;
    Ok(module)
}

fn read_description(
    file: &mut (impl Read + Seek),
    header: &FileHeader,
    file_len: u64,
) -> Result<proto::Description, ProfileError> {
    let damaged = |damage: Damage| ProfileError::damaged("description", damage);
    let end = header.description_offset.checked_add(header.description_len);
    if end.is_none_or(|end| end > file_len) {
        return Err(damaged(Damage::CutShort));
    }
    file.seek(SeekFrom::Start(header.description_offset))?;
    let limit = UNPACK_LEAST.saturating_add(header.description_len.saturating_mul(UNPACK_RATIO));
    let mut bytes = Vec::new();
    zstd::Decoder::new(file.take(header.description_len))
        .and_then(|mut decoder| {
            decoder.window_log_max(WINDOW_LOG)?;
            decoder.single_frame().take(limit + 1).read_to_end(&mut bytes)
        })
        .map_err(|error| damaged(Damage::Compression(error)))?;
    if bytes.len() as u64 > limit {
        return Err(damaged(Damage::TooLarge { limit }));
    }
    proto::Description::decode(&*bytes).map_err(|error| damaged(error.into()))
}

fn check_module(module: &Module) -> Result<(), Damage> {
    if module.build_id.is_empty() {
        return Err("it has no build-id".into());
    }
    let items: usize = module.functions.iter().map(|f| f.blocks.len() + f.edges.len()).sum();
    if u64::from(module.layout.counters) > 2 * items as u64 + SPARE_COUNTERS {
        return Err(format!("{} counters for {items} blocks and edges", module.layout.counters).into());
    }
    Ok(())
}

fn check_header(header: &FileHeader, module: &Module, file_len: u64) -> Result<(), &'static str> {
    let description_end = header.description_offset.saturating_add(header.description_len);
    if header.checksum != module.checksum {
        return Err("its checksum is not that of the description");
    }
    if header.slot != module.layout {
        return Err("slots are not laid out as the description says");
    }
    if header.slots_offset == 0 {
        return Ok(());
    }
    if !header.slots_offset.is_multiple_of(PAGE) || header.slots_offset < description_end {
        return Err("slots begin where they cannot");
    }
    if header.slots_offset > file_len {
        return Err("slots begin behind the end of the file");
    }
    Ok(())
}
