//! Opens a program and finds the separate debug file, and the annotations, that belong to it.
//!
//! Distributions strip their programs and ship what they stripped apart. Two clues lead back to it:
//! the build-id, under which debug packages install their files, and `.gnu_debuglink`, which names
//! a file and its checksum. Both are hints about a path; that the file found there belongs to this
//! very build is checked, because the lines and names of another build are worse than none. A file
//! that does not belong is left alone with a note.
//!
//! Debug files that went through `dwz` share what they have in common in one more file, named by
//! `.gnu_debugaltlink`: the supplement.
//!
//! Annotations that were taken out of a program lie beside it, or where debug files do, and name its build-id
//! themselves.
//!
//! This is the only module of the crate that opens files.

use crate::annotations::format;
use crate::annotations::side_file::{SideFile, SideFileError};
use crate::elf::Elf;
use crate::error::ImageError;
use crate::identity::{Identity, hex};
use crate::image::Image;
use crate::lines::{Supplement, has_dwarf};
use object::elf as raw;
use object::read::Object as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};
use thiserror::Error;

/// Where distributions install debug files.
const SYSTEM_ROOT: &str = "/usr/lib/debug";

/// What a file of annotations is called behind the name of its program.
const ANNOTATIONS: &str = ".annotate";

/// `O_NONBLOCK` of x86-64 Linux: a pipe that takes the file's place after it was looked at must not
/// hold us up either.
const NONBLOCKING: i32 = 0o4000;

/// A file with everything about it that lies in other files.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Where it was found, as the caller wrote it.
    pub path: PathBuf,
    /// The whole file.
    pub bytes: Vec<u8>,
    /// The separate debug file, if there is one and it is needed.
    pub debug: Option<(PathBuf, Vec<u8>)>,
    /// What `dwz` moved out of the debug information.
    pub supplement: Option<(PathBuf, Vec<u8>)>,
    /// What stands for section `.annotate` instead of its own, and the file it was in.
    pub annotations: Option<(PathBuf, Vec<u8>)>,
    /// Files that were looked at and not used, and why.
    pub notes: Vec<String>,
}

/// Where to look.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether to look for other files at all.
    pub find_debug_file: bool,
    /// Folders laid out like `/usr/lib/debug`, to be searched before it.
    pub debug_roots: Vec<PathBuf>,
    /// A file of annotations that must belong to the program, instead of its own or any other.
    pub annotations: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self { find_debug_file: true, debug_roots: Vec::new(), annotations: None }
    }
}

/// Why a file cannot be opened.
#[derive(Debug, Error)]
pub enum LoadError {
    /// There is nothing of that name.
    #[error("{}: no such file", path.display())]
    Missing {
        /// What was to be opened.
        path: PathBuf,
    },
    /// A folder.
    #[error("{}: a directory, not a file", path.display())]
    Directory {
        /// What was to be opened.
        path: PathBuf,
    },
    /// Something that is no file and may never end: a pipe, a socket, a device.
    #[error("{}: {kind}, not a regular file", path.display())]
    Special {
        /// What was to be opened.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// The file may not be read by this user.
    #[error("{}: permission denied", path.display())]
    Forbidden {
        /// What was to be opened.
        path: PathBuf,
    },
    /// Nothing is in it.
    #[error("{}: the file is empty", path.display())]
    Empty {
        /// What was to be opened.
        path: PathBuf,
    },
    /// Anything else that the system reports.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// What was to be opened.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file of annotations that was asked for is of no use.
    #[error("{}: {source}", path.display())]
    Annotations {
        /// That file.
        path: PathBuf,
        /// What is wrong with it.
        source: SideFileError,
    },
}

impl LoadError {
    fn new(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Missing { path },
            io::ErrorKind::IsADirectory => Self::Directory { path },
            io::ErrorKind::PermissionDenied => Self::Forbidden { path },
            _ => Self::Unreadable { path, source },
        }
    }

    /// The file that could not be opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Missing { path }
            | Self::Directory { path }
            | Self::Special { path, .. }
            | Self::Forbidden { path }
            | Self::Empty { path }
            | Self::Unreadable { path, .. }
            | Self::Annotations { path, .. } => path,
        }
    }
}

