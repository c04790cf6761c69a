//! Our linker: annotates objects that exist only while one command compiles and links, and sees to it that annotations come
//! through the link.

use crate::again::Again;
use crate::binary;
use crate::command::{Family, expand};
use crate::driver::{Called, status};
use crate::gold;
use crate::layout::Layout;
use crate::object;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options of linkers that take the next argument.
const WITH_VALUE: &[&str] = &[
    "-o",
    "-L",
    "-l",
    "-m",
    "-z",
    "-e",
    "-h",
    "-T",
    "-u",
    "-y",
    "-Y",
    "-A",
    "-b",
    "-c",
    "-f",
    "-F",
    "-G",
    "-I",
    "-R",
    "-plugin",
    "-plugin-opt",
    "-dynamic-linker",
    "--dynamic-linker",
    "-rpath",
    "--rpath",
    "-rpath-link",
    "--rpath-link",
    "-soname",
    "--soname",
    "-init",
    "-fini",
    "-Map",
    "--hash-style",
    "--version-script",
    "--dynamic-list",
    "--defsym",
    "--wrap",
    "--format",
    "-Ttext",
    "-Tdata",
    "-Tbss",
    "--script",
    "--sysroot",
];

/// Links as the compiler asks for, and adds the object that prepares programs and libraries for instrumentation: `runtime` makes
/// one with a note of that length.
///
/// # Errors
/// If the real linker cannot be run.
pub fn run(
    called: &Called,
    args: &[OsString],
    runtime: &dyn Fn(u64) -> io::Result<Vec<u8>>,
) -> io::Result<i32> {
    let original = called.original();
    let expanded = expand(args, 0);
    let Some(mut asked) = Asked::parse(&expanded) else { return status(Command::new(&original).args(args)) };
    asked.annotate_objects(called);
    let object = called.tools.join("relive-runtime.o");
    let makes_code = called.family == Family::Clang && called.is_lto && called.name == "ld.lld";
    if makes_code {
        asked.args.extend(map_of_lto(&original));
    }
    let mut layout = None;
    let mut own = asked.args.len();
    if called.prepares && asked.is_whole() {
        let found = Layout::of(&original, &asked.args);
        std::fs::write(&object, runtime(found.note())?)?;
        asked.args.push(object.clone().into());
        own = asked.args.len();
        asked.args.extend(found.args(&called.tools)?);
        layout = Some(found);
    }
    let hides = called.name == "ld.gold" && asked.collects;
    if hides {
        asked.replace_inputs(called, gold::hide);
    }
    let mut code = link(&original, called, args, &asked)?;
    if let Some(layout) = &mut layout
        && code == 0
        && layout.is_mistaken(&asked.output)
    {
        std::fs::write(&object, runtime(layout.note())?)?;
        asked.args.truncate(own);
        asked.args.extend(layout.args(&called.tools)?);
        code = link(&original, called, args, &asked)?;
    }
    if code == 0 {
        if hides {
            gold::show(&asked.output)?;
        }
        match (asked.is_partial, makes_code) {
            (true, _) => {}
            (false, true) => binary::translate_map(&asked.output),
            (false, false) => binary::condense(&asked.output)?,
        }
    }
    Ok(code)
}

fn link(original: &Path, called: &Called, args: &[OsString], asked: &Asked) -> io::Result<i32> {
    let mut command = Command::new(original);
    // Who had so many that they needed a file has as many now.
    if args.iter().any(|arg| arg.as_bytes().starts_with(b"@")) {
        let file = called.tools.join("link");
        std::fs::write(&file, quoted(&asked.args))?;
        let mut arg = OsString::from("@");
        arg.push(&file);
        command.arg(arg);
    } else {
        command.args(&asked.args);
    }
    status(&mut command)
}

