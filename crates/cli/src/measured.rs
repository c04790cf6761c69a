//! The files that were measured, and what exchange formats ask of them.

use crate::remedy::with_remedy;
use anyhow::{Context as _, Result, bail};
use relive_code::addr::{AddrRange, LinkAddr};
use relive_image::elf::Segment;
use relive_image::image::Image;
use relive_image::lines::Lines;
use relive_image::loader::{Loaded, Options};
use relive_image::program::{Program, analyze};
use relive_image::symbols::SymbolKind;
use relive_interchange::surroundings::{Cases, Frame, Level, Lined, Surroundings, Symbol};
use relive_profile::model::Module;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The files that were measured, as far as they are there.
pub(crate) struct Files {
    /// With its build-id.
    loaded: Vec<(Vec<u8>, Loaded)>,
}

impl Files {
    /// Opens the files of all modules. One that was given must be that of one of them.
    pub(crate) fn open<'m>(
        modules: impl Iterator<Item = &'m Module>,
        given: Option<&Path>,
        debug_roots: &[PathBuf],
    ) -> Result<Self> {
        let mut modules: Vec<&Module> = modules.collect();
        // One build may be in several profiles.
        modules.sort_by_key(|module| &module.build_id);
        modules.dedup_by_key(|module| &module.build_id);
        let options = Options { debug_roots: debug_roots.to_vec(), ..Options::default() };
        let mut loaded = Vec::new();
        if let Some(path) = given {
            let file = Loaded::open(path, &options).map_err(with_remedy)?;
            let mut own = Vec::new();
            for (at, module) in modules.iter().enumerate() {
                if is_build(&file, module)? {
                    own.push(at);
                }
            }
            match own[..] {
                [at] => loaded.push((modules.remove(at).build_id.clone(), file)),
                [] => {
                    bail!("{}: not the build that was measured; give that one with --binary", path.display())
                }
                // It does not say which build it is.
                _ => bail!("--binary is for one module: choose it with --module"),
            }
        }
        for module in modules {
            if let Ok(file) = Loaded::open(&module.path, &options)
                && is_build(&file, module).unwrap_or(false)
            {
                loaded.push((module.build_id.clone(), file));
            }
        }
        Ok(Self { loaded })
    }

    /// The file that a profile is to be made of.
    pub(crate) fn one(path: &Path, module: &Module) -> Result<Self> {
        let file = Loaded::open(path, &Options::default()).map_err(with_remedy)?;
        Ok(Self { loaded: vec![(module.build_id.clone(), file)] })
    }

    fn place(&self, module: &Module) -> Option<usize> {
        self.loaded.iter().position(|(build_id, _)| *build_id == module.build_id)
    }
}

/// Whether the file is the one that was measured, as far as it says which build it is.
fn is_build(file: &Loaded, module: &Module) -> Result<bool> {
    let image = file.image().map_err(with_remedy).with_context(|| file.path.display().to_string())?;
    Ok(image.identity.build_id.as_ref().is_none_or(|id| *id == module.build_id))
}

/// What measured files answer.
pub(crate) struct Answers<'f> {
    files: &'f Files,
    /// Of each file, once it is asked for; nothing of one that cannot be read.
    images: Vec<OnceLock<Option<Image<'f>>>>,
    /// Likewise.
    lines: Vec<OnceLock<Lines<'f>>>,
    /// Likewise.
    programs: Vec<OnceLock<Option<Program<'f>>>>,
}

impl<'f> Answers<'f> {
    pub(crate) fn new(files: &'f Files) -> Self {
        Self {
            files,
            images: files.loaded.iter().map(|_| OnceLock::new()).collect(),
            lines: files.loaded.iter().map(|_| OnceLock::new()).collect(),
            programs: files.loaded.iter().map(|_| OnceLock::new()).collect(),
        }
    }

    fn image_of(&self, module: &Module) -> Option<&Image<'f>> {
        let at = self.files.place(module)?;
        self.images[at].get_or_init(|| self.files.loaded[at].1.image().ok()).as_ref()
    }

    fn lines_of(&self, module: &Module) -> Option<&Lines<'f>> {
        let at = self.files.place(module)?;
        Some(self.lines[at].get_or_init(|| Lines::new(&self.files.loaded[at].1)))
    }

    fn program_of(&self, module: &Module) -> Option<&Program<'f>> {
        let at = self.files.place(module)?;
        let read = || Some(analyze(self.image_of(module)?));
        self.programs[at].get_or_init(read).as_ref()
    }
}

