//! Runs a compiler so that what it makes is annotated: it is asked to say more than it usually does, and finds our own
//! assembler and linker in place of others.

use crate::again::Again;
use crate::clang::Map;
use crate::command::{Action, Family, Request};
use crate::object;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// Where our own tools lie: said to whoever is called by one of their names.
const TOOLS: &str = "RELIVE_CC_TOOLS";
/// The compiler that runs, and what it was told.
const COMPILER: &str = "RELIVE_CC_COMPILER";
const OPTIMISATION: &str = "RELIVE_CC_OPTIMISATION";
const FAMILY: &str = "RELIVE_CC_FAMILY";
const LTO: &str = "RELIVE_CC_LTO";
const PREPARES: &str = "RELIVE_CC_PREPARES";
const KEEPS_MAP: &str = "RELIVE_CC_KEEPS_MAP";
const PREFIXES: &str = "RELIVE_CC_PREFIXES";

/// The names that compilers call assemblers and linkers by, the assembler's first.
const NAMES: [&str; 6] = ["as", "ld", "ld.bfd", "ld.gold", "ld.lld", "ld.mold"];

/// Why a compiler could not be run.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// There is no such command.
    #[error("cannot run {}: {why}; give a compiler that is in PATH, or the path of one", compiler.display())]
    CannotRun {
        /// The command.
        compiler: PathBuf,
        /// Why not.
        why: io::Error,
    },
    /// Neither gcc nor clang.
    #[error(
        "{} is neither gcc nor clang, as far as its name and its answers to --version and -dumpmachine tell; give one of these",
        compiler.display()
    )]
    UnknownCompiler {
        /// The command.
        compiler: PathBuf,
    },
    /// There is no room for our tools.
    #[error("cannot make a directory for tools of its own in {}: {why}; set TMPDIR to one that can be written", dir.display())]
    NoTools {
        /// Where.
        dir: PathBuf,
        /// Why not.
        why: io::Error,
    },
}

/// Runs `command`, a compiler and its arguments; the exit code is the compiler's. What is linked is prepared for
/// instrumentation if that is wanted.
///
/// # Errors
/// If there is no such compiler.
pub fn run(command: &[OsString], prepares: bool) -> Result<i32, DriverError> {
    let compiler = PathBuf::from(&command[0]);
    let args = &command[1..];
    let request = Request::parse(args);
    let cannot_run = |why| DriverError::CannotRun { compiler: compiler.clone(), why };
    if request.action == Action::Other {
        return status(Command::new(&compiler).args(args)).map_err(cannot_run);
    }
    let family = family_of(command).map_err(cannot_run)?;
    let family = family.ok_or_else(|| DriverError::UnknownCompiler { compiler: compiler.clone() })?;
    let links = request.action == Action::Link;
    let tools = Tools::new(links).map_err(|why| DriverError::NoTools { dir: std::env::temp_dir(), why })?;
    // Before whatever else is to be looked into (rustc names a place of its own for the linker), but behind the name of the
    // compiler if that is started by another command.
    let (words, options) = args.split_at(args.iter().position(|arg| is_option(arg)).unwrap_or(args.len()));
    let compile = |more: &[&str]| {
        let mut run = Command::new(&compiler);
        run.args(words).arg("-B").arg(tools.dir.path()).args(options).args(more);
        run.env(TOOLS, tools.dir.path())
            .env(COMPILER, &compiler)
            .env(OPTIMISATION, &request.optimisation)
            .env(FAMILY, if family == Family::Clang { "clang" } else { "gcc" })
            .env(LTO, if request.is_lto { "1" } else { "0" })
            .env(PREPARES, if prepares { "1" } else { "0" })
            .env(KEEPS_MAP, if request.wants_block_map { "1" } else { "0" })
            .env(PREFIXES, std::env::join_paths(&request.prefixes).unwrap_or_default());
        status(&mut run).map_err(cannot_run)
    };
    let again = Again { compiler: &compiler, dir: tools.dir.path() };
    let code = match family {
        Family::Gcc => compile(&["-dA"])?,
        Family::Clang => {
            if request.action == Action::Link {
                again.hand_over(args);
            }
            let mut map = Map::of(command);
            match compile(&map.options(args))? {
                code if code != 0 && map.is_outdated() => compile(&map.options(args))?,
                code => code,
            }
        }
    };
    if let (0, Action::Compile(objects)) = (code, &request.action) {
        // gcc's have been through our assembler, unless it insists on its own.
        for path in objects {
            let told = || again.by_way_of_text(args, path);
            object::annotate_file(path, &request.optimisation, request.wants_block_map, &told);
        }
    }
    Ok(code)
}

/// Whether it is an option, or a file of them.
pub(crate) fn is_option(arg: &OsStr) -> bool {
    matches!(arg.as_encoded_bytes().first(), Some(b'-' | b'@'))
}