impl Loaded {
    /// Reads the file at `path`, and its debug file if it has no symbols or no debug information of
    /// its own. What is in the file is not judged here: see [`Loaded::image`].
    ///
    /// # Errors
    /// If there is no regular, readable, non-empty file at `path`, or annotations that were asked for do not belong to
    /// it. What is wrong with files that were only found is noted.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Self, LoadError> {
        let path = path.as_ref().to_owned();
        let bytes = read_file(&path)?;
        let mut this =
            Self { path, bytes, debug: None, supplement: None, annotations: None, notes: Vec::new() };
        if options.find_debug_file {
            this.find_debug_file(&options.debug_roots);
            this.find_supplement(&options.debug_roots);
        }
        match &options.annotations {
            Some(path) => this.use_annotations(path)?,
            None if options.find_debug_file => this.find_annotations(&options.debug_roots),
            None => {}
        }
        Ok(this)
    }

    /// The bytes of the separate debug file.
    #[must_use]
    pub fn debug_bytes(&self) -> Option<&[u8]> {
        self.debug.as_ref().map(|(_, bytes)| bytes.as_slice())
    }

    /// The bytes of the supplement.
    #[must_use]
    pub fn supplement_bytes(&self) -> Option<&[u8]> {
        self.supplement.as_ref().map(|(_, bytes)| bytes.as_slice())
    }

    /// What the file says of its code.
    ///
    /// # Errors
    /// If it is not an x86-64 executable or shared object, or its headers are damaged.
    pub fn image(&self) -> Result<Image<'_>, ImageError> {
        let Some((_, section)) = &self.annotations else {
            return Image::parse(&self.bytes, self.debug_bytes());
        };
        let mut image = self.image_without_annotations()?;
        image.annotate(section);
        Ok(image)
    }

    /// What the file says of its code but for annotations.
    ///
    /// # Errors
    /// As for [`Loaded::image`].
    pub fn image_without_annotations(&self) -> Result<Image<'_>, ImageError> {
        Image::parse_unannotated(&self.bytes, self.debug_bytes())
    }

    fn find_debug_file(&mut self, roots: &[PathBuf]) {
        let Ok(elf) = Elf::parse(&self.bytes) else { return };
        if has_dwarf(&elf) && has_symbols(&elf) {
            return;
        }
        let wanted = Identity::read(&elf);
        let (candidates, named) = debug_candidates(&self.path, &wanted, roots);
        let belongs = |bytes: &[u8]| check_debug_file(&wanted, bytes);
        self.debug = first_that_belongs(candidates, belongs, &mut self.notes);
        if let (None, Some(name)) = (&self.debug, named) {
            self.notes
                .push(format!("{name}: the debug file that {} names was not found", self.path.display()));
        }
    }

    fn find_supplement(&mut self, roots: &[PathBuf]) {
        let mut holders = vec![(&self.path, Elf::parse(&self.bytes))];
        holders.extend(self.debug.iter().map(|(path, bytes)| (path, Elf::parse_debug(bytes))));
        let holder = holders.into_iter().find_map(|(path, elf)| Some((path, elf.ok().filter(has_dwarf)?)));
        let Some((path, elf)) = holder else { return };
        if elf.section(".debug_sup").is_some() {
            self.notes
                .push(format!("{}: its supplement is that of DWARF 5, which is not read", path.display()));
        }
        let Some(link) = elf.section(".gnu_debugaltlink") else { return };
        let Some(end) = link.data.iter().position(|&b| b == 0) else {
            self.notes.push(format!("{}: .gnu_debugaltlink is damaged", path.display()));
            return;
        };
        let (name, id) = (String::from_utf8_lossy(&link.data[..end]), &link.data[end + 1..]);
        let candidates = supplement_candidates(path, &name, id, roots);
        let belongs = |bytes: &[u8]| check_supplement(id, bytes);
        let missing = format!(
            "{name}: the supplement that {} names was not found, names and inlined calls may be missing",
            path.display()
        );
        self.supplement = first_that_belongs(candidates, belongs, &mut self.notes);
        if self.supplement.is_none() {
            self.notes.push(missing);
        }
    }

    fn use_annotations(&mut self, path: &Path) -> Result<(), LoadError> {
        let bytes = read_file(path)?;
        // What is wrong with the program is for others to say.
        let Ok(elf) = Elf::parse(&self.bytes) else { return Ok(()) };
        let build_id = Identity::read(&elf).build_id;
        let file = SideFile::read_of(&bytes, build_id.as_deref())
            .map_err(|source| LoadError::Annotations { path: path.to_owned(), source })?;
        self.annotations = Some((path.to_owned(), file.section.to_vec()));
        Ok(())
    }

    fn find_annotations(&mut self, roots: &[PathBuf]) {
        let Ok(elf) = Elf::parse(&self.bytes) else { return };
        if elf.section(format::SECTION).is_some() {
            return;
        }
        let build_id = Identity::read(&elf).build_id;
        let candidates = annotation_candidates(&self.path, build_id.as_deref(), roots);
        let read =
            |bytes: &[u8]| SideFile::read_of(bytes, build_id.as_deref()).map(|file| file.section.to_vec());
        let belongs = |bytes: &[u8]| read(bytes).map(|_| ()).map_err(|why| why.to_string());
        let found = first_that_belongs(candidates, belongs, &mut self.notes);
        self.annotations = found.and_then(|(path, bytes)| Some((path, read(&bytes).ok()?)));
    }
}

