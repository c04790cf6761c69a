//! The profile as a file: found, checked, made; and found again later.

use core::mem::MaybeUninit;

use relive_abi::rprof::{FileHeader, MAGIC};

use super::facts::Facts;
use super::message;
use super::pattern;
use super::state::{PATH_MAX, State};
use super::syscall::{self, EEXIST, EFBIG, EINVAL, EIO, ENAMETOOLONG, ENOENT, Errno, Identity};
use super::text::as_c;

const FLAGS: u32 = syscall::O_RDWR | syscall::O_NOCTTY | syscall::O_NONBLOCK;

/// Why there is no profile: what was tried, and the error.
pub(crate) struct Failure(pub(crate) &'static [u8], pub(crate) Errno);

/// Opens the profile at the path in `state`, makes it if it is not there; if the path is taken by something
/// else, does that beside it and changes the path.
pub(crate) fn open(facts: &Facts, state: &mut State) -> Result<(), Failure> {
    match open_or_make(facts, state)? {
        Content::Ours => return Ok(()),
        Content::OtherBuild => go_beside(facts, state, b" belongs to another build")?,
        Content::Other => go_beside(facts, state, b" is not a profile")?,
    }
    match open_or_make(facts, state)? {
        Content::Ours => Ok(()),
        _ => Err(Failure(b"taken as well: ", EEXIST)),
    }
}

fn go_beside(facts: &Facts, state: &mut State, why: &[u8]) -> Result<(), Failure> {
    let checksum = facts.header().checksum;
    let (path, len) = (&state.path, state.path_len);
    let path = path.get(..len).unwrap_or(&[]);
    let len = pattern::beside(path, checksum, &mut state.scratch)
        .ok_or(Failure(b"not ours, and beside it: ", ENAMETOOLONG))?;
    message::foreign(path, why, state.scratch.get(..len).unwrap_or(&[]));
    state.path = state.scratch;
    state.path_len = len;
    Ok(())
}

/// What a file is.
enum Content {
    Ours,
    OtherBuild,
    Other,
}

fn open_or_make(facts: &Facts, state: &mut State) -> Result<Content, Failure> {
    let fd = match syscall::open(as_c(&state.path), FLAGS, 0) {
        Err(ENOENT) => {
            make(facts, state).map_err(|error| Failure(b"cannot be created: ", error))?;
            syscall::open(as_c(&state.path), FLAGS, 0)
        }
        other => other,
    }
    .map_err(|error| Failure(b"cannot be opened: ", error))?;
    match check(facts, fd) {
        Ok((Content::Ours, identity)) => {
            state.identity = identity;
            state.descriptor = move_up(fd);
            Ok(Content::Ours)
        }
        Ok((other, _)) => {
            syscall::close(fd);
            Ok(other)
        }
        Err(failure) => {
            syscall::close(fd);
            Err(failure)
        }
    }
}

fn check(facts: &Facts, fd: i32) -> Result<(Content, Identity), Failure> {
    let (identity, regular, len) = syscall::fstat(fd).map_err(|error| Failure(b"", error))?;
    if !regular {
        return Err(Failure(b"not a regular file: ", EINVAL));
    }
    let mut header = MaybeUninit::<FileHeader>::zeroed();
    // SAFETY: any bytes are a header.
    let header = unsafe {
        let bytes =
            core::slice::from_raw_parts_mut(header.as_mut_ptr().cast::<u8>(), size_of::<FileHeader>());
        if syscall::pread(fd, bytes, 0).map_err(|error| Failure(b"cannot be read: ", error))? != bytes.len() {
            return Ok((Content::Other, identity));
        }
        header.assume_init()
    };
    let ours = facts.header();
    let content = if header.magic != MAGIC {
        Content::Other
    } else if header.version == ours.version
        && header.checksum == ours.checksum
        && header.slots_offset == ours.slots_offset
        && header.slot == ours.slot
        && header.build_id_len == ours.build_id_len
        && header.build_id == ours.build_id
        && len >= ours.slots_offset
    {
        Content::Ours
    } else {
        Content::OtherBuild
    };
    Ok((content, identity))
}

/// Writes a new profile under a name of its own and then gives it its name, so that nobody sees half a file.
fn make(facts: &Facts, state: &mut State) -> Result<(), Errno> {
    let bytes = facts.file();
    if facts.header().slots_offset + facts.slot_len() > syscall::limit(syscall::RLIMIT_FSIZE) {
        return Err(EFBIG);
    }
    let mut attempts = 0;
    let fd = loop {
        let salt = syscall::now().1;
        let path = state.path.get(..state.path_len).unwrap_or(&[]);
        pattern::temporary(path, syscall::getpid(), salt, &mut state.scratch).ok_or(ENAMETOOLONG)?;
        let flags = syscall::O_WRONLY | syscall::O_CREAT | syscall::O_EXCL;
        match syscall::open(as_c(&state.scratch), flags, 0o666) {
            Err(EEXIST) if attempts < 16 => attempts += 1,
            other => break other?,
        }
    };
    let temporary = as_c(&state.scratch);
    let result = write_all(fd, bytes).and_then(|()| {
        let path = as_c(&state.path);
        match syscall::link(temporary, path) {
            Ok(()) | Err(EEXIST) => Ok(()),
            // File systems without links.
            Err(error) => match syscall::rename_new(temporary, path) {
                Ok(()) | Err(EEXIST) => Ok(()),
                Err(_) => Err(error),
            },
        }
    });
    syscall::close(fd);
    syscall::unlink(temporary);
    result
}

fn write_all(fd: i32, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match syscall::write(fd, bytes) {
            Ok(0) => return Err(EIO),
            Ok(len) => bytes = bytes.get(len..).unwrap_or(&[]),
            Err(syscall::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Moves a descriptor out of the way: programs close, count and number the low ones.
fn move_up(fd: i32) -> i32 {
    let limit = syscall::limit(syscall::RLIMIT_NOFILE);
    for least in [1000, limit.saturating_sub(32), limit.saturating_sub(128)] {
        if least > 64
            && let Ok(high) = syscall::duplicate(fd, least)
        {
            syscall::close(fd);
            return high;
        }
    }
    fd
}

/// Whether the descriptor is still the one of the profile.
pub(crate) fn is_kept(state: &State) -> bool {
    state.descriptor >= 0
        && syscall::fstat(state.descriptor).is_ok_and(|(identity, ..)| identity == state.identity)
}

/// Sees to it that there is a descriptor of the profile.
pub(crate) fn keep(state: &mut State) -> Result<(), Errno> {
    if is_kept(state) { Ok(()) } else { open_again(as_path(&state.path), state) }
}

/// Opens the profile anew, as the child of a fork must, whose locks are otherwise those of its parent.
/// Returns whether the open file is its own.
pub(crate) fn renew(state: &mut State) -> Result<bool, Errno> {
    let inherited = if is_kept(state) { state.descriptor } else { -1 };
    let mut result = open_again(as_path(&state.path), state);
    if result.is_err() && inherited >= 0 {
        let mut path = [0u8; 40];
        let mut text = super::text::Text::new(&mut path);
        text.push(b"/proc/self/fd/");
        text.push_decimal(inherited as u64);
        result = open_again(&path, state);
    }
    match result {
        Ok(()) => {
            if inherited >= 0 {
                syscall::close(inherited);
            }
            Ok(true)
        }
        Err(_) if inherited >= 0 => Ok(false),
        Err(error) => Err(error),
    }
}

/// A copy of the reference that the borrow of the rest does not see.
fn as_path(path: &[u8; PATH_MAX]) -> &'static [u8] {
    // SAFETY: the state is never freed, and nobody changes the path any more.
    unsafe { core::slice::from_raw_parts(path.as_ptr(), PATH_MAX) }
}

fn open_again(path: &[u8], state: &mut State) -> Result<(), Errno> {
    let fd = syscall::open(as_c(path), FLAGS, 0)?;
    match syscall::fstat(fd) {
        Ok((identity, ..)) if identity == state.identity => {
            state.descriptor = move_up(fd);
            Ok(())
        }
        _ => {
            syscall::close(fd);
            Err(ENOENT)
        }
    }
}