/// Which compiler it is; one that only starts others (`ccache gcc`) has theirs.
fn family_of(command: &[OsString]) -> io::Result<Option<Family>> {
    let words = command.iter().take_while(|word| !is_option(word));
    if let Some(family) = words.into_iter().find_map(|word| Family::by_name(word)) {
        return Ok(Some(family));
    }
    // `cc` mostly is another name of one of them.
    if let Some(family) = in_path(&command[0]).and_then(|path| Family::by_name(path.as_os_str())) {
        return Ok(Some(family));
    }
    let ask = |what| Command::new(&command[0]).arg(what).stdin(Stdio::null()).output();
    let version = ask("--version")?;
    let Some(family) = Family::by_version(&String::from_utf8_lossy(&version.stdout)) else { return Ok(None) };
    // Whose version names gcc's makers may be `ls` as well; only compilers say what machine they compile for.
    let machine = ask("-dumpmachine")?;
    let is_machine =
        machine.status.success() && Family::is_machine(&String::from_utf8_lossy(&machine.stdout));
    Ok(is_machine.then_some(family))
}

/// The file that a command is, all links followed.
pub(crate) fn in_path(command: &OsStr) -> Option<PathBuf> {
    if command.as_encoded_bytes().contains(&b'/') {
        return std::fs::canonicalize(command).ok();
    }
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).map(|dir| dir.join(command)).find(|file| file.is_file())?;
    std::fs::canonicalize(found).ok()
}

/// Our own assembler and linker.
struct Tools {
    dir: tempfile::TempDir,
}

impl Tools {
    /// Linkers only where something is linked: making and removing names takes time.
    fn new(links: bool) -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("relive-cc-").tempdir()?;
        let own = std::env::current_exe()?;
        for name in &NAMES[..if links { NAMES.len() } else { 1 }] {
            std::os::unix::fs::symlink(&own, dir.path().join(name))?;
        }
        Ok(Self { dir })
    }
}

/// What a compiler called one of our tools for.
#[derive(Debug)]
pub struct Called {
    /// The name it was called by.
    pub name: String,
    /// Where our tools lie.
    pub tools: PathBuf,
    /// The compiler.
    pub compiler: PathBuf,
    /// Which it is.
    pub family: Family,
    /// How much it was told to optimise.
    pub optimisation: String,
    /// Whether the linker makes code.
    pub is_lto: bool,
    /// Whether what is linked is prepared for instrumentation.
    pub prepares: bool,
    /// Whether the compiler's own map of blocks is asked for anyway.
    pub keeps_map: bool,
}

impl Called {
    /// Whether this process is one of our tools, called by the name `zero`.
    #[must_use]
    pub fn by(zero: &OsStr) -> Option<Self> {
        let tools = PathBuf::from(std::env::var_os(TOOLS)?);
        let zero = Path::new(zero);
        let name = zero.file_name()?.to_str().filter(|name| NAMES.contains(name))?.to_string();
        // Somebody else's assembler may be ourselves under another name.
        if zero.parent() != Some(&tools) {
            return None;
        }
        let text = |name| std::env::var(name).unwrap_or_default();
        Some(Self {
            name,
            tools,
            compiler: PathBuf::from(std::env::var_os(COMPILER)?),
            family: if text(FAMILY) == "clang" { Family::Clang } else { Family::Gcc },
            optimisation: text(OPTIMISATION),
            is_lto: text(LTO) == "1",
            prepares: text(PREPARES) == "1",
            keeps_map: text(KEEPS_MAP) == "1",
        })
    }

    /// The tool that would have been called.
    #[must_use]
    pub fn original(&self) -> PathBuf {
        let listed = |name: &str| std::env::var_os(name).unwrap_or_default();
        let (asked, own, path) = (listed(PREFIXES), listed("COMPILER_PATH"), listed("PATH"));
        let dirs = std::env::split_paths(&asked)
            .chain(std::env::split_paths(&own))
            .chain(self.beside_clang())
            .chain(std::env::split_paths(&path));
        let tools = std::fs::canonicalize(&self.tools).ok();
        // An empty list has one entry, which is empty: what lies in the current folder by chance is nobody's tool.
        dirs.filter(|dir| !dir.as_os_str().is_empty() && std::fs::canonicalize(dir).ok() != tools)
            .map(|dir| dir.join(&self.name))
            .find(|path| path.is_file())
            .unwrap_or_else(|| PathBuf::from(&self.name))
    }

    /// clang prefers tools that lie beside it.
    fn beside_clang(&self) -> Option<PathBuf> {
        if self.family != Family::Clang {
            return None;
        }
        let answer =
            Command::new(&self.compiler).arg(format!("-print-prog-name={}", self.name)).output().ok()?;
        let path = PathBuf::from(String::from_utf8_lossy(&answer.stdout).trim());
        path.parent().filter(|_| path.is_absolute()).map(Path::to_path_buf)
    }
}

/// Runs a command to its end; its exit code as a shell tells it.
pub(crate) fn status(command: &mut Command) -> io::Result<i32> {
    command.status().map(exit_code)
}

pub(crate) fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}