/// Opens a regular file for reading; a pipe or a device is not even opened.
///
/// # Errors
/// If there is no regular, readable file at `path`.
pub fn open_file(path: &Path) -> Result<File, LoadError> {
    let fault = |why| LoadError::new(path, why);
    check_kind(path, &fs::metadata(path).map_err(fault)?)?;
    let file = OpenOptions::new().read(true).custom_flags(NONBLOCKING).open(path).map_err(fault)?;
    check_kind(path, &file.metadata().map_err(fault)?)?;
    Ok(file)
}

fn read_file(path: &Path) -> Result<Vec<u8>, LoadError> {
    let fault = |why| LoadError::new(path, why);
    let mut file = open_file(path)?;
    let metadata = file.metadata().map_err(fault)?;
    let mut bytes = Vec::new();
    // The size may be a lie, as in /proc, so it is only where to begin.
    bytes
        .try_reserve_exact(usize::try_from(metadata.len()).unwrap_or(usize::MAX))
        .map_err(|_| fault(io::ErrorKind::OutOfMemory.into()))?;
    file.read_to_end(&mut bytes).map_err(fault)?;
    if bytes.is_empty() {
        return Err(LoadError::Empty { path: path.to_owned() });
    }
    Ok(bytes)
}

fn check_kind(path: &Path, metadata: &fs::Metadata) -> Result<(), LoadError> {
    let kind = metadata.file_type();
    let special = |kind| Err(LoadError::Special { path: path.to_owned(), kind });
    if kind.is_file() {
        Ok(())
    } else if kind.is_dir() {
        Err(LoadError::Directory { path: path.to_owned() })
    } else if kind.is_fifo() {
        special("a pipe")
    } else if kind.is_socket() {
        special("a socket")
    } else if kind.is_char_device() || kind.is_block_device() {
        special("a device")
    } else {
        special("of unknown kind")
    }
}

fn has_symbols(elf: &Elf<'_>) -> bool {
    elf.sections.iter().any(|s| s.kind == raw::SHT_SYMTAB.0 && !s.data.is_empty())
}

/// Paths where the debug file may be, the surest first, and the name the program itself gives it.
fn debug_candidates(path: &Path, wanted: &Identity, roots: &[PathBuf]) -> (Vec<PathBuf>, Option<String>) {
    let roots = || roots.iter().map(PathBuf::as_path).chain([Path::new(SYSTEM_ROOT)]);
    let mut found = Vec::new();
    if let Some(below) = wanted.build_id.as_deref().and_then(|id| path_of_build_id(id, "debug")) {
        found.extend(roots().map(|root| root.join(&below)));
    }
    // A path is not a name: what may follow a debug link is a file beside the program.
    let name = wanted.debug_link.as_ref().map(|(name, _)| name).filter(|name| is_plain(name));
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if let Some(name) = name {
        let beside: Vec<&Path> = [path, &real].into_iter().filter_map(Path::parent).collect();
        for dir in &beside {
            found.push(dir.join(name));
            found.push(dir.join(".debug").join(name));
        }
        if let Some(dir) = real.parent().and_then(|dir| dir.strip_prefix("/").ok()) {
            found.extend(roots().map(|root| root.join(dir).join(name)));
        }
    }
    // Its own debug link may name the program itself.
    found.retain(|candidate| fs::canonicalize(candidate).is_ok_and(|candidate| candidate != real));
    (found, name.cloned())
}

fn supplement_candidates(holder: &Path, name: &str, id: &[u8], roots: &[PathBuf]) -> Vec<PathBuf> {
    let real = fs::canonicalize(holder).unwrap_or_else(|_| holder.to_owned());
    // Relative to the file that says so, wherever links to that file lie. An absolute name stays.
    let mut found: Vec<PathBuf> = real.parent().map(|dir| dir.join(name)).into_iter().collect();
    for root in roots.iter().map(PathBuf::as_path).chain([Path::new(SYSTEM_ROOT)]) {
        if let Ok(below) = Path::new(name).strip_prefix(SYSTEM_ROOT) {
            found.push(root.join(below));
        }
        found.extend(path_of_build_id(id, "debug").map(|below| root.join(below)));
    }
    found
}

/// Beside the program, wherever links to it lie, or where debug files are.
fn annotation_candidates(path: &Path, build_id: Option<&[u8]>, roots: &[PathBuf]) -> Vec<PathBuf> {
    let beside = |program: &Path| {
        let mut name = program.file_name()?.to_owned();
        name.push(ANNOTATIONS);
        Some(program.with_file_name(name))
    };
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut found: Vec<PathBuf> = [path, &real].into_iter().filter_map(beside).collect();
    if let Some(below) = build_id.and_then(|id| path_of_build_id(id, &ANNOTATIONS[1..])) {
        found.extend(
            roots.iter().map(PathBuf::as_path).chain([Path::new(SYSTEM_ROOT)]).map(|root| root.join(&below)),
        );
    }
    found
}

