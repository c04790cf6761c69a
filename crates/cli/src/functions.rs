//! The functions of traced programs: which one an address is in. They are told by the files that were traced, if these are still the
//! same build.

use relive_image::image::Image;
use relive_image::names::demangle;
use relive_image::plt::is_plt_section;
use relive_image::symbols::SymbolKind;
use relive_trace::Module;
use relive_trace::process::{Origin, Process};
use relive_trace::units::Unit;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Functions of all files that code came from, as they are asked for.
#[derive(Default)]
pub(crate) struct Functions {
    /// What the files were when they were traced, if that is some time ago.
    modules: HashMap<PathBuf, Module>,
    files: HashMap<Arc<Path>, File>,
}

/// A file: where its code is, in it and as linked, and how much that is; and its functions.
#[derive(Default)]
struct File {
    code: Vec<(u64, u64, u64)>,
    functions: Vec<Named>,
    nameless: Vec<Named>,
}

/// What follows if a file does not tell the names of functions.
pub(crate) const NAMELESS: &str = "its code is told by addresses";

/// Where something begins and ends, as linked, and what it is called.
pub(crate) type Named = (u64, u64, Arc<str>);

impl Functions {
    /// Those of files that were traced, as they were then.
    pub(crate) fn of(modules: &[Module]) -> Self {
        let modules = modules.iter().map(|module| (module.path.clone(), module.clone())).collect();
        Self { modules, ..Self::default() }
    }

    /// The name of the function that an address is in.
    pub(crate) fn name(&mut self, process: &Process, unit: &Unit, pc: u64) -> Option<Arc<str>> {
        match process.mapping(unit, pc)?.origin {
            Origin::File(_) => self.at(process, unit, pc).map(|(_, name)| name.clone()),
            Origin::Kernel => Some("[kernel]".into()),
            Origin::Generated => Some("[generated]".into()),
        }
    }

    /// Whether a function of that name begins at an address.
    pub(crate) fn begins(&mut self, process: &Process, unit: &Unit, pc: u64, name: &str) -> bool {
        // With or without its arguments.
        let is_called = |own: &str| own == name || own.split('(').next() == Some(name);
        self.at(process, unit, pc).is_some_and(|(further, own)| further == 0 && is_called(own))
    }

    /// How far an address is in a function, and the function's name.
    fn at(&mut self, process: &Process, unit: &Unit, pc: u64) -> Option<(u64, &Arc<str>)> {
        let mapping = process.mapping(unit, pc)?;
        let Origin::File(path) = &mapping.origin else { return None };
        if !self.files.contains_key(path) {
            let is_known = self.modules.get(&**path).is_none_or(|module| is_as_traced(module, NAMELESS));
            let file = if is_known { File::read(path) } else { File::default() };
            self.files.insert(path.clone(), file);
        }
        let (file, at) = (&self.files[path], pc.wrapping_add(mapping.offset));
        let &(offset, _, link) = file.code.iter().find(|(offset, len, _)| at.wrapping_sub(*offset) < *len)?;
        let address = link + (at - offset);
        let found = holding(&file.functions, address).or_else(|| holding(&file.nameless, address));
        found.map(|(start, name)| (address - start, name))
    }
}

impl File {
    /// Nothing is known of one that is not there any more.
    fn read(path: &Path) -> Self {
        let Ok(data) = std::fs::read(path) else { return Self::default() };
        let Ok(image) = Image::parse(&data, None) else { return Self::default() };
        let code = image.elf.segments.iter().filter(|segment| segment.executable);
        let code = code.map(|s| (s.offset, s.data.len() as u64, s.range.start.0)).collect();
        Self { code, functions: named(&image, false), nameless: nameless(&image) }
    }
}

/// Whether a file is still the build that was traced. If it is not, it tells nothing of what was executed then, and somebody is told so, and
/// what follows.
pub(crate) fn is_as_traced(module: &Module, otherwise: &str) -> bool {
    let now = Module::read(&module.path);
    // One with a build-id may have been stripped since.
    let is_same = now.build_id == module.build_id
        && (now.len == module.len || !module.build_id.is_empty() && now.len > 0);
    if !is_same {
        let why = if now.len == 0 { "cannot be read any more" } else { "is not the build that was traced" };
        eprintln!("relive: warning: {} {why}: {otherwise}", module.path.display());
    }
    is_same
}

/// What holds an address: where that begins, and its name.
pub(crate) fn holding(named: &[Named], address: u64) -> Option<(u64, &Arc<str>)> {
    let behind = named.partition_point(|named| named.0 <= address);
    let (start, end, name) = named.get(behind.checked_sub(1)?)?;
    (address < *end).then_some((*start, name))
}

/// The functions that symbols name, by address. Each ends where its symbol says, or where the next begins.
pub(crate) fn named(image: &Image<'_>, mangled: bool) -> Vec<Named> {
    let shown = |name: &str| if mangled { name.into() } else { demangle(name).into() };
    let symbols = image.symbols.iter().chain(&image.dynamic_symbols);
    let is_code = |kind| matches!(kind, SymbolKind::Function | SymbolKind::Resolver | SymbolKind::Label);
    let named = symbols
        .filter(|symbol| symbol.defined && is_code(symbol.kind) && image.elf.is_text(symbol.addr))
        .map(|symbol| (symbol.addr.0, symbol.size, !symbol.global, shown(&symbol.name)));
    let stubs = image.stubs.iter().filter_map(|stub| {
        let name = image.stub_name(stub)?;
        Some((stub.range.start.0, stub.range.len(), false, Arc::from(name)))
    });
    let mut all: Vec<(u64, u64, bool, Arc<str>)> = named.chain(stubs).collect();
    // Of several names, the longest piece of code and the name that others can see.
    all.sort_by(|a, b| (a.0, b.1, a.2, &a.3).cmp(&(b.0, a.1, b.2, &b.3)));
    all.dedup_by_key(|function| function.0);
    let starts: Vec<u64> = all.iter().skip(1).map(|function| function.0).chain([u64::MAX]).collect();
    all.into_iter()
        .zip(starts)
        .map(|((start, size, _, name), next)| (start, if size == 0 { next } else { start + size }, name))
        .collect()
}

/// The functions that unwind entries tell of, by address; where no symbol names them, they are called as in profiles.
pub(crate) fn nameless(image: &Image<'_>) -> Vec<Named> {
    let is_stub = |at| {
        let mut sections = image.elf.sections.iter();
        sections.any(|section| section.range.contains(at) && is_plt_section(&section.name))
    };
    let functions =
        image.unwind.frames.iter().filter(|f| f.starts_like_a_function && !is_stub(f.range.start));
    functions.map(|f| (f.range.start.0, f.range.end.0, format!("fn_{:x}", f.range.start.0).into())).collect()
}
