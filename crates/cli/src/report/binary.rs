//! The program that was measured, if it is still there.

use crate::remedy::with_remedy;
use anyhow::{Context as _, Result, bail};
use relive_code::addr::LinkAddr;
use relive_code::isa::{Decode, Insn};
use relive_image::image::Image;
use relive_image::loader::{Loaded, Options};
use relive_profile::model::{Block, Function, Module};
use std::path::{Path, PathBuf};

/// Opens the program that `module` was measured on: the file that was given, or the one at the place where
/// it was. The latter need not be there.
pub(crate) fn open(module: &Module, given: Option<&Path>, debug_roots: &[PathBuf]) -> Result<Option<Loaded>> {
    let options = Options { debug_roots: debug_roots.to_vec(), ..Options::default() };
    match given {
        Some(path) => Ok(Some(Loaded::open(path, &options).map_err(with_remedy)?)),
        None => Ok(Loaded::open(&module.path, &options).ok()),
    }
}

/// Checks that an image is the code that was measured.
pub(crate) fn check(image: &Image<'_>, module: &Module, function: &Function, path: &Path) -> Result<()> {
    let same_build = image.identity.build_id.as_ref().is_none_or(|id| *id == module.build_id);
    let same_code = function.blocks.iter().all(|block| {
        let insns = instructions(image, block);
        insns.len() == block.insns as usize
            && insns.iter().map(Insn::len).sum::<u64>() == u64::from(block.size)
    });
    if !same_build || !same_code {
        bail!("{}: not the build that was measured (give that one with --binary)", path.display());
    }
    Ok(())
}

/// The image of a program.
pub(crate) fn image(loaded: &Loaded) -> Result<Image<'_>> {
    loaded.image().map_err(with_remedy).with_context(|| loaded.path.display().to_string())
}

/// The instructions of a block.
pub(crate) fn instructions(image: &Image<'_>, block: &Block) -> Vec<Insn> {
    let start = LinkAddr(block.address);
    Decode::new(image.elf.bytes_in(start, block.size.into()).unwrap_or(&[]), start).collect()
}
