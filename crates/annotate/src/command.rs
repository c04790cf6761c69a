//! What a compiler is asked to do.

use crate::clang::asks_for_map;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Which compiler it is, as far as that makes a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// GNU: hands text to an assembler.
    Gcc,
    /// LLVM: writes object files itself.
    Clang,
}

impl Family {
    /// By the name of the command. Nobody knows what is behind `cc`.
    #[must_use]
    pub fn by_name(compiler: &OsStr) -> Option<Self> {
        let name = Path::new(compiler).file_name()?.to_string_lossy();
        if name.contains("clang") {
            Some(Self::Clang)
        } else if name.contains("gcc") || name.contains("g++") {
            Some(Self::Gcc)
        } else {
            None
        }
    }

    /// By what the compiler says of itself (`--version`).
    #[must_use]
    pub fn by_version(version: &str) -> Option<Self> {
        if version.contains("clang") {
            Some(Self::Clang)
        } else if version.contains("Free Software Foundation") {
            Some(Self::Gcc)
        } else {
            None
        }
    }

    /// Whether an answer to `-dumpmachine` is one: `x86_64-linux-gnu`.
    #[must_use]
    pub fn is_machine(answer: &str) -> bool {
        let mut parts = answer.trim().split('-');
        parts.next().is_some_and(|first| first.starts_with(|c: char| c.is_ascii_alphanumeric()))
            && parts.next().is_some()
    }
}

/// What a command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing that makes an object file or a program.
    Other,
    /// These object files.
    Compile(Vec<PathBuf>),
    /// A program or library.
    Link,
}

/// What a command line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it asks for.
    pub action: Action,
    /// How much to optimise, as it was said last.
    pub optimisation: String,
    /// Whether the map of blocks is asked for anyway.
    pub wants_block_map: bool,
    /// Whether code is made by the linker.
    pub is_lto: bool,
    /// Where assemblers and linkers are to be looked for before anywhere else (`-B`).
    pub prefixes: Vec<PathBuf>,
}

/// Arguments that take the next one.
const WITH_VALUE: &[&str] = &[
    "-o",
    "-x",
    "-I",
    "-D",
    "-U",
    "-L",
    "-l",
    "-A",
    "-B",
    "-T",
    "-u",
    "-z",
    "-e",
    "-MF",
    "-MT",
    "-MQ",
    "-MJ",
    "-include",
    "-imacros",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-iprefix",
    "-iwithprefix",
    "-iwithprefixbefore",
    "-isysroot",
    "-Xlinker",
    "-Xassembler",
    "-Xpreprocessor",
    "-Xclang",
    "-mllvm",
    "-target",
    "-arch",
    "-aux-info",
    "--param",
    "-dumpbase",
    "-dumpbase-ext",
    "-dumpdir",
    "-wrapper",
    "-rpath",
    "-soname",
];

/// Arguments after which nothing is compiled.
const ASKS_ONLY: &[&str] = &[
    "-E",
    "-M",
    "-MM",
    "-S",
    "-fsyntax-only",
    "--version",
    "--help",
    "-###",
    "-dumpversion",
    "-dumpmachine",
];

impl Request {
    /// Reads the arguments of a compiler.
    #[must_use]
    pub fn parse(args: &[OsString]) -> Self {
        let mut request = Self {
            action: Action::Link,
            optimisation: "-O0".into(),
            wants_block_map: false,
            is_lto: false,
            prefixes: Vec::new(),
        };
        let (mut inputs, mut output): (Vec<PathBuf>, Option<PathBuf>) = Default::default();
        let (mut compiles, mut asks) = (false, false);
        let expanded = expand(args, 0);
        let mut args = expanded.iter();
        while let Some(arg) = args.next() {
            let text = arg.to_string_lossy();
            match &*text {
                "-o" => output = args.next().map(PathBuf::from),
                "-B" => request.prefixes.extend(args.next().map(PathBuf::from)),
                "-c" => compiles = true,
                map if asks_for_map(map) => request.wants_block_map = true,
                "-flto" => request.is_lto = true,
                "-fno-lto" => request.is_lto = false,
                ask if ASKS_ONLY.contains(&ask)
                    || ask.starts_with("-print-")
                    || ask.starts_with("--print-") =>
                {
                    asks = true;
                }
                with if WITH_VALUE.contains(&with) => {
                    args.next();
                }
                joined if joined.starts_with("-B") => request.prefixes.push(PathBuf::from(&joined[2..])),
                joined if joined.starts_with("-o") => output = Some(PathBuf::from(&joined[2..])),
                level if level.starts_with("-O") => request.optimisation = level.into(),
                lto if lto.starts_with("-flto=") => request.is_lto = true,
                other if other.starts_with('-') && other != "-" => {}
                _ => inputs.push(PathBuf::from(arg)),
            }
        }
        request.action = if asks || inputs.is_empty() {
            Action::Other
        } else if compiles {
            Action::Compile(match output {
                Some(output) => vec![output],
                None => inputs.iter().filter_map(|input| object_of(input)).collect(),
            })
        } else {
            Action::Link
        };
        request
    }
}

/// The source files that a command line names.
#[must_use]
pub fn sources(args: &[OsString]) -> Vec<PathBuf> {
    let mut args = args.iter();
    let mut sources = Vec::new();
    while let Some(arg) = args.next() {
        match &*arg.to_string_lossy() {
            with if WITH_VALUE.contains(&with) => drop(args.next()),
            option if option.starts_with('-') => {}
            _ => sources.push(PathBuf::from(arg)),
        }
    }
    sources.retain(|file| Family::by_name(file.as_os_str()).is_none() && !is_linked(file));
    sources
}

