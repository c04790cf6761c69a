//! Instructions of a trace in words: module, function, line of source.

use crate::functions::{self, NAMELESS, holding, is_as_traced};
use crate::traced::Traced;
use relive_analysis::{Locate, Location, Place};
use relive_code::addr::{AddrRange, LinkAddr};
use relive_image::image::Image;
use relive_image::lines::Lines;
use relive_image::loader::{Loaded, Options};
use relive_image::names::demangle;
use relive_image::plt::is_plt_section;
use relive_image::symbols::SymbolKind;
use relive_trace::Module;
use relive_trace::process::{Mapping, Origin};
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The files that code of a trace came from, if they are still what they were.
pub(super) struct Files(HashMap<PathBuf, Loaded>);

impl Files {
    /// Opens them. One that is not there any more, or is another build, is left out.
    pub(super) fn open(traced: &Traced<'_>, debug_roots: &[PathBuf]) -> Self {
        let options = Options { debug_roots: debug_roots.to_vec(), ..Options::default() };
        let open = |module: &Module| Some((module.path.clone(), Loaded::open(&module.path, &options).ok()?));
        Self(traced.modules.iter().filter(|module| is_as_traced(module, NAMELESS)).filter_map(open).collect())
    }
}

/// Says where instructions are.
pub(super) struct Places<'f> {
    traced: &'f Traced<'f>,
    files: &'f Files,
    mangled: bool,
    known: RefCell<HashMap<PathBuf, Option<Arc<Described<'f>>>>>,
    told: RefCell<HashMap<Place, Location>>,
}

/// A file, as far as is needed here.
pub(super) struct Described<'f> {
    /// Its code: where it is in the file, its bytes, and where it is linked.
    code: Vec<(u64, &'f [u8], u64)>,
    /// Functions by address: start, end, name.
    functions: Vec<(u64, u64, Arc<str>)>,
    /// Those that unwind entries tell of, for code that no symbol names.
    nameless: Vec<(u64, u64, Arc<str>)>,
    /// The same for data.
    data: Vec<(u64, u64, Arc<str>)>,
    stubs: Vec<AddrRange>,
    lines: Lines<'f>,
}

impl<'f> Places<'f> {
    pub(super) fn new(traced: &'f Traced<'f>, files: &'f Files, mangled: bool) -> Self {
        Self { traced, files, mangled, known: RefCell::default(), told: RefCell::default() }
    }

    pub(super) fn described(&self, path: &Path) -> Option<Arc<Described<'f>>> {
        let mut known = self.known.borrow_mut();
        if let Some(described) = known.get(path) {
            return described.clone();
        }
        let describe = |loaded: &'f Loaded| Described::new(loaded, self.mangled).map(Arc::new);
        let described = self.files.0.get(path).and_then(describe);
        known.insert(path.to_owned(), described.clone());
        described
    }

    /// A file that is mapped, and how far its addresses are from those it was linked for.
    pub(super) fn loaded(&self, path: &Path, mapping: &Mapping) -> Option<(Arc<Described<'f>>, u64)> {
        let file = self.described(path)?;
        let link = file.link_address(mapping.start.wrapping_add(mapping.offset))?;
        Some((file, mapping.start.wrapping_sub(link)))
    }

    /// All files that are mapped into a process, as above.
    fn all_loaded(&self, process: u32) -> Vec<(Arc<Described<'f>>, u64)> {
        let Some(process) = self.traced.process(process) else { return Vec::new() };
        let loaded = |mapping: &Mapping| match &mapping.origin {
            Origin::File(path) => self.loaded(path, mapping),
            Origin::Kernel | Origin::Generated => None,
        };
        process.mappings.iter().filter_map(loaded).collect()
    }

    /// Where data of that name is in a process: from where to where.
    pub(super) fn data(&self, process: u32, name: &str) -> Option<(u64, u64)> {
        self.all_loaded(process).iter().find_map(|(file, bias)| {
            let (start, end, _) = file.data().iter().find(|(.., own)| &**own == name)?;
            Some((start.wrapping_add(*bias), end.wrapping_add(*bias)))
        })
    }

    fn find(&self, place: Place) -> Location {
        let bare = Location { address: Some(place.pc), ..Location::default() };
        let Some(process) = self.traced.process(place.process) else { return bare };
        let holds = |mapping: &&Mapping| (mapping.start..mapping.end).contains(&place.pc);
        let Some(mapping) = process.mappings.iter().rev().find(holds) else { return bare };
        let path = match &mapping.origin {
            Origin::File(path) => path,
            Origin::Kernel => return Location { module: Some("[vdso]".into()), ..bare },
            Origin::Generated => return Location { module: Some("[generated]".into()), ..bare },
        };
        let module = Some(path.to_string_lossy().into());
        let Some(file) = self.described(path) else { return Location { module, ..bare } };
        let Some(address) = file.link_address(place.pc.wrapping_add(mapping.offset)) else {
            return Location { module, ..bare };
        };
        let line = file.lines.at(LinkAddr(address)).filter(|place| place.line > 0);
        let function = holding(&file.functions, address).or_else(|| holding(&file.nameless, address));
        Location {
            module,
            entry: function.map(|(start, _)| start),
            function: function.map(|(_, name)| name.clone()),
            file: line.map(|place| place.file.into()),
            line: line.map(|place| place.line),
            address: Some(address),
        }
    }
}

