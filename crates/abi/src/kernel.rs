//! System calls of code that runs inside other programs, as far as it needs them: no library stands between.

#![allow(unsafe_code)]
#![allow(missing_docs, reason = "everything is named as the kernel names it")]
#![warn(clippy::undocumented_unsafe_blocks)]

use core::arch::asm;
use core::ffi::CStr;
use core::mem::MaybeUninit;

/// The number of an error, as the kernel gives it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

pub const EPERM: Errno = Errno(1);
pub const ENOENT: Errno = Errno(2);
pub const ESRCH: Errno = Errno(3);
pub const EINTR: Errno = Errno(4);
pub const EIO: Errno = Errno(5);
pub const EAGAIN: Errno = Errno(11);
pub const ENOMEM: Errno = Errno(12);
pub const EACCES: Errno = Errno(13);
pub const EFAULT: Errno = Errno(14);
pub const EEXIST: Errno = Errno(17);
pub const EINVAL: Errno = Errno(22);
pub const EFBIG: Errno = Errno(27);
pub const ENAMETOOLONG: Errno = Errno(36);
pub const ENOSYS: Errno = Errno(38);
pub const EOPNOTSUPP: Errno = Errno(95);

const READ: usize = 0;
const WRITE: usize = 1;
const CLOSE: usize = 3;
const FSTAT: usize = 5;
const MMAP: usize = 9;
const MUNMAP: usize = 11;
const RT_SIGPROCMASK: usize = 14;
const PREAD64: usize = 17;
const PWRITE64: usize = 18;
const WRITEV: usize = 20;
const MREMAP: usize = 25;
const MADVISE: usize = 28;
const GETPID: usize = 39;
const KILL: usize = 62;
const FCNTL: usize = 72;
const GETCWD: usize = 79;
const LINK: usize = 86;
const UNLINK: usize = 87;
const ARCH_PRCTL: usize = 158;
const GETTID: usize = 186;
const TKILL: usize = 200;
const MPROTECT: usize = 10;
const FUTEX: usize = 202;
const CLOCK_GETTIME: usize = 228;
const EXIT_GROUP: usize = 231;
const OPENAT: usize = 257;
const FALLOCATE: usize = 285;
const PRLIMIT64: usize = 302;
const RENAMEAT2: usize = 316;

