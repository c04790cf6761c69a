//! The text of source lines: what says that two lines of two versions are the same statement.

use crate::corpus::{self, Build};
use crate::oracle::line_table::File;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// A text, numbered: equal texts of all versions of all programs have equal numbers.
pub(crate) type TextId = u32;

/// Texts and their numbers.
#[derive(Default)]
pub(crate) struct Texts {
    numbers: HashMap<String, TextId>,
    texts: Vec<String>,
}

impl Texts {
    fn number(&mut self, text: String) -> TextId {
        let texts = &mut self.texts;
        *self.numbers.entry(text).or_insert_with_key(|text| {
            texts.push(text.clone());
            (texts.len() - 1) as TextId
        })
    }

    pub(crate) fn text(&self, number: TextId) -> &str {
        &self.texts[number as usize]
    }
}

/// The source files of one build, each once.
pub(crate) struct Sources<'a> {
    corpus: &'a Path,
    /// The folder of the version.
    pub(crate) root: PathBuf,
    numbers: HashMap<PathBuf, u32>,
    pub(crate) paths: Vec<PathBuf>,
    /// What the lines of each file say; `None` for lines that say too little to be told apart.
    pub(crate) texts: Vec<Vec<Option<TextId>>>,
    /// Files that the line table names and that are not here.
    pub(crate) missing: BTreeSet<PathBuf>,
}

impl<'a> Sources<'a> {
    pub(crate) fn of(build: &Build, corpus: &'a Path) -> Self {
        Self {
            corpus,
            root: corpus.join("src").join(&build.program).join(&build.version),
            numbers: HashMap::new(),
            paths: Vec::new(),
            texts: Vec::new(),
            missing: BTreeSet::new(),
        }
    }

    /// The number of a file, which is read when it is first asked for.
    pub(crate) fn file(&mut self, file: &File, texts: &mut Texts) -> u32 {
        let path = self.place(file);
        if let Some(&number) = self.numbers.get(&path) {
            return number;
        }
        let lines = match std::fs::read(&path) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                text.lines().map(|line| meaningful(line).map(|line| texts.number(line))).collect()
            }
            Err(_) => {
                self.missing.insert(path.clone());
                Vec::new()
            }
        };
        let number = self.paths.len() as u32;
        self.numbers.insert(path.clone(), number);
        self.paths.push(path);
        self.texts.push(lines);
        number
    }

    /// Undoes the prefix maps of build.sh and recipes.sh.
    fn place(&self, file: &File) -> PathBuf {
        let moved = [
            ("driver", corpus::scripts().join("drivers")),
            ("inputs", self.corpus.join("inputs")),
            ("work", self.corpus.join("work")),
            ("corpus", self.corpus.to_owned()),
        ];
        let unmapped = |path: &Path| {
            moved.iter().find_map(|(prefix, folder)| Some(folder.join(path.strip_prefix(prefix).ok()?)))
        };
        if let Some(path) = unmapped(&file.path) {
            return path;
        }
        // the folder it was compiled in may have moved with the corpus
        let base = if file.compiled_in.ends_with(self.root.strip_prefix(self.corpus).unwrap_or(&self.root)) {
            self.root.clone()
        } else {
            unmapped(&file.compiled_in).unwrap_or_else(|| self.root.join(&file.compiled_in))
        };
        base.join(&file.path)
    }
}

/// Words that any function may have many times.
const COMMON: [&str; 9] = ["break", "continue", "default", "do", "else", "goto", "return", "try", "loop"];

/// The line with single spaces, if it has any word or number of its own: not `{`, `} else {`, `break;`.
fn meaningful(line: &str) -> Option<String> {
    let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    words.any(|word| !COMMON.contains(&word)).then(|| line.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_say_something() {
        for nothing in ["{", "  } else {", "break;", "", "  });"] {
            assert_eq!(meaningful(nothing), None, "{nothing}");
        }
        assert_eq!(meaningful("\tif (a)  return 1;").as_deref(), Some("if (a) return 1;"));
        assert_eq!(meaningful("return x;").as_deref(), Some("return x;"));
    }

    #[test]
    fn places() {
        let build = Build { program: "lua".into(), version: "5".into(), configuration: "gcc-O2".into() };
        let sources = Sources::of(&build, Path::new("/c"));
        let place = |compiled_in: &str, path: &str| {
            sources.place(&File { compiled_in: compiled_in.into(), path: path.into() })
        };
        assert_eq!(place("/elsewhere/src/lua/5", "a.c"), Path::new("/c/src/lua/5/a.c"));
        assert_eq!(place("/c/src/lua/5", "/usr/include/stdio.h"), Path::new("/usr/include/stdio.h"));
        assert_eq!(place("/c/src/lua/5", "driver/d.c"), corpus::scripts().join("drivers/d.c"));
        assert_eq!(place("corpus/registry/memchr", "src/lib.rs"), Path::new("/c/registry/memchr/src/lib.rs"));
    }
}
