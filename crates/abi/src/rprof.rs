//! The profile file: a header page, a description (zstd-compressed protobuf), then slots.
//!
//! A measured program never writes more than slots. Each running thread owns one slot and counts in
//! it through a shared mapping, so nothing is lost when it dies, whatever way. A slot whose owner is
//! gone is taken over by the next thread that needs one, in this process or another, and counting goes
//! on where it stopped: the profile is the sum over all slots, plus the counts the description itself
//! holds.
//!
//! Who owns a slot: whoever holds the lock of the open file description (`F_OFD_SETLK`, exclusive) on
//! the slot's first byte. The lock lives as long as a descriptor or a mapping of that open file, so a
//! program may close all its descriptors and still keep its slots, and the kernel lets go of them when
//! the process ends. Processes that share an open file after a fork tell their slots apart by
//! [`SlotHeader::owner`].

use crate::PAGE;

/// The first bytes of a profile.
pub const MAGIC: [u8; 8] = *b"RPROF\r\n\x1a";
/// The version of the layout.
pub const VERSION: u32 = 1;

/// The first page of a profile.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
    /// Zero.
    pub flags: u32,
    /// Stands for the code and for the meaning of each counter: counts add up only where it is equal.
    pub checksum: u64,
    /// Where the description begins, from the start of the file.
    pub description_offset: u64,
    /// Its length.
    pub description_len: u64,
    /// Where slots begin, a multiple of [`PAGE`]; zero if there can be none, as in a profile of several
    /// modules.
    pub slots_offset: u64,
    /// What a slot holds.
    pub slot: SlotLayout,
    /// How many bytes of `build_id` are meant.
    pub build_id_len: u32,
    /// Zero.
    pub reserved: u32,
    /// The build-id of the code that was measured; if it has none, a hash of its text.
    pub build_id: [u8; 32],
}

/// What a slot holds and where.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotLayout {
    /// Counters, each a `u64`, from [`SlotLayout::counters_offset`].
    pub counters: u32,
    /// Indirect call sites, each a [`Site`].
    pub sites: u32,
    /// Room for further targets of call sites, each a [`Overflow`]. The last ones, as many as there are call sites, are for
    /// the second target of each.
    pub overflows: u32,
    /// Room for other modules that call sites lead to, each a [`ForeignModule`].
    pub modules: u32,
}

impl SlotLayout {
    /// Where counters begin, from the start of the slot.
    #[must_use]
    pub const fn counters_offset(&self) -> u64 {
        PAGE
    }

    /// Where call sites begin.
    #[must_use]
    pub const fn sites_offset(&self) -> u64 {
        self.counters_offset() + self.counters as u64 * 8
    }

    /// Where further targets begin.
    #[must_use]
    pub const fn overflows_offset(&self) -> u64 {
        self.sites_offset() + self.sites as u64 * size_of::<Site>() as u64
    }

    /// How many further targets may be of any call site.
    #[must_use]
    pub const fn shared_overflows(&self) -> u32 {
        self.overflows.saturating_sub(self.sites)
    }

    /// Where calls are counted that code counts itself: of the target of a [`Site`] (place 0) or of the [`Overflow`]
    /// that is reserved for it.
    #[must_use]
    pub const fn count_offset(&self, site: u32, place: u32) -> u64 {
        if place == 0 {
            let at = site as u64 * size_of::<Site>() as u64;
            self.sites_offset() + at + core::mem::offset_of!(Site, count) as u64
        } else {
            let at = (self.shared_overflows() + site) as u64 * size_of::<Overflow>() as u64;
            self.overflows_offset() + at + core::mem::offset_of!(Overflow, count) as u64
        }
    }

    /// Where other modules begin.
    #[must_use]
    pub const fn modules_offset(&self) -> u64 {
        self.overflows_offset() + self.overflows as u64 * size_of::<Overflow>() as u64
    }

    /// The length of a slot, a multiple of [`PAGE`].
    #[must_use]
    pub const fn len(&self) -> u64 {
        crate::page_up(self.modules_offset() + self.modules as u64 * size_of::<ForeignModule>() as u64)
    }

    /// Whether there is nothing to count.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.counters == 0 && self.sites == 0
    }
}

/// The first page of a slot.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotHeader {
    /// Zero if nobody owns it; else the process id and, above it, the thread id of the owner. May name a
    /// process that is gone.
    pub owner: u64,
    /// How many processes began to count here.
    pub runs: u64,
    /// How many further targets are in use, without those that are for one call site only.
    pub overflows: u32,
    /// How many other modules are in use.
    pub modules: u32,
    /// What went wrong: see the `LOST_` constants.
    pub lost: u32,
    /// Zero.
    pub reserved: u32,
    /// Seconds since 1970 when the first process began to count here.
    pub first_run: u64,
    /// Seconds since 1970 when the last process began to count here.
    pub last_run: u64,
}

/// [`SlotHeader::lost`]: several threads or processes had to share this slot; counts may be too low.
pub const LOST_SHARED: u32 = 1;
/// [`SlotHeader::lost`]: no room for further targets of call sites.
pub const LOST_TARGETS: u32 = 2;

/// The first target of an indirect call site and its count.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// The target, as [`target`] says; zero if there is none yet.
    pub target: u64,
    /// Calls of it.
    pub count: u64,
}

/// A further target of an indirect call site.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overflow {
    /// Which site.
    pub site: u32,
    /// Zero.
    pub reserved: u32,
    /// The target, as [`target`] says.
    pub target: u64,
    /// Calls of it.
    pub count: u64,
}

/// A module that an indirect call led to.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignModule {
    /// How many bytes of `build_id` are meant.
    pub build_id_len: u32,
    /// How many bytes of `path` are meant.
    pub path_len: u32,
    /// Its build-id.
    pub build_id: [u8; 32],
    /// Its path, cut off in front if it is longer.
    pub path: [u8; 216],
}

/// Targets of calls, so written that they mean the same in every run: the number of the module above,
/// the address as linked below.
pub mod target {
    /// Bits of the address.
    pub const ADDRESS_BITS: u32 = 48;
    /// The measured module itself.
    pub const SELF: u64 = 0;
    /// Code in no file. Its address means nothing in the next run and is zero.
    pub const GENERATED: u64 = 0xffff;

    /// The target at `address` of module number `module`: [`SELF`], [`GENERATED`], or one more than the
    /// index into the slot's table of modules.
    #[must_use]
    pub const fn new(module: u64, address: u64) -> u64 {
        (module << ADDRESS_BITS) | (address & ((1 << ADDRESS_BITS) - 1))
    }

    /// Module number and address.
    #[must_use]
    pub const fn split(target: u64) -> (u64, u64) {
        (target >> ADDRESS_BITS, target & ((1 << ADDRESS_BITS) - 1))
    }
}

const _: () = {
    assert!(size_of::<FileHeader>() == 104);
    assert!(size_of::<SlotHeader>() == 48);
    assert!(size_of::<ForeignModule>() == 256);
};