/// A system call.
///
/// # Safety
/// What the call does to memory must be sound.
#[inline(always)]
pub unsafe fn call6(n: usize, a: [usize; 6]) -> Result<usize, Errno> {
    let result: isize;
    // SAFETY: the kernel changes rax, rcx, r11 and what the caller answers for.
    unsafe {
        asm!("syscall", inlateout("rax") n => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    if (-4095..0).contains(&result) { Err(Errno(-result as i32)) } else { Ok(result as usize) }
}

macro_rules! call {
    ($n:expr $(, $a:expr)* $(,)?) => {{
        let given = [$($a as usize),*];
        let mut all = [0usize; 6];
        let mut i = 0;
        while i < given.len() && i < 6 {
            all[i] = given[i];
            i += 1;
        }
        call6($n, all)
    }};
}

pub fn read(fd: i32, buffer: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel writes into the buffer and no further.
    unsafe { call!(READ, fd, buffer.as_mut_ptr(), buffer.len()) }
}

pub fn write(fd: i32, bytes: &[u8]) -> Result<usize, Errno> {
    // SAFETY: only reads the bytes.
    unsafe { call!(WRITE, fd, bytes.as_ptr(), bytes.len()) }
}

pub fn pread(fd: i32, buffer: &mut [u8], at: u64) -> Result<usize, Errno> {
    // SAFETY: the kernel writes into the buffer and no further.
    unsafe { call!(PREAD64, fd, buffer.as_mut_ptr(), buffer.len(), at) }
}

pub fn pwrite(fd: i32, bytes: &[u8], at: u64) -> Result<usize, Errno> {
    // SAFETY: only reads the bytes.
    unsafe { call!(PWRITE64, fd, bytes.as_ptr(), bytes.len(), at) }
}

/// Several pieces in one go.
pub fn writev(fd: i32, pieces: &[&[u8]]) -> Result<usize, Errno> {
    // SAFETY: a slice of bytes is an address and a length, as is an iovec; both are only read.
    unsafe { call!(WRITEV, fd, pieces.as_ptr(), pieces.len()) }
}

pub const O_RDONLY: u32 = 0;
pub const O_WRONLY: u32 = 1;
pub const O_RDWR: u32 = 2;
pub const O_CREAT: u32 = 0o100;
pub const O_EXCL: u32 = 0o200;
pub const O_NOCTTY: u32 = 0o400;
pub const O_NONBLOCK: u32 = 0o4000;
pub const O_CLOEXEC: u32 = 0o2_000_000;

/// Relative paths begin at the working directory.
const AT_FDCWD: i32 = -100;

pub fn open(path: &CStr, flags: u32, mode: u32) -> Result<i32, Errno> {
    // SAFETY: only reads the path.
    unsafe { call!(OPENAT, AT_FDCWD, path.as_ptr(), flags | O_CLOEXEC, mode) }.map(|fd| fd as i32)
}

pub fn close(fd: i32) {
    // SAFETY: no memory is concerned.
    let _ = unsafe { call!(CLOSE, fd) };
}

/// What `fstat` tells, as far as it matters.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Identity {
    pub device: u64,
    pub inode: u64,
}

/// Identity, whether it is a regular file, and length.
pub fn fstat(fd: i32) -> Result<(Identity, bool, u64), Errno> {
    let mut stat = MaybeUninit::<[u64; 18]>::uninit();
    // SAFETY: the structure has 144 bytes.
    unsafe { call!(FSTAT, fd, stat.as_mut_ptr()) }?;
    // SAFETY: the kernel has filled all of it.
    let [device, inode, _, mode_uid, _, _, len, ..] = unsafe { stat.assume_init() };
    Ok((Identity { device, inode }, mode_uid & 0o170_000 == 0o100_000, len))
}

/// Asks for a write lock of one byte that belongs to the open file; not granted if another open file has it.
pub fn lock_byte(fd: i32, at: u64, locked: bool) -> Result<(), Errno> {
    const F_OFD_SETLK: usize = 37;
    const F_WRLCK: u64 = 1;
    const F_UNLCK: u64 = 2;
    // short type, short whence, long start, long len, int pid
    let flock = [if locked { F_WRLCK } else { F_UNLCK }, at, 1, 0];
    // SAFETY: only reads the structure.
    unsafe { call!(FCNTL, fd, F_OFD_SETLK, flock.as_ptr()) }.map(drop)
}

/// Duplicates to a descriptor that is not lower than `least`.
pub fn duplicate(fd: i32, least: u64) -> Result<i32, Errno> {
    const F_DUPFD_CLOEXEC: usize = 1030;
    // SAFETY: no memory is concerned.
    unsafe { call!(FCNTL, fd, F_DUPFD_CLOEXEC, least) }.map(|fd| fd as i32)
}

pub fn fallocate(fd: i32, at: u64, len: u64) -> Result<(), Errno> {
    // SAFETY: no memory is concerned.
    unsafe { call!(FALLOCATE, fd, 0usize, at, len) }.map(drop)
}

/// The length of the working directory's path with its final zero.
pub fn getcwd(buffer: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel writes into the buffer and no further.
    unsafe { call!(GETCWD, buffer.as_mut_ptr(), buffer.len()) }
}

pub fn link(old: &CStr, new: &CStr) -> Result<(), Errno> {
    // SAFETY: only reads the paths.
    unsafe { call!(LINK, old.as_ptr(), new.as_ptr()) }.map(drop)
}

/// Renames unless the new name is taken.
pub fn rename_new(old: &CStr, new: &CStr) -> Result<(), Errno> {
    const RENAME_NOREPLACE: usize = 1;
    // SAFETY: only reads the paths.
    unsafe { call!(RENAMEAT2, AT_FDCWD, old.as_ptr(), AT_FDCWD, new.as_ptr(), RENAME_NOREPLACE) }.map(drop)
}

pub fn unlink(path: &CStr) {
    // SAFETY: only reads the path.
    let _ = unsafe { call!(UNLINK, path.as_ptr()) };
}

pub const PROT_NONE: u32 = 0;
pub const PROT_RW: u32 = 3;
pub const MAP_SHARED: u32 = 1;
pub const MAP_PRIVATE: u32 = 2;
pub const MAP_FIXED: u32 = 0x10;
pub const MAP_ANONYMOUS: u32 = 0x20;
pub const MAP_NORESERVE: u32 = 0x4000;
pub const MAP_FIXED_NOREPLACE: u32 = 0x10_0000;

/// # Safety
/// What is mapped over must be ours.
pub unsafe fn mmap(at: u64, len: u64, prot: u32, flags: u32, fd: i32, offset: u64) -> Result<u64, Errno> {
    // SAFETY: as the caller promises.
    unsafe { call!(MMAP, at, len, prot, flags, fd, offset) }.map(|at| at as u64)
}

/// Fresh private memory that reads as zero in the child of a fork.
pub fn allocate_wiped(len: u64) -> Result<u64, Errno> {
    // SAFETY: a new mapping replaces nothing.
    let at = unsafe { mmap(0, len, PROT_RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) }?;
    wipe_on_fork(at, len)?;
    Ok(at)
}

/// # Safety
/// The range must be ours and not be used any more.
pub unsafe fn munmap(at: u64, len: u64) {
    // SAFETY: as the caller promises.
    let _ = unsafe { call!(MUNMAP, at, len) };
}

/// Moves a mapping over another, or, if `old_len` is zero, maps the same shared memory a second time.
///
/// # Safety
/// What is at `new` must be ours.
pub unsafe fn mremap(old: u64, old_len: u64, new: u64, new_len: u64) -> Result<u64, Errno> {
    const MAYMOVE_FIXED: usize = 3;
    // SAFETY: as the caller promises.
    unsafe { call!(MREMAP, old, old_len, new_len, MAYMOVE_FIXED, new) }.map(|at| at as u64)
}

/// Private memory that reads as zero in the child of a fork.
pub fn wipe_on_fork(at: u64, len: u64) -> Result<(), Errno> {
    const MADV_WIPEONFORK: usize = 18;
    // SAFETY: changes no memory of this process.
    unsafe { call!(MADVISE, at, len, MADV_WIPEONFORK) }.map(drop)
}

/// Memory that is not written to a core file.
pub fn keep_out_of_cores(at: u64, len: u64) {
    const MADV_DONTDUMP: usize = 16;
    // SAFETY: changes no memory.
    let _ = unsafe { call!(MADVISE, at, len, MADV_DONTDUMP) };
}

/// Whether eight bytes can be read, without reading them.
pub fn is_readable(at: u64) -> bool {
    const NO_SUCH_ACTION: usize = 99;
    // SAFETY: the kernel looks at the set before it finds that it does not know what to do with it.
    at & 7 == 0 && unsafe { call!(RT_SIGPROCMASK, NO_SUCH_ACTION, at, 0usize, 8usize) } == Err(EINVAL)
}

const SIG_BLOCK: usize = 0;
const SIG_SETMASK: usize = 2;

/// Blocks all signals and says which were blocked before.
pub fn block_signals() -> u64 {
    let all = u64::MAX;
    let mut old = 0u64;
    // SAFETY: both sets have eight bytes.
    let _ = unsafe { call!(RT_SIGPROCMASK, SIG_BLOCK, &raw const all, &raw mut old, 8usize) };
    old
}

/// Undoes [`block_signals`].
pub fn restore_signals(old: u64) {
    // SAFETY: the set has eight bytes.
    let _ = unsafe { call!(RT_SIGPROCMASK, SIG_SETMASK, &raw const old, 0usize, 8usize) };
}

pub fn getpid() -> u32 {
    // SAFETY: no memory is concerned.
    unsafe { call6(GETPID, [0; 6]) }.unwrap_or(0) as u32
}

pub fn gettid() -> u32 {
    // SAFETY: no memory is concerned.
    unsafe { call6(GETTID, [0; 6]) }.unwrap_or(0) as u32
}

/// Whether a process is there.
pub fn process_exists(pid: u32) -> bool {
    // SAFETY: signal 0 is none.
    let result = unsafe { call!(KILL, pid, 0usize) };
    result != Err(ESRCH)
}

/// Tells a process that there is news of a child.
pub fn tell_of_child(pid: u32) {
    const SIGCHLD: usize = 17;
    // SAFETY: no memory is concerned.
    let _ = unsafe { call!(KILL, pid, SIGCHLD) };
}

/// Whether a thread is there, in this process or one that shares its memory.
pub fn thread_exists(tid: u32) -> bool {
    // SAFETY: signal 0 is none.
    let result = unsafe { call!(TKILL, tid, 0usize) };
    result != Err(ESRCH)
}

/// Seconds and nanoseconds since 1970.
pub fn now() -> (u64, u64) {
    let mut time = [0u64; 2];
    // SAFETY: the structure has 16 bytes.
    let _ = unsafe { call!(CLOCK_GETTIME, 0usize, time.as_mut_ptr()) };
    (time[0], time[1])
}

pub const RLIMIT_FSIZE: u32 = 1;
pub const RLIMIT_DATA: u32 = 2;
pub const RLIMIT_STACK: u32 = 3;
pub const RLIMIT_NOFILE: u32 = 7;
pub const RLIMIT_AS: u32 = 9;

/// The limit in force now.
pub fn limit(which: u32) -> u64 {
    let mut limits = [u64::MAX; 2];
    // SAFETY: the structure has 16 bytes.
    let _ = unsafe { call!(PRLIMIT64, 0usize, which, 0usize, limits.as_mut_ptr()) };
    limits[0]
}

const ARCH_SET_GS: usize = 0x1001;
const ARCH_SET_FS: usize = 0x1002;
const ARCH_GET_FS: usize = 0x1003;
const ARCH_GET_GS: usize = 0x1004;

fn segment_base(which: usize) -> u64 {
    let mut base = 0u64;
    // SAFETY: a base has eight bytes.
    let _ = unsafe { call!(ARCH_PRCTL, which, &raw mut base) };
    base
}

pub fn fs_base() -> u64 {
    segment_base(ARCH_GET_FS)
}

pub fn gs_base() -> u64 {
    segment_base(ARCH_GET_GS)
}

/// # Safety
/// Nothing may be using thread-local memory yet.
pub unsafe fn set_fs_base(base: u64) {
    // SAFETY: as the caller promises.
    let _ = unsafe { call!(ARCH_PRCTL, ARCH_SET_FS, base) };
}

/// # Safety
/// Every measured module must have an area at this distance.
pub unsafe fn set_gs_base(base: u64) -> Result<(), Errno> {
    // SAFETY: as the caller promises.
    unsafe { call!(ARCH_PRCTL, ARCH_SET_GS, base) }.map(drop)
}

/// Sleeps while the word has this value.
pub fn futex_wait(word: *const u32, value: u32) {
    const WAIT_PRIVATE: usize = 128;
    // SAFETY: the kernel only reads the word.
    let _ = unsafe { call!(FUTEX, word, WAIT_PRIVATE, value, 0usize) };
}

/// Sleeps while the word, which others share, has this value, but not longer than so many nanoseconds. Whether somebody has
/// ended it.
pub fn futex_wait_for(word: *const u32, value: u32, time: u64) -> bool {
    const WAIT: usize = 0;
    let time = [time / 1_000_000_000, time % 1_000_000_000];
    // SAFETY: the kernel only reads the word and the time.
    unsafe { call!(FUTEX, word, WAIT, value, time.as_ptr()) }.is_ok()
}

/// Changes what can be done with memory.
///
/// # Safety
/// It belongs to the caller.
pub unsafe fn mprotect(at: u64, len: u64, prot: u32) -> Result<(), Errno> {
    // SAFETY: as the caller promises.
    unsafe { call!(MPROTECT, at, len, prot) }.map(drop)
}

/// Wakes one that sleeps.
pub fn futex_wake(word: *const u32) {
    const WAKE_PRIVATE: usize = 129;
    // SAFETY: no memory is concerned.
    let _ = unsafe { call!(FUTEX, word, WAKE_PRIVATE, 1usize) };
}

pub fn exit(code: i32) -> ! {
    // SAFETY: does not return.
    let _ = unsafe { call!(EXIT_GROUP, code) };
    abort()
}

pub fn abort() -> ! {
    // SAFETY: does not return.
    unsafe { asm!("ud2", options(noreturn)) }
}