/// Whether a file goes straight to the linker.
fn is_linked(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    [".o", ".a", ".so", ".lo", ".la"].iter().any(|end| name.ends_with(end)) || name.contains(".so.")
}

/// Arguments that compile one of several source files: without other files, and without what says where to write, and what
/// else to.
#[must_use]
pub fn alone(args: &[OsString], source: &Path) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match &*arg.to_string_lossy() {
            "-o" | "-MF" | "-MT" | "-MQ" | "-MJ" => {
                args.next();
            }
            with if WITH_VALUE.contains(&with) => {
                kept.extend([Some(arg), args.next()].into_iter().flatten().cloned())
            }
            "-c" | "-MD" | "-MMD" | "-MP" | "-MG" | "-save-temps" | "-save-temps=obj" => {}
            joined if joined.starts_with("-o") => {}
            option if option.starts_with('-') => kept.push(arg.clone()),
            _ if Path::new(arg) == source || Family::by_name(arg).is_some() => kept.push(arg.clone()),
            _ => {}
        }
    }
    kept
}

/// Where the object file of a source file goes unless somebody says otherwise.
fn object_of(input: &Path) -> Option<PathBuf> {
    Some(Path::new(input.file_name()?).with_extension("o"))
}

/// How deep files of arguments may name others.
const DEEP: u32 = 16;

/// Arguments, those in files (`@file`) in their place.
pub(crate) fn expand(args: &[OsString], depth: u32) -> Vec<OsString> {
    let mut expanded = Vec::new();
    for arg in args {
        let file = arg.as_bytes().strip_prefix(b"@").filter(|_| depth < DEEP);
        match file.and_then(|name| std::fs::read(Path::new(OsStr::from_bytes(name))).ok()) {
            Some(text) => expanded.extend(expand(&words(&text), depth + 1)),
            None => expanded.push(arg.clone()),
        }
    }
    expanded
}

/// The words of a file of arguments: blanks separate them unless quoted, a backslash quotes one character.
fn words(text: &[u8]) -> Vec<OsString> {
    let (mut words, mut word): (Vec<OsString>, Option<Vec<u8>>) = Default::default();
    let mut quote = None;
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match (byte, quote) {
            (b'\\', _) => word.get_or_insert_default().extend(bytes.next()),
            (byte, Some(open)) if byte == open => quote = None,
            (b'"' | b'\'', None) => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (byte, None) if byte.is_ascii_whitespace() => {
                words.extend(word.take().map(|word| OsStr::from_bytes(&word).to_owned()));
            }
            (byte, _) => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word.map(|word| OsStr::from_bytes(&word).to_owned()));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(line: &str) -> Request {
        Request::parse(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn object_files_have_the_names_that_compilers_give_them() {
        let objects = |names: &[&str]| Action::Compile(names.iter().map(PathBuf::from).collect());
        assert_eq!(request("-c -O2 src/a.c b.cc").action, objects(&["a.o", "b.o"]));
        assert_eq!(request("-MF a.d -MT x -I inc -c a.c -o out/x.o").action, objects(&["out/x.o"]));
        assert_eq!(request("-c a.c -oy.o").action, objects(&["y.o"]));
    }

    #[test]
    fn who_only_asks_gets_nothing_else() {
        for line in ["--version", "-E a.c", "-S a.c", "-print-prog-name=ld", "-v", "-M a.c"] {
            assert_eq!(request(line).action, Action::Other, "{line}");
        }
        assert_eq!(request("a.o -o a -lm").action, Action::Link);
    }

    #[test]
    fn one_source_of_several_is_compiled_alone() {
        let args: Vec<OsString> = "clang -O2 -I inc -o out a.c src/b.cc c.o -L x -lm -MF d -x c -MD"
            .split(' ')
            .map(OsString::from)
            .collect();
        assert_eq!(sources(&args), [Path::new("a.c"), Path::new("src/b.cc")]);
        let alone = alone(&args, Path::new("src/b.cc"));
        let words: Vec<_> = alone.iter().map(|arg| arg.to_string_lossy()).collect();
        assert_eq!(words.join(" "), "clang -O2 -I inc src/b.cc -L x -lm -x c");
    }

    #[test]
    fn the_last_level_holds() {
        assert_eq!(request("-O2 -c a.c -O0").optimisation, "-O0");
        assert_eq!(request("-c a.c").optimisation, "-O0");
    }

    #[test]
    fn who_has_tools_of_their_own_says_so() {
        assert_eq!(request("-B/a/b -c a.c -B c").prefixes, [PathBuf::from("/a/b"), PathBuf::from("c")]);
    }

    #[test]
    fn compilers_say_what_they_compile_for() {
        assert!(Family::is_machine("x86_64-linux-gnu\n") && Family::is_machine("x86_64-pc-linux-gnu"));
        assert!(["", "-dumpmachine\n", "ls"].iter().all(|answer| !Family::is_machine(answer)));
    }

    #[test]
    fn files_of_arguments_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("args");
        std::fs::write(&file, "-c 'a b.c'\n-o \"x y\\\".o\"").unwrap();
        let request = Request::parse(&[format!("@{}", file.display()).into()]);
        assert_eq!(request.action, Action::Compile(vec!["x y\".o".into()]));
    }
}