/// Arguments as linkers read them in a file.
fn quoted(args: &[OsString]) -> Vec<u8> {
    let mut text = Vec::new();
    for arg in args {
        text.push(b'"');
        for &byte in arg.as_bytes() {
            if matches!(byte, b'"' | b'\\') {
                text.push(b'\\');
            }
            text.push(byte);
        }
        text.extend_from_slice(b"\"\n");
    }
    text
}

/// Has lld keep a map of the blocks that it makes.
fn map_of_lto(linker: &Path) -> Option<OsString> {
    let help = Command::new(linker).arg("--help").output().ok()?;
    let help = String::from_utf8_lossy(&help.stdout);
    ["--lto-basic-block-address-map", "--lto-basic-block-sections="]
        .into_iter()
        .find(|option| help.contains(option))
        .map(|option| {
            if option.ends_with('=') { format!("{option}labels") } else { option.to_string() }.into()
        })
}

/// What a linker is asked for.
struct Asked {
    args: Vec<OsString>,
    output: PathBuf,
    /// Which arguments are object files and libraries.
    inputs: Vec<usize>,
    /// Makes an object file.
    is_partial: bool,
    /// Leaves out what nobody refers to.
    collects: bool,
}

impl Asked {
    /// Nothing if nothing is linked.
    fn parse(args: &[OsString]) -> Option<Self> {
        let mut asked = Self {
            args: args.to_vec(),
            output: PathBuf::from("a.out"),
            inputs: Vec::new(),
            is_partial: false,
            collects: false,
        };
        let mut index = 0;
        while let Some(arg) = args.get(index) {
            let text = arg.to_string_lossy();
            match &*text {
                "--version" | "-v" | "-V" | "--help" => return None,
                "-o" => asked.output = PathBuf::from(args.get(index + 1)?),
                "-r" | "--relocatable" | "-i" | "-Ur" => asked.is_partial = true,
                "--gc-sections" => asked.collects = true,
                "--no-gc-sections" => asked.collects = false,
                option if option.starts_with('-') => {}
                _ => asked.inputs.push(index),
            }
            index += if WITH_VALUE.contains(&&*text) { 2 } else { 1 };
        }
        (!asked.inputs.is_empty()).then_some(asked)
    }

    /// Whether it is a program or library that the C library starts.
    fn is_whole(&self) -> bool {
        let names = self.inputs.iter().filter_map(|&index| Path::new(&self.args[index]).file_name());
        !self.is_partial && names.into_iter().any(|name| name == "crti.o")
    }

    /// Annotates what is not yet, in copies.
    fn annotate_objects(&mut self, called: &Called) {
        let again = Again { compiler: &called.compiler, dir: &called.tools };
        let told = again.handed_over();
        self.replace_inputs(called, |path, bytes| {
            if is_of_system(path) {
                return None;
            }
            // Linkers take many things that are no object files, and know better what is wrong with one.
            let again = || again.by_way_of_text(&told, path);
            object::annotate(bytes, &called.optimisation, called.keeps_map, &again).unwrap_or_default()
        });
    }

    /// Puts copies of inputs in their place where they have to be different.
    fn replace_inputs(&mut self, called: &Called, change: impl Fn(&Path, &[u8]) -> Option<Vec<u8>>) {
        for &index in &self.inputs {
            let path = PathBuf::from(&self.args[index]);
            let Ok(bytes) = std::fs::read(&path) else { continue };
            let Some(changed) = change(&path, &bytes) else { continue };
            // Names are in messages, and in maps.
            let dir = called.tools.join(format!("{index}"));
            let copy = dir.join(path.file_name().unwrap_or(OsStr::new("object")));
            if std::fs::create_dir_all(&dir).and_then(|()| std::fs::write(&copy, changed)).is_ok() {
                self.args[index] = copy.into();
            }
        }
    }
}

/// Whether it is one of the objects that begin and end every program.
fn is_of_system(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".o")
        && ["crt", "Scrt", "Mcrt", "gcrt", "rcrt", "grcrt"].iter().any(|start| name.starts_with(start))
}
