//! What a clang can be asked to say of its blocks: that differs from version to version, and who is asked for something
//! unknown refuses to compile.

use crate::driver::{in_path, is_option};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::UNIX_EPOCH;

/// What maps of blocks are asked for by, the newest way first.
const WAYS: [&str; 2] = ["-fbasic-block-address-map", "-fbasic-block-sections=labels"];

/// How to ask a clang for a map of blocks.
pub(crate) struct Map<'a> {
    command: &'a [OsString],
    way: Option<&'static str>,
    is_remembered: bool,
}

impl<'a> Map<'a> {
    /// What the clang that `command` begins with understands. It is asked once: starting it takes as long as compiling a
    /// short file.
    pub(crate) fn of(command: &'a [OsString]) -> Self {
        let words = command.iter().take_while(|word| !is_option(word)).count();
        let command = &command[..words.max(1)];
        match recall(command) {
            Some(way) => Self { command, way: Some(way), is_remembered: true },
            None => Self { command, way: ask(command), is_remembered: false },
        }
    }

    /// Asks again if the answer was an old one; whether it is another now. Behind the same name may be another clang.
    pub(crate) fn is_outdated(&mut self) -> bool {
        let before = self.way;
        if std::mem::take(&mut self.is_remembered) {
            self.way = ask(self.command);
        }
        self.way != before
    }

    /// The options to add to `args`. They have no effect where only assembler is read, which is no mistake of the user's.
    pub(crate) fn options(&self, args: &[OsString]) -> Vec<&'static str> {
        let is_taken = |way: &str| {
            let (option, _) = way.split_once('=').unwrap_or((way, ""));
            way != option && args.iter().any(|arg| arg.to_string_lossy().starts_with(option))
        };
        match self.way.filter(|way| !is_taken(way)) {
            Some(way) => vec!["--start-no-unused-arguments", way, "--end-no-unused-arguments"],
            None => Vec::new(),
        }
    }
}

/// Whether an argument asks for a map.
pub(crate) fn asks_for_map(arg: &str) -> bool {
    WAYS.contains(&arg)
}

/// Asks, and remembers the answer.
fn ask(command: &[OsString]) -> Option<&'static str> {
    let is_known = |way: &&str| {
        let mut compiler = Command::new(&command[0]);
        compiler.args(words_of(command)).args(["-###", "--start-no-unused-arguments", way]);
        compiler.args(["--end-no-unused-arguments", "-x", "c", "-c", "/dev/null"]);
        let status = compiler.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let way = WAYS.into_iter().find(is_known);
    // What is not understood now may be for another reason.
    way.inspect(|way| remember(command, way))
}

/// What says which compiler is behind the command that starts it (`ccache clang`). A source file is no such thing.
fn words_of(command: &[OsString]) -> impl Iterator<Item = &OsString> {
    command[1..].iter().take_while(|word| crate::command::Family::by_name(word).is_some())
}

/// Where the answer of a compiler is kept, and what it goes by: its name, and the file that it is.
fn entry(command: &[OsString]) -> Option<(PathBuf, String)> {
    let dir = match std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute()) {
        Some(dir) => dir,
        None => PathBuf::from(std::env::var_os("HOME").filter(|home| !home.is_empty())?).join(".cache"),
    };
    let mut key = String::new();
    for word in command.iter().take(1).chain(words_of(command)) {
        let file = in_path(word)?;
        let about = std::fs::metadata(&file).ok()?;
        let time = about.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_nanos();
        key += &format!("{} {} {} {time}\n", word.display(), file.display(), about.len());
    }
    let name = format!("{:08x}", crc32fast::hash(key.as_bytes()));
    Some((dir.join("relive").join("clang").join(name), key))
}

/// What was answered before, if it was asked.
fn recall(command: &[OsString]) -> Option<&'static str> {
    let (file, key) = entry(command)?;
    let text = std::fs::read_to_string(file).ok()?;
    let answer = text.strip_prefix(&key)?;
    WAYS.into_iter().find(|way| *way == answer)
}

/// Nobody minds if that fails: then it is asked each time.
fn remember(command: &[OsString], way: &str) {
    let Some((file, key)) = entry(command) else { return };
    let Some(dir) = file.parent() else { return };
    let _ = std::fs::create_dir_all(dir).and_then(|()| {
        let mut beside = tempfile::NamedTempFile::new_in(dir)?;
        std::io::Write::write_all(&mut beside, (key + way).as_bytes())?;
        beside.persist(&file).map_err(|failed| failed.error)
    });
}
