//! What a module knows of itself in this process.

use super::syscall::Identity;

/// The longest path, with its final zero.
pub(crate) const PATH_MAX: usize = 4096;

/// Not started: nothing is set up, what is counted goes into the first area.
pub(crate) const IDLE: u32 = 0;
/// Counts go into the profile.
pub(crate) const FILE: u32 = 1;
/// Counts go nowhere: the profile cannot be written.
pub(crate) const PRIVATE: u32 = 2;

/// What lasts over a fork.
pub(crate) struct State {
    /// [`IDLE`], [`FILE`] or [`PRIVATE`].
    pub(crate) mode: u32,
    /// A descriptor of the profile, if the program left it alone.
    pub(crate) descriptor: i32,
    /// Which file that is.
    pub(crate) identity: Identity,
    /// What does not last over a fork: a [`Wiped`].
    pub(crate) wiped: u64,
    /// The path of the profile, absolute, ends with zero.
    pub(crate) path: [u8; PATH_MAX],
    pub(crate) path_len: usize,
    /// Room for another path.
    pub(crate) scratch: [u8; PATH_MAX],
}

/// Slots that one process can use.
pub(crate) const SLOTS_MAX: u32 = 65536 - 64;

/// What a forked process begins without.
#[repr(C)]
pub(crate) struct Wiped {
    /// Whether this process is counted among the runs.
    pub(crate) counted: u64,
    /// The distance of an area that surely exists, plus one: zero if there is none yet.
    pub(crate) home: u64,
    /// Whether the open file is shared with another process, see `slot`.
    pub(crate) shared: u64,
    /// How often threads are not to try for an area of their own, since there is none to be had.
    pub(crate) patience: u64,
    reserved: [u64; 4],
    /// A bit for each slot that this process uses.
    held: [u64; SLOTS_MAX as usize / 64],
}

static mut STATE: State = State {
    mode: IDLE,
    descriptor: 0,
    identity: Identity { device: 0, inode: 0 },
    wiped: 0,
    path: [0; PATH_MAX],
    path_len: 0,
    scratch: [0; PATH_MAX],
};

/// The state, to be looked at or changed by whoever holds the lock of the registry.
#[allow(static_mut_refs)]
pub(crate) fn state() -> &'static mut State {
    // SAFETY: one thread at a time holds the lock, and nothing here keeps the reference for longer than a
    // call.
    unsafe { &mut STATE }
}

/// The mode, which whoever holds no lock may ask for too.
pub(crate) fn mode() -> u32 {
    // SAFETY: one aligned word.
    unsafe { core::ptr::read_volatile(&raw const STATE.mode) }
}

impl State {
    /// Makes the part that does not last over a fork.
    pub(crate) fn allocate(&mut self) -> Result<(), super::syscall::Errno> {
        if self.wiped == 0 {
            self.wiped = super::syscall::allocate_wiped(relive_abi::page_up(size_of::<Wiped>() as u64))?;
        }
        Ok(())
    }

    /// The part that does not last over a fork.
    pub(crate) fn wiped(&mut self) -> Option<&'static mut Wiped> {
        // SAFETY: allocated above, all zeros are a value, and only whoever holds the lock comes here.
        unsafe { (self.wiped as *mut Wiped).as_mut() }
    }

    pub(crate) fn path(&self) -> &[u8] {
        self.path.get(..self.path_len).unwrap_or(&[])
    }
}

impl Wiped {
    /// Whether this process uses a slot.
    pub(crate) fn holds(&self, slot: u32) -> bool {
        self.held.get(slot as usize / 64).is_none_or(|word| word >> (slot % 64) & 1 != 0)
    }

    /// Notes that this process uses a slot.
    pub(crate) fn hold(&mut self, slot: u32) {
        if let Some(word) = self.held.get_mut(slot as usize / 64) {
            *word |= 1 << (slot % 64);
        }
    }
}