impl Surroundings for Answers<'_> {
    fn symbols(&self, module: &Module) -> Option<Vec<Symbol>> {
        let image = self.image_of(module)?;
        let mut file = None;
        let mut symbols = Vec::new();
        for symbol in &image.symbols {
            if is_file(symbol) {
                file = Some(symbol.name.clone().into_owned());
            }
            if symbol.defined {
                symbols.push(Symbol {
                    name: symbol.name.clone().into_owned(),
                    address: symbol.addr.0,
                    size: symbol.size,
                    is_function: symbol.is_function(),
                    is_global: symbol.global,
                    file: file.clone().filter(|_| !symbol.global),
                });
            }
        }
        Some(symbols)
    }

    fn lines(&self, module: &Module, start: u64, end: u64) -> Vec<Lined<'_>> {
        let Some(lines) = self.lines_of(module) else { return Vec::new() };
        let range = AddrRange::new(LinkAddr(start), LinkAddr(end));
        let lined = lines.within(range).map(|(range, place)| Lined {
            start: range.start.0,
            end: range.end.0,
            file: place.file,
            line: place.line,
        });
        lined.collect()
    }

    fn frames(&self, module: &Module, at: u64) -> Vec<Frame<'_>> {
        let Some(lines) = self.lines_of(module) else { return Vec::new() };
        let frames = lines.inlined_at(LinkAddr(at)).into_iter();
        let frames =
            frames.map(|f| Frame { function: f.function, line: f.location.map(|l| (l.file, l.line)) });
        frames.collect()
    }

    fn cases(&self, module: &Module, at: u64) -> Option<Cases> {
        let program = self.program_of(module)?;
        let cfg = &program.function(program.function_holding(LinkAddr(at))?).cfg;
        let block =
            cfg.block_holding(LinkAddr(at)).filter(|&id| cfg.block(id).last_insn() == LinkAddr(at))?;
        let mut cases = Cases::default();
        for edge in cfg.edges_from(block) {
            match edge.inner_target() {
                Some(to) => cases.to.push(cfg.block(to).start.0),
                None => cases.leave = true,
            }
        }
        cases.to.sort_unstable();
        Some(cases)
    }

    fn code(&self, module: &Module, start: u64, end: u64) -> Option<Vec<u8>> {
        let image = self.image_of(module)?;
        image.elf.bytes_in(LinkAddr(start), end.checked_sub(start)?).map(<[u8]>::to_vec)
    }

    fn base(&self, module: &Module) -> Option<u64> {
        let image = self.image_of(module)?;
        Some(image.elf.segments.first()?.range.start.0 & !0xfff)
    }

    fn levels(&self, module: &Module, at: u64) -> Vec<Level<'_>> {
        let Some(lines) = self.lines_of(module) else { return Vec::new() };
        let levels = lines.levels_at(LinkAddr(at)).into_iter().map(|level| Level {
            function: level.linkage,
            declared: level.declared,
            line: level.line,
            discriminator: level.discriminator,
        });
        levels.collect()
    }

    fn linked_at(&self, module: &Module, offset: u64) -> Option<u64> {
        let image = self.image_of(module)?;
        // Mappings begin at whole pages, segments need not.
        let holds = |segment: &&Segment<'_>| {
            let end = segment.offset.saturating_add(segment.data.len() as u64);
            segment.executable && (segment.offset & !0xfff..end).contains(&offset)
        };
        let segment = image.elf.segments.iter().find(holds)?;
        Some(segment.range.start.0.wrapping_add(offset).wrapping_sub(segment.offset))
    }
}

/// Whether a symbol only says which source file those behind it are from.
fn is_file(symbol: &relive_image::symbols::Symbol<'_>) -> bool {
    symbol.kind == SymbolKind::Other && !symbol.global && !symbol.defined && !symbol.name.is_empty()
}
