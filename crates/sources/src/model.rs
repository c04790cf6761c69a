//! What a comparison gives.

use std::fmt;

/// A file of one of the two trees: an index into [`Changes::old_files`] or [`Changes::new_files`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// A line of a file, counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The file.
    pub file: FileId,
    /// The line.
    pub line: u32,
}

/// Some lines of a file, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The file.
    pub file: FileId,
    /// The first line.
    pub first: u32,
    /// The last line.
    pub last: u32,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Only the new tree has it.
    Added,
    /// Only the old tree has it.
    Deleted,
    /// Both have it, and it differs or may mean something else.
    Changed,
}

/// What it happened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum What {
    /// A statement of a function, or the head of one that holds others.
    Statement,
    /// A function: all of it where it was added or deleted or follows from another change, else its head.
    Function,
    /// A type: struct, union, class, enum, trait, alias.
    Type,
    /// A macro.
    Macro,
    /// A variable or constant outside of functions.
    Variable,
    /// An include, use or import.
    Import,
    /// A declaration of what is defined elsewhere.
    Declaration,
    /// Anything else outside of functions, text that could not be parsed included.
    Other,
}

/// The definition a change follows from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cause {
    /// What changed.
    pub what: What,
    /// Its name.
    pub name: String,
    /// The name in the function that leads there: another one if the function mentions it by way of others.
    pub via: String,
}

/// One atomic change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What happened.
    pub kind: Kind,
    /// What it happened to.
    pub what: What,
    /// Where it was.
    pub old: Option<Span>,
    /// Where it is.
    pub new: Option<Span>,
    /// The qualified name of the definition that changed or that holds the statement.
    pub name: Option<String>,
    /// For functions whose own text did not change: what did.
    pub because: Option<Cause>,
}

/// How many statements there are and how many changed. Definitions outside of functions count as one statement,
/// types as one for each member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statements {
    /// In the old tree.
    pub old: usize,
    /// In the new tree.
    pub new: usize,
    /// In both, but different.
    pub changed: usize,
    /// In the new tree only.
    pub added: usize,
    /// In the old tree only.
    pub deleted: usize,
}

impl Statements {
    /// The significance of the changes: what share of the statements of both trees they make up, 0 to 1.
    #[must_use]
    pub fn significance(&self) -> f64 {
        self.weighed([1.0; 3])
    }

    /// The same if changed, added and deleted statements count for that much each.
    #[must_use]
    pub fn weighed(&self, [changed, added, deleted]: [f64; 3]) -> f64 {
        let touched =
            2.0 * changed * self.changed as f64 + added * self.added as f64 + deleted * self.deleted as f64;
        touched / (self.old + self.new).max(1) as f64
    }
}

/// What changed from one tree to the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// The changes, those of text first, then those that follow from others.
    pub changes: Vec<Change>,
    /// Lines with unchanged statements, old and new, sorted. A line that also holds a changed one is not here.
    /// The text is the same; whether it means the same, `changes` says ([`Change::because`]).
    pub unchanged: Vec<(Place, Place)>,
    /// How many statements changed.
    pub statements: Statements,
    /// The paths of the old tree's files.
    pub old_files: Vec<String>,
    /// The paths of the new tree's files.
    pub new_files: Vec<String>,
}

impl Changes {
    /// The path of a file of the old tree.
    #[must_use]
    pub fn old_path(&self, file: FileId) -> Option<&str> {
        self.old_files.get(file.0 as usize).map(String::as_str)
    }

    /// The path of a file of the new tree.
    #[must_use]
    pub fn new_path(&self, file: FileId) -> Option<&str> {
        self.new_files.get(file.0 as usize).map(String::as_str)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(match self {
            Self::Added => "added",
            Self::Deleted => "deleted",
            Self::Changed => "changed",
        })
    }
}

impl fmt::Display for What {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(match self {
            Self::Statement => "statement",
            Self::Function => "function",
            Self::Type => "type",
            Self::Macro => "macro",
            Self::Variable => "variable",
            Self::Import => "import",
            Self::Declaration => "declaration",
            Self::Other => "other",
        })
    }
}
