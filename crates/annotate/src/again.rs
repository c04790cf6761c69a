//! Has clang compile once more, by way of text: a map of blocks does not tell data among code, which programmers write in
//! assembler; the text does.

use crate::command::{alone, expand, sources};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::process::{Command, Stdio};

/// Where the linker finds what the compiler was told.
const COMMAND: &str = "command";

/// How to do it.
pub(crate) struct Again<'a> {
    pub(crate) compiler: &'a Path,
    /// Where our own tools lie; text and objects go there.
    pub(crate) dir: &'a Path,
}

impl Again<'_> {
    /// Keeps what the compiler is told for the linker that it starts.
    pub(crate) fn hand_over(&self, args: &[OsString]) {
        let mut text = Vec::new();
        for arg in args {
            text.extend_from_slice(arg.as_bytes());
            text.push(0);
        }
        // Less is told of data among code without.
        let _ = std::fs::write(self.dir.join(COMMAND), text);
    }

    /// What was handed over; nothing if the compiler only links.
    pub(crate) fn handed_over(&self) -> Vec<OsString> {
        let text = std::fs::read(self.dir.join(COMMAND)).unwrap_or_default();
        let args = text.strip_suffix(&[0]).unwrap_or_default().split(|&byte| byte == 0);
        args.map(|arg| OsString::from_vec(arg.to_vec())).collect()
    }

    /// The object that clang makes of its own text with our labels in it, of the source file that `object` comes from.
    pub(crate) fn by_way_of_text(&self, args: &[OsString], object: &Path) -> Option<Vec<u8>> {
        let args = expand(args, 0);
        let sources = sources(&args);
        let is_its = |source: &&std::path::PathBuf| {
            let [source, object] =
                [source, object].map(|path| path.file_stem().unwrap_or_default().as_bytes());
            object.starts_with(source)
        };
        // Objects that are not to stay have names like `stem-1a2b3c.o`. The longest name is the one.
        let source = match &sources[..] {
            [one] => one,
            _ => sources.iter().filter(is_its).max_by_key(|source| source.file_stem().map(OsStr::len))?,
        };
        let (text, told) = (self.dir.join("text.s"), self.dir.join("told.o"));
        let quiet = |command: &mut Command| {
            let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
            status.is_ok_and(|status| status.success()).then_some(())
        };
        quiet(Command::new(self.compiler).args(alone(&args, source)).args(["-S", "-o"]).arg(&text))?;
        let annotated = crate::text::annotate(&std::fs::read(&text).ok()?, "text.s")?;
        std::fs::write(&text, annotated).ok()?;
        quiet(Command::new(self.compiler).args(["-Wno-everything", "-c", "-o"]).args([&told, &text]))?;
        std::fs::read(&told).ok()
    }
}
