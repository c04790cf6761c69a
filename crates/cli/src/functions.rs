//! The functions of traced programs: which one an address is in.

use relive_image::image::Image;
use relive_image::names::demangle;
use relive_trace::process::{Origin, Process};
use relive_trace::units::Unit;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Functions of all files that code came from, as they are asked for.
#[derive(Default)]
pub(crate) struct Functions {
    files: HashMap<Arc<Path>, Vec<Function>>,
}

/// A function, by its place in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function {
    start: u64,
    end: u64,
    name: Arc<str>,
}

impl Functions {
    /// The name of the function that an address is in, as far as symbols tell.
    pub(crate) fn name(&mut self, process: &Process, unit: &Unit, pc: u64) -> Option<Arc<str>> {
        match process.mapping(unit, pc)?.origin {
            Origin::File(_) => self.at(process, unit, pc).map(|(function, _)| function.name.clone()),
            Origin::Kernel => Some("[kernel]".into()),
            Origin::Generated => Some("[generated]".into()),
        }
    }

    /// Whether a function of that name begins at an address.
    pub(crate) fn begins(&mut self, process: &Process, unit: &Unit, pc: u64, name: &str) -> bool {
        let function = self.at(process, unit, pc);
        function.is_some_and(|(function, at)| function.start == at && function.is_called(name))
    }

    /// The function that an address is in, and the place of the address in its file.
    fn at(&mut self, process: &Process, unit: &Unit, pc: u64) -> Option<(&Function, u64)> {
        let mapping = process.mapping(unit, pc)?;
        let Origin::File(path) = &mapping.origin else { return None };
        if !self.files.contains_key(path) {
            self.files.insert(path.clone(), read(path));
        }
        let (functions, at) = (&self.files[path], pc.wrapping_add(mapping.offset));
        let index = functions.partition_point(|function| function.start <= at).checked_sub(1)?;
        Some((&functions[index], at)).filter(|(function, at)| *at < function.end)
    }
}

impl Function {
    /// Whether it is called that, with or without its arguments.
    fn is_called(&self, name: &str) -> bool {
        &*self.name == name || self.name.split('(').next() == Some(name)
    }
}

/// All functions of a file, by their places in it. None if it is not there any more.
fn read(path: &Path) -> Vec<Function> {
    let Ok(data) = std::fs::read(path) else { return Vec::new() };
    let Ok(image) = Image::parse(&data, None) else { return Vec::new() };
    let symbols = image.symbols.iter().chain(&image.dynamic_symbols);
    let mut all = Vec::new();
    for symbol in symbols.filter(|symbol| symbol.defined && symbol.is_function()) {
        let segment = image.elf.segments.iter().find(|segment| segment.range.contains(symbol.addr));
        let Some(segment) = segment else { continue };
        let start = symbol.addr.0 - segment.range.start.0 + segment.offset;
        let end = start + symbol.size.max(1);
        all.push(Function { start, end, name: demangle(&symbol.name).into() });
    }
    // Of several names of one place, the shortest.
    all.sort_by(|a, b| (a.start, a.name.len(), &a.name).cmp(&(b.start, b.name.len(), &b.name)));
    all.dedup_by_key(|function| function.start);
    all
}
