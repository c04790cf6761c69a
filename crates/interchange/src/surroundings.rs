//! What a format may ask beside the profile: what only the measured file or its sources know.

use relive_profile::model::Module;

/// Answers what is asked of a measured file. Whoever has files answers; the defaults are those of someone who has none.
pub trait Surroundings {
    /// All symbols of the full symbol table of the file, in its order; `None` if there is no such file, or no such table.
    fn symbols(&self, module: &Module) -> Option<Vec<Symbol>> {
        let _ = module;
        None
    }

    /// The lines that the code from `start` to before `end` comes from, by address. Code without a line is left out.
    fn lines(&self, module: &Module, start: u64, end: u64) -> Vec<Lined<'_>> {
        let _ = (module, start, end);
        Vec::new()
    }

    /// The functions around the instruction at `at`: the innermost inlined one first, the one that the code is part of last. None if
    /// nobody knows.
    fn frames(&self, module: &Module, at: u64) -> Vec<Frame<'_>> {
        let _ = (module, at);
        Vec::new()
    }

    /// The functions around the instruction at `at`, as the linker knows them: the innermost inlined one first, the one that the code is
    /// part of last. None if nobody knows.
    fn levels(&self, module: &Module, at: u64) -> Vec<Level<'_>> {
        let _ = (module, at);
        Vec::new()
    }

    /// Where the computed jump at `at` may lead; `None` if nobody knows.
    fn cases(&self, module: &Module, at: u64) -> Option<Cases> {
        let _ = (module, at);
        None
    }

    /// The bytes from `start` to before `end`, addresses as linked; `None` if there is no such file, or not all of them are in it.
    fn code(&self, module: &Module, start: u64, end: u64) -> Option<Vec<u8>> {
        let _ = (module, start, end);
        None
    }

    /// The address that the file begins at in memory, as linked.
    fn base(&self, module: &Module) -> Option<u64> {
        let _ = module;
        None
    }

    /// The address, as linked, of what is at an offset of the file, if that part of it is loaded; `None` if there is no such file.
    fn linked_at(&self, module: &Module, offset: u64) -> Option<u64> {
        let _ = (module, offset);
        None
    }
}

/// Where a computed jump may lead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cases {
    /// Places in its function, as linked, by address.
    pub to: Vec<u64>,
    /// Whether it may also leave the function.
    pub leave: bool,
}

impl Cases {
    pub(crate) fn lead_to(&self, address: u64) -> bool {
        self.to.binary_search(&address).is_ok()
    }
}

/// Code that comes from one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lined<'a> {
    /// Its first address, as linked.
    pub start: u64,
    /// Behind its last.
    pub end: u64,
    /// The path.
    pub file: &'a str,
    /// The line; zero if it is none in particular.
    pub line: u32,
}

/// A function around an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its name, demangled.
    pub function: String,
    /// The path and the line: of the instruction, or of the call that was inlined.
    pub line: Option<(&'a str, u32)>,
}

/// Nothing but the profile is there.
pub struct Nothing;

impl Surroundings for Nothing {}

/// A function around an instruction, as compilers want to be told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level<'a> {
    /// Its name, as the linker knows it.
    pub function: &'a str,
    /// The line the function is declared in; zero if that is not known.
    pub declared: u32,
    /// The line: of the instruction, or of the call that was inlined; zero if there is none.
    pub line: u32,
    /// What tells code of the same line apart, as the compiler wrote it; zero if nothing does.
    pub discriminator: u32,
}

/// A symbol of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its name, as in the table.
    pub name: String,
    /// Its address, as linked.
    pub address: u64,
    /// Its size; zero if not stated.
    pub size: u64,
    /// Whether it names a function.
    pub is_function: bool,
    /// Whether other files can see it.
    pub is_global: bool,
    /// The source file a local symbol is from, if the table says so.
    pub file: Option<String>,
}