impl Locate for Places<'_> {
    fn locate(&self, place: Place) -> Location {
        if let Some(location) = self.told.borrow().get(&place) {
            return location.clone();
        }
        let location = self.find(place);
        self.told.borrow_mut().insert(place, location.clone());
        location
    }

    fn variable(&self, process: u32, address: u64) -> Option<Arc<str>> {
        self.all_loaded(process).iter().find_map(|(file, bias)| {
            let link = address.wrapping_sub(*bias);
            let (start, name) = holding(file.data(), link)?;
            Some(if start == link { name.clone() } else { format!("{name}+{:#x}", link - start).into() })
        })
    }
}

impl<'f> Described<'f> {
    fn new(loaded: &'f Loaded, mangled: bool) -> Option<Self> {
        let image = loaded.image().ok()?;
        let code = image.elf.segments.iter().filter(|segment| segment.executable);
        let code = code.map(|s| (s.offset, s.data, s.range.start.0)).collect();
        let (functions, data) = (functions::named(&image, mangled), data(&image, mangled));
        let stubs = image.elf.sections.iter().filter(|section| is_plt_section(&section.name));
        let stubs = stubs.map(|section| section.range).collect();
        let nameless = functions::nameless(&image);
        Some(Self { code, functions, nameless, data, stubs, lines: Lines::new(loaded) })
    }

    /// Where a place in the file is linked.
    pub(super) fn link_address(&self, offset: u64) -> Option<u64> {
        let holds = |(at, bytes, _): &&(u64, &[u8], u64)| offset.wrapping_sub(*at) < bytes.len() as u64;
        self.code.iter().find(holds).map(|&(at, _, link)| link + (offset - at))
    }

    /// Its code: where it is linked, and its bytes.
    pub(super) fn code(&self) -> impl Iterator<Item = (u64, &'f [u8])> {
        self.code.iter().map(|&(_, bytes, link)| (link, bytes))
    }

    /// Where stubs of imported functions are.
    pub(super) fn stubs(&self) -> &[AddrRange] {
        &self.stubs
    }

    /// Its source lines.
    pub(super) fn lines(&self) -> &Lines<'f> {
        &self.lines
    }

    /// All functions with symbols: where they begin and end, as linked, and what they are called.
    pub(super) fn functions(&self) -> &[(u64, u64, Arc<str>)] {
        &self.functions
    }

    /// All data.
    pub(super) fn data(&self) -> &[(u64, u64, Arc<str>)] {
        &self.data
    }
}

/// The variables that symbols name, by address.
fn data(image: &Image<'_>, mangled: bool) -> Vec<(u64, u64, Arc<str>)> {
    let shown = |name: &str| if mangled { name.into() } else { demangle(name).into() };
    let symbols = image.symbols.iter().chain(&image.dynamic_symbols);
    let mut all: Vec<(u64, u64, Arc<str>)> = symbols
        .filter(|symbol| symbol.defined && symbol.kind == SymbolKind::Object && symbol.size > 0)
        .map(|symbol| (symbol.addr.0, symbol.addr.0 + symbol.size, shown(&symbol.name)))
        .collect();
    all.sort();
    all.dedup_by_key(|variable| variable.0);
    all
}
