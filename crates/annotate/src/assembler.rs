//! Our assembler: has the real one put what the compiler said into the object file, and annotates that.

use crate::driver::{Called, exit_code, status};
use crate::object;
use crate::text;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Options of the assembler that take the next argument.
const WITH_VALUE: [&str; 9] =
    ["-o", "-I", "--defsym", "--MD", "--debug-prefix-map", "--compress-debug-sections", "-a", "-G", "-K"];

/// Assembles as the compiler asks for.
///
/// # Errors
/// If the real assembler cannot be run.
pub fn run(called: &Called, args: &[OsString]) -> io::Result<i32> {
    let original = called.original();
    let plain = || Command::new(&original);
    let Some(asked) = Asked::parse(args) else { return status(plain().args(args)) };
    let source = asked.read()?;
    let name = asked.input.as_deref().map_or(OsStr::new("{standard input}"), Path::as_os_str);
    let assembled = match text::annotate(&source, &name.to_string_lossy()) {
        Some(told) => assemble(plain().args(&asked.others).arg("-"), told)? == 0,
        None => false,
    };
    // Whatever is wrong is said of the text that the compiler made.
    let code = if assembled { 0 } else { feed(plain().args(args), &source)? };
    if code == 0 {
        object::annotate_file(&asked.output, &called.optimisation, true, &|| None);
    }
    Ok(code)
}

/// What the assembler is asked for.
struct Asked {
    /// The text; none if it comes from the standard input.
    input: Option<PathBuf>,
    output: PathBuf,
    /// All arguments but the input.
    others: Vec<OsString>,
}

impl Asked {
    /// Nothing if there is not one text.
    fn parse(args: &[OsString]) -> Option<Self> {
        let mut asked = Self { input: None, output: PathBuf::from("a.out"), others: Vec::new() };
        let mut inputs = Vec::new();
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            let text = arg.to_string_lossy();
            match &*text {
                "--version" | "--help" | "-v" | "-V" => return None,
                with if WITH_VALUE.contains(&with) => {
                    let value = rest.next()?;
                    if with == "-o" {
                        asked.output = PathBuf::from(value);
                    }
                    asked.others.extend([arg.clone(), value.clone()]);
                }
                "-" | "--" => inputs.push(None),
                option if option.starts_with('-') => asked.others.push(arg.clone()),
                file if file.starts_with('@') => return None,
                _ => inputs.push(Some(PathBuf::from(arg))),
            }
        }
        match &inputs[..] {
            [] => {}
            [one] => asked.input.clone_from(one),
            _ => return None,
        }
        Some(asked)
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        let mut source = Vec::new();
        match &self.input {
            Some(path) => source = std::fs::read(path)?,
            None => {
                io::stdin().lock().read_to_end(&mut source)?;
            }
        }
        Ok(source)
    }
}

/// Assembles the text with what the compiler said of it. Says nothing if that fails.
fn assemble(command: &mut Command, told: Vec<u8>) -> io::Result<i32> {
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take();
    let said = std::thread::scope(|scope| {
        scope.spawn(move || input.take().map(|mut input| input.write_all(&told)));
        child.wait_with_output()
    })?;
    // Warnings are for the user.
    if said.status.success() {
        io::stderr().write_all(&said.stderr)?;
    }
    Ok(exit_code(said.status))
}

/// Runs the assembler on the text as it was.
fn feed(command: &mut Command, source: &[u8]) -> io::Result<i32> {
    let mut child = command.stdin(Stdio::piped()).spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // It reads a file, unless the text came from the standard input.
        let _ = input.write_all(source);
    }
    child.wait().map(exit_code)
}
