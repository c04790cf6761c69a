//! How alike two blocks are whose counts are taken to be the same.

/// How much was left out when two blocks were compared, the surest first: the levels of fuzziness of BMAT
/// (Wang, Pierce, McFarling 2000, section 3.2), and one beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// 0: all operation codes and operands are the same.
    Exact,
    /// 1: all but offsets of addresses, and which register of a class is used.
    One,
    /// 1a: as 1, of the last instruction alone.
    LastOne,
    /// 2: as 1, but for where in the function a target is.
    Two,
    /// 3: as 2, without immediate operands, and of a target only its direction.
    Three,
    /// 3a: as 3, of the last instruction alone.
    LastThree,
    /// 4: operation codes and kinds of operands.
    Four,
    /// 5: groups of operation codes.
    Five,
    /// s: the contents are similar and so are the neighbours. Not one of BMAT's.
    Similar,
}

impl Level {
    /// All of them, the surest first.
    pub const ALL: [Self; 9] = [
        Self::Exact,
        Self::One,
        Self::LastOne,
        Self::Two,
        Self::Three,
        Self::LastThree,
        Self::Four,
        Self::Five,
        Self::Similar,
    ];

    /// What the paper calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "0",
            Self::One => "1",
            Self::LastOne => "1a",
            Self::Two => "2",
            Self::Three => "3",
            Self::LastThree => "3a",
            Self::Four => "4",
            Self::Five => "5",
            Self::Similar => "s",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Level;

    #[test]
    fn the_surest_comes_first() {
        assert!(Level::ALL.is_sorted());
        assert_eq!(Level::ALL.map(Level::name).join(" "), "0 1 1a 2 3 3a 4 5 s");
    }
}