/// `.build-id/xx/yyyy….debug`, or whatever kind of file it is.
fn path_of_build_id(id: &[u8], kind: &str) -> Option<PathBuf> {
    let (first, rest) = id.split_first().filter(|(_, rest)| !rest.is_empty())?;
    Some(PathBuf::from(format!(".build-id/{first:02x}/{}.{kind}", hex(rest))))
}

fn is_plain(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(part)), None) if part == name)
}

fn first_that_belongs(
    candidates: Vec<PathBuf>,
    belongs: impl Fn(&[u8]) -> Result<(), String>,
    notes: &mut Vec<String>,
) -> Option<(PathBuf, Vec<u8>)> {
    let mut tried: Vec<PathBuf> = Vec::new();
    for candidate in candidates {
        // The same folder under two names is looked into once.
        let real = fs::canonicalize(&candidate).unwrap_or_else(|_| candidate.clone());
        if tried.contains(&real) {
            continue;
        }
        tried.push(real);
        match read_file(&candidate) {
            Ok(bytes) => match belongs(&bytes) {
                Ok(()) => return Some((candidate, bytes)),
                Err(why) => notes.push(format!("{}: {why}; not used", candidate.display())),
            },
            Err(LoadError::Missing { .. }) => {}
            Err(why) => notes.push(format!("{why}; not used")),
        }
    }
    None
}

/// Whether `bytes` are the debug file of the build in question. The build-id decides where both
/// sides have one: the checksum of a debug file changes when a tool rewrites it, its build does not.
fn check_debug_file(wanted: &Identity, bytes: &[u8]) -> Result<(), String> {
    let elf = Elf::parse_debug(bytes).map_err(|why| why.to_string())?;
    match (&wanted.build_id, &Identity::read(&elf).build_id, &wanted.debug_link) {
        (Some(ours), Some(theirs), _) if ours == theirs => {}
        (Some(ours), Some(theirs), _) => {
            return Err(format!("belongs to build {}, not {}", hex(theirs), hex(ours)));
        }
        (_, _, Some((_, ours))) => {
            let theirs = crc32fast::hash(bytes);
            if *ours != theirs {
                return Err(format!("its checksum is {theirs:#010x}, not {ours:#010x}"));
            }
        }
        _ => return Err("it has no build-id that could be checked".to_string()),
    }
    if has_dwarf(&elf) || has_symbols(&elf) {
        Ok(())
    } else {
        Err("it has neither symbols nor debug information".to_string())
    }
}

fn check_supplement(wanted: &[u8], bytes: &[u8]) -> Result<(), String> {
    let id = Supplement::parse(bytes).and_then(|file| file.build_id()).map_err(|why| why.to_string())?;
    match id {
        Some(id) if id == wanted => Ok(()),
        Some(id) => Err(format!("belongs to build {}, not {}", hex(id), hex(wanted))),
        None => Err("it has no build-id that could be checked".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_are_told_apart() {
        let error = |kind: io::ErrorKind| LoadError::new(Path::new("/x"), kind.into());
        assert!(matches!(error(io::ErrorKind::NotFound), LoadError::Missing { .. }));
        assert!(matches!(error(io::ErrorKind::NotADirectory), LoadError::Missing { .. }));
        assert!(matches!(error(io::ErrorKind::IsADirectory), LoadError::Directory { .. }));
        assert!(matches!(error(io::ErrorKind::PermissionDenied), LoadError::Forbidden { .. }));
        assert!(matches!(error(io::ErrorKind::TimedOut), LoadError::Unreadable { .. }));
        assert_eq!(error(io::ErrorKind::PermissionDenied).to_string(), "/x: permission denied");
        assert_eq!(error(io::ErrorKind::PermissionDenied).path(), Path::new("/x"));
    }

    #[test]
    fn a_debug_link_is_a_name_not_a_path() {
        assert!(is_plain("prog.debug"));
        for path in ["", ".", "..", "../prog", "/prog", "a/b", "a/"] {
            assert!(!is_plain(path), "{path}");
        }
    }

    #[test]
    fn build_ids_name_files() {
        let path = path_of_build_id(&[0xab, 0x01, 0xff], "debug");
        assert_eq!(path.as_deref(), Some(Path::new(".build-id/ab/01ff.debug")));
        assert_eq!(path_of_build_id(&[0xab], "debug"), None);
        assert_eq!(path_of_build_id(&[], "debug"), None);
    }
}
