//! What `gcc -dA` says of the ends of blocks.
//!
//! ```text
//! # BLOCK 4, count:107374184 (estimated locally) seq:2
//! # SUCC: 5 [always]  count:7 (estimated locally) (FALLTHRU,CAN_FALLTHRU) a.c:4:128 EXIT (ABNORMAL,SIBCALL)
//! ```

/// Where control goes at the end of a block.
#[derive(Default)]
pub(super) struct Edges {
    /// Blocks, by number.
    pub to: Vec<u32>,
    /// Whether the function may be left.
    pub exits: bool,
    /// Whether control may go on behind the last instruction.
    pub falls_through: bool,
}

impl Edges {
    /// Takes in what follows `# SUCC:`.
    pub(super) fn read(&mut self, list: &[u8]) {
        self.to.clear();
        (self.exits, self.falls_through) = (false, false);
        let mut rest = list.trim_ascii();
        while let Some(&first) = rest.first() {
            // Words in brackets are one.
            let end = match first {
                b'(' => rest.iter().position(|&byte| byte == b')'),
                b'[' => rest.iter().position(|&byte| byte == b']'),
                _ => rest.iter().position(|&byte| byte == b' '),
            };
            let (word, behind) = rest.split_at(end.unwrap_or(rest.len() - 1) + 1);
            match word.trim_ascii_end() {
                b"EXIT" => self.exits = true,
                flags if first == b'(' => self.falls_through |= has_flag(flags, b"FALLTHRU"),
                word => self.to.extend(number(word)),
            }
            rest = behind.trim_ascii_start();
        }
    }
}

fn has_flag(flags: &[u8], flag: &[u8]) -> bool {
    flags[1..].split(|byte| matches!(byte, b',' | b')')).any(|part| part == flag)
}

/// No function has more blocks than this; a number above was not written by a compiler.
const MOST_BLOCKS: u32 = 1 << 24;

/// The number and the place in the function of the block that this comment announces.
pub(super) fn block(line: &[u8]) -> Option<(u32, u32)> {
    let rest = line.strip_prefix(b"# BLOCK ")?;
    let digits = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    let sequence = rest.trim_ascii_end();
    let sequence = &sequence[sequence.iter().rposition(|&byte| byte == b' ')? + 1..];
    let block = number(&rest[..digits]).filter(|&block| block < MOST_BLOCKS)?;
    Some((block, number(sequence.strip_prefix(b"seq:")?)?))
}

fn number(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u32, |sum, byte| match byte {
        b'0'..=b'9' => sum.checked_mul(10)?.checked_add(u32::from(byte - b'0')),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(list: &str) -> (Vec<u32>, bool, bool) {
        let mut edges = Edges::default();
        edges.read(list.as_bytes());
        (edges.to, edges.exits, edges.falls_through)
    }

    #[test]
    fn lists() {
        assert_eq!(read("\n"), (vec![], false, false));
        assert_eq!(read(" 11 3 (FALLTHRU)\n"), (vec![11, 3], false, true));
        assert_eq!(
            read(" EXIT [always]  count:7 (estimated locally) (ABNORMAL,SIBCALL)"),
            (vec![], true, false)
        );
        let jump =
            " 12 [always]  a.c:4:40 3 [14.3% (adjusted)]  count:153391688 (estimated locally) (CAN_FALLTHRU)";
        assert_eq!(read(jump), (vec![12, 3], false, false));
        assert_eq!(read(" 7 (EH,FALLTHRU"), (vec![7], false, true));
        assert_eq!(read(" 99999999999 ( [ )"), (vec![], false, false));
    }

    #[test]
    fn blocks() {
        assert_eq!(block(b"# BLOCK 2 seq:0\n"), Some((2, 0)));
        assert_eq!(block(b"# BLOCK 4, count:107374184 (estimated locally) seq:2\n"), Some((4, 2)));
        assert_eq!(block(b"# BLOCK 4\n"), None);
        assert_eq!(block(b"# BLOCK 4000000000 seq:0\n"), None);
        assert_eq!(block(b"# BLOCKS of text\n"), None);
    }
}
