//! Brings two descriptions of one build that hold no more than what ran into the same shape, so that counts add up.
//!
//! What one of them describes and the other does not never ran there: its counts are zero. Where both describe a function
//! in different ways, as what else ran can tell where a function ends, one of the two ways stays, and with it only the
//! counts of those who saw it that way.

use crate::merge::{PARTLY_MEASURED, shape};
use crate::model::{CallSite, Callee, Count, DataBlock, Function, Line, Module, Pointer, State, TextId};
use std::collections::HashMap;

/// Gives both the functions, the data and the pointers of both.
pub(crate) fn unite(a: &mut Module, b: &mut Module) {
    let (more_for_a, more_for_b) = (Adopted::new(b, a), Adopted::new(a, b));
    more_for_a.add_to(a);
    more_for_b.add_to(b);
    sort_files(a);
    sort_files(b);
}

/// Numbers source files by name, so that it does not matter who named one first.
fn sort_files(module: &mut Module) {
    let mut sorted: Vec<(String, usize)> = std::mem::take(&mut module.files).into_iter().zip(0..).collect();
    sorted.sort();
    let mut numbers = vec![0; sorted.len()];
    for ((_, old), new) in sorted.iter().zip(0..) {
        numbers[*old] = new;
    }
    module.files = sorted.into_iter().map(|(file, _)| file).collect();
    let renumber = |line: &mut Option<Line>| {
        *line = line.map(|line| {
            Line::new(numbers.get(line.file() as usize).copied().unwrap_or(u32::MAX - 1), line.line)
        });
    };
    for function in &mut module.functions {
        function.blocks.iter_mut().for_each(|block| renumber(&mut block.line));
        function.loops.iter_mut().for_each(|a_loop| renumber(&mut a_loop.line));
    }
}

/// What one module has to take over from another.
struct Adopted {
    /// By address, as part of the module that takes them over.
    functions: Vec<Function>,
    data: Vec<DataBlock>,
    pointers: Vec<Pointer>,
}

impl Adopted {
    fn new(from: &Module, into: &mut Module) -> Self {
        let mut translation = Translation::new(from, into);
        let mut functions = Vec::new();
        for theirs in &from.functions {
            let own = translation.into.functions.binary_search_by_key(&theirs.address, |f| f.address);
            let own = own.ok().map(|i| &translation.into.functions[i]).filter(|own| !own.is_idle());
            let state = match own {
                None => translation.state(theirs.state),
                Some(own) if standing(own) >= standing(theirs) || shape([own]) == shape([theirs]) => continue,
                Some(_) => State::NotMeasured { reason: translation.into.texts.intern(PARTLY_MEASURED) },
            };
            functions.push(translation.function(theirs, state));
        }
        let data = from.data.iter().map(|block| translation.data(block)).collect();
        Self { functions, data, pointers: from.pointers.clone() }
    }

    fn add_to(self, module: &mut Module) {
        let old = std::mem::take(&mut module.functions);
        // Where each of the old ones is now, unless it was replaced.
        let mut places: Vec<Option<u32>> = Vec::with_capacity(old.len());
        let mut more = self.functions.into_iter().peekable();
        for function in old {
            while let Some(before) = more.next_if(|f| f.address < function.address) {
                module.functions.push(before);
            }
            let place = module.functions.len() as u32;
            match more.next_if(|f| f.address == function.address) {
                Some(better) => {
                    module.functions.push(better);
                    places.push(None);
                }
                None => {
                    module.functions.push(function);
                    places.push(Some(place));
                }
            }
        }
        module.functions.extend(more);
        let sites = std::mem::take(&mut module.sites).into_iter();
        let place = |site: &CallSite| places.get(site.function as usize).copied().flatten();
        module.sites = sites.filter_map(|site| Some(CallSite { function: place(&site)?, ..site })).collect();
        module.layout.sites = module.sites.len() as u32;
        // Of two that begin at the same place the smaller one, behind which another begins.
        module.data.extend(self.data);
        module.data.sort_by_key(|d| (d.address, d.size, d.hash));
        module.data.dedup_by_key(|d| d.address);
        module.pointers.extend(self.pointers);
        module.pointers.sort_unstable_by_key(|p| (p.at, p.to));
        module.pointers.dedup_by_key(|p| p.at);
    }
}

/// Which of two descriptions of a function stays: the greater.
fn standing(function: &Function) -> (bool, u8, u64) {
    (!function.is_idle(), function.state.rank(), shape([function]))
}

/// Says in one module what another says.
struct Translation<'a> {
    from: &'a Module,
    into: &'a mut Module,
    files: HashMap<String, u32>,
}

impl<'a> Translation<'a> {
    fn new(from: &'a Module, into: &'a mut Module) -> Self {
        let files = into.files.iter().cloned().zip(0..).collect();
        Self { from, into, files }
    }

    fn text(&mut self, id: TextId) -> TextId {
        self.into.texts.intern(self.from.text(id))
    }

    fn state(&mut self, state: State) -> State {
        match state {
            State::NotMeasured { reason } => State::NotMeasured { reason: self.text(reason) },
            State::EntryOnly { reason } => State::EntryOnly { reason: self.text(reason) },
            State::Measured => State::Measured,
        }
    }

    fn line(&mut self, line: Line) -> Line {
        let file = self.from.file(line).to_string();
        let next = self.into.files.len() as u32;
        let number = *self.files.entry(file.clone()).or_insert_with(|| {
            self.into.files.push(file);
            next
        });
        Line::new(number, line.line)
    }

    /// A function that never ran in the module that takes it over, or of which nothing is known there.
    fn function(&mut self, theirs: &Function, state: State) -> Function {
        let count = (state == State::Measured).then(|| Count::measured(0));
        let mut function =
            Function { name: self.text(theirs.name), state, approximate: None, ..theirs.clone() };
        for block in &mut function.blocks {
            block.count = count;
            block.line = block.line.map(|line| self.line(line));
        }
        function.edges.iter_mut().for_each(|edge| edge.count = count);
        for a_loop in &mut function.loops {
            a_loop.line = a_loop.line.map(|line| self.line(line));
        }
        for call in &mut function.calls {
            match &mut call.callee {
                Callee::Direct { name, .. } | Callee::Import { name } => *name = self.text(*name),
                // Sites are numbered anew when all are there.
                Callee::Indirect { site } => *site = None,
            }
        }
        function
    }

    fn data(&mut self, theirs: &DataBlock) -> DataBlock {
        DataBlock { name: theirs.name.map(|name| self.text(name)), ..*theirs }
    }
}
