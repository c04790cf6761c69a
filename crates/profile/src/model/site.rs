//! Indirect calls and where they led.

use super::count::Counter;

/// The number of a call site in a slot. `Option<SiteId>` takes four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteId(Counter);

impl SiteId {
    /// The site of that number. There are at most 2³²-1.
    #[must_use]
    pub const fn new(index: u32) -> Self {
        Self(Counter::new(index))
    }

    /// Its number.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0.index()
    }
}

/// An indirect call, or jump to another function, whose targets are recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallSite {
    /// Which function it is in.
    pub function: u32,
    /// The block that ends with it.
    pub block: u32,
    /// The address of the instruction, as linked.
    pub address: u64,
    /// Where it led, by target.
    pub targets: Vec<TargetCount>,
}

/// A target of a call site and how often it was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetCount {
    /// What was called.
    pub target: Target,
    /// How often.
    pub count: u64,
}

/// Where an indirect call led.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// An address of the module itself, as linked.
    Own(u64),
    /// An address of another module.
    Foreign {
        /// Which of [`super::Module::foreign`].
        module: u32,
        /// The address, as linked.
        address: u64,
    },
    /// Code in no file: its address means nothing in the next run.
    Generated,
}

/// Another module.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Foreign {
    /// Its build-id.
    pub build_id: Vec<u8>,
    /// Its path, perhaps cut off in front.
    pub path: String,
}
