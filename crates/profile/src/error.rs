//! What can be wrong with a profile.

/// Why a profile cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// It does not begin like one.
    #[error("not a profile")]
    NotAProfile,
    /// A later version of this tool wrote it.
    #[error("a profile of version {found}; this tool reads version {known}")]
    Version {
        /// The version it has.
        found: u32,
        /// The version that can be read.
        known: u32,
    },
    /// Something in it is wrong.
    #[error("damaged: {place}: {damage}")]
    Damaged {
        /// Which part of the file.
        place: String,
        /// What is wrong there.
        damage: Damage,
    },
    /// The file system says no.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// What is wrong with a damaged profile.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    /// It is shorter than it says.
    #[error("the file ends in the middle of it")]
    CutShort,
    /// A value contradicts another.
    #[error("{0}")]
    Contradiction(String),
    /// It cannot be unpacked.
    #[error("cannot be unpacked: {0}")]
    Compression(std::io::Error),
    /// It unpacks to more than any writer would have packed.
    #[error("unpacks to more than {limit} bytes")]
    TooLarge {
        /// How much it may unpack to.
        limit: u64,
    },
    /// It is no message.
    #[error("{0}")]
    Message(#[from] prost::DecodeError),
}

impl ProfileError {
    /// Something wrong in that part of the file.
    pub(crate) fn damaged(place: impl Into<String>, damage: impl Into<Damage>) -> Self {
        Self::Damaged { place: place.into(), damage: damage.into() }
    }
}

impl From<String> for Damage {
    fn from(contradiction: String) -> Self {
        Self::Contradiction(contradiction)
    }
}

impl From<&str> for Damage {
    fn from(contradiction: &str) -> Self {
        Self::Contradiction(contradiction.to_string())
    }
}
