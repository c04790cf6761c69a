//! ProfMig's norm of identity: every construct of a program is a level, a file and a line, and constructs hold others.
//!
//! Where nobody knows lines, a construct is known by the name of its function, its place in it and its code. Statements are not in the tree: a
//! basic block stands for those it begins with, and what holds it follows from the tree.

use relive_profile::model::{Function, Line, Module};
use std::collections::BTreeMap;
use std::fmt;

/// How large a construct is: the higher, the larger. Other levels can be put in between: see [`Grouping`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level {
    /// Its place among levels.
    pub rank: u8,
    /// What it is called.
    pub name: &'static str,
}

impl Level {
    /// A basic block: the statements it begins with.
    pub const STATEMENT: Self = Self { rank: 0, name: "statement" };
    /// A loop.
    pub const LOOP: Self = Self { rank: 10, name: "loop" };
    /// A function.
    pub const FUNCTION: Self = Self { rank: 20, name: "function" };
    /// A class, or whatever else functions are members of.
    pub const CLASS: Self = Self { rank: 30, name: "class" };
    /// All of it.
    pub const PROGRAM: Self = Self { rank: 40, name: "program" };
    /// The paper's, the smallest first: a number on the command line is an index into this.
    pub const ALL: [Self; 5] = [Self::STATEMENT, Self::LOOP, Self::FUNCTION, Self::CLASS, Self::PROGRAM];

    /// The level of that name or number.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let number = text.parse::<usize>().ok().and_then(|number| Self::ALL.get(number).copied());
        number.or_else(|| Self::ALL.into_iter().find(|level| level.name == text))
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A level between functions and the program: says which group a function belongs to.
pub trait Grouping {
    /// Its place among levels.
    fn level(&self) -> Level;

    /// The name of the group a function is in, if it is in one.
    fn group(&self, module: &Module, function: &Function) -> Option<String>;
}

/// Functions by the class, module or namespace that their demangled names say they are members of.
pub struct Classes<F>(
    /// Demangles a name.
    pub F,
);

impl<F: Fn(&str) -> String> Grouping for Classes<F> {
    fn level(&self) -> Level {
        Level::CLASS
    }

    fn group(&self, module: &Module, function: &Function) -> Option<String> {
        let name = (self.0)(module.name(function));
        scope(&name).map(ToOwned::to_owned)
    }
}

/// What stands before the last `::` of a name, outside of brackets.
fn scope(name: &str) -> Option<&str> {
    let (mut depth, mut last) = (0usize, None);
    let bytes = name.as_bytes();
    for (i, byte) in bytes.iter().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' => depth = depth.saturating_sub(1),
            // Parameters begin.
            b'(' if depth == 0 && i > 0 => break,
            b':' if depth == 0 && bytes.get(i + 1) == Some(&b':') => last = Some(i),
            _ => {}
        }
    }
    last.and_then(|end| name.get(..end)).filter(|scope| !scope.is_empty())
}

/// Which construct.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Identity {
    /// By its place in the sources: the paper's universal ID, without the level.
    Source {
        /// The file.
        file: String,
        /// The line it begins in.
        line: u32,
    },
    /// By its place in the code.
    Code {
        /// The function, as in the symbol table.
        function: String,
        /// Which block of it.
        block: u32,
    },
    /// By its name: groups, and the program.
    Name(String),
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source { file, line } => write!(f, "{file}:{line}"),
            Self::Code { function, block } => write!(f, "{function}+bb{block}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// A construct and what it holds.
#[derive(Clone, Debug)]
pub struct Construct {
    /// How large it is.
    pub level: Level,
    /// Which it is.
    pub identity: Identity,
    /// What it is called: of a function, its name as in the symbol table.
    pub name: String,
    /// The last line of its code, if lines are known.
    pub last_line: Option<u32>,
    /// The function it is or is in, by index.
    pub function: Option<u32>,
    /// Which loop of the function.
    pub within: Option<u32>,
    /// What it holds.
    pub children: Vec<Construct>,
}

impl Construct {
    /// It and everything it holds, with how deep that lies.
    pub fn walk(&self, visit: &mut impl FnMut(&Self, usize)) {
        self.walk_from(0, visit);
    }

    fn walk_from(&self, depth: usize, visit: &mut impl FnMut(&Self, usize)) {
        visit(self, depth);
        for child in &self.children {
            child.walk_from(depth + 1, visit);
        }
    }
}

/// The constructs of a module: program, groups, functions, loops.
#[must_use]
pub fn tree(module: &Module, groupings: &[&dyn Grouping]) -> Construct {
    let mut levels: Vec<&dyn Grouping> = groupings.to_vec();
    levels.sort_by_key(|grouping| std::cmp::Reverse(grouping.level()));
    let functions: Vec<u32> = (0..module.functions.len() as u32).collect();
    Construct {
        level: Level::PROGRAM,
        identity: Identity::Name(module.path.rsplit('/').next().unwrap_or_default().to_owned()),
        name: module.path.clone(),
        last_line: None,
        function: None,
        within: None,
        children: grouped(module, &levels, functions),
    }
}

fn grouped(module: &Module, levels: &[&dyn Grouping], functions: Vec<u32>) -> Vec<Construct> {
    let Some((grouping, rest)) = levels.split_first() else {
        return functions.into_iter().map(|i| of_function(module, i)).collect();
    };
    let mut groups: BTreeMap<Option<String>, Vec<u32>> = BTreeMap::new();
    for i in functions {
        groups.entry(grouping.group(module, &module.functions[i as usize])).or_default().push(i);
    }
    let mut all = Vec::new();
    for (group, functions) in groups {
        let children = grouped(module, rest, functions);
        match group {
            None => all.extend(children),
            Some(name) => all.push(Construct {
                level: grouping.level(),
                identity: Identity::Name(name.clone()),
                name,
                last_line: None,
                function: None,
                within: None,
                children,
            }),
        }
    }
    all
}

fn of_function(module: &Module, index: u32) -> Construct {
    let function = &module.functions[index as usize];
    let first = function.blocks.first().and_then(|block| block.line);
    let name = module.name(function);
    let identity = |line: Option<Line>, block: u32| match line {
        Some(line) if line.line > 0 => {
            Identity::Source { file: module.file(line).to_owned(), line: line.line }
        }
        _ => Identity::Code { function: name.to_owned(), block },
    };
    let last = |blocks: &mut dyn Iterator<Item = u32>, first: Option<Line>| {
        let file = first?.file();
        let lines = blocks.filter_map(|b| function.blocks.get(b as usize)?.line);
        lines.filter(|line| line.file() == file).map(|line| line.line).max()
    };
    let loops: Vec<Construct> = (0..)
        .zip(&function.loops)
        .map(|(i, looped)| Construct {
            level: Level::LOOP,
            identity: identity(looped.line, looped.header),
            name: format!("bb{}", looped.header),
            last_line: last(&mut looped.blocks.iter().copied(), looped.line),
            function: Some(index),
            within: Some(i),
            children: Vec::new(),
        })
        .collect();
    Construct {
        level: Level::FUNCTION,
        identity: identity(first, 0),
        name: name.to_owned(),
        last_line: last(&mut (0..function.blocks.len() as u32), first),
        function: Some(index),
        within: None,
        children: nested(function, loops),
    }
}

/// Puts inner loops into outer ones, which come before them.
fn nested(function: &Function, loops: Vec<Construct>) -> Vec<Construct> {
    let mut open: Vec<Option<Construct>> = loops.into_iter().map(Some).collect();
    let mut top = Vec::new();
    for i in (0..open.len()).rev() {
        let Some(mut looped) = open[i].take() else { continue };
        looped.children.reverse();
        let parent = function.loops[i].parent.and_then(|parent| open.get_mut(parent as usize)?.as_mut());
        match parent {
            Some(parent) => parent.children.push(looped),
            None => top.push(looped),
        }
    }
    top.reverse();
    top
}

#[cfg(test)]
mod tests {
    use super::*;
    use relive_profile::model::{Loop, State};

    #[test]
    fn scopes_of_names() {
        for (name, expected) in [
            ("main", None),
            ("a::b::f", Some("a::b")),
            ("std::vector<a::b>::push(c::d const&)", Some("std::vector<a::b>")),
            ("f(a::b)", None),
            ("<a::B as c::D>::f", Some("<a::B as c::D>")),
        ] {
            assert_eq!(scope(name), expected, "{name}");
        }
    }

    #[test]
    fn levels_have_names_and_numbers() {
        assert_eq!(Level::parse("1"), Some(Level::LOOP));
        assert_eq!(Level::parse("function"), Some(Level::FUNCTION));
        assert_eq!(Level::parse("9"), None);
        assert!(Level::ALL.is_sorted());
    }

    #[test]
    fn loops_lie_in_loops() {
        let mut module = Module::default();
        let name = module.texts.intern("f");
        let mut function = Function::new(name, 0x10, 4, State::Measured);
        let looped = |header, parent| Loop { header, parent, depth: 0, line: None, blocks: vec![header] };
        function.loops = vec![looped(1, None), looped(2, Some(0)), looped(3, Some(0)), looped(4, None)];
        module.functions.push(function);
        let mut text = String::new();
        tree(&module, &[]).walk(&mut |c, depth| text += &format!("{depth}{} ", c.identity));
        assert_eq!(text, "0 1f+bb0 2f+bb1 3f+bb2 3f+bb3 2f+bb4 ");
    }
}
