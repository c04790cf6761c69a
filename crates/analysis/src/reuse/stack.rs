//! Blocks of memory in the order in which they were last touched, and how many were touched later than one of them.
//!
//! Every touch has a number. A bit is set for each number that is the last of its block; how many bits are set behind a number
//! is the distance. Bits are summed up in a tree (Fenwick's) over pieces of 512, so that short distances take a few words and long
//! ones a few additions. When the numbers run out, those that are still in use are given out anew.

use crate::map::Map;

/// Blocks whose last touches are kept together.
const TOGETHER: u64 = 64;
/// Bits that make one number of the tree.
const PIECE: usize = 512;
/// Words of such a piece.
const WORDS: usize = PIECE / 64;
/// So many words are counted one by one before the tree is asked.
const NEAR: usize = 4 * WORDS;
/// So many groups are remembered where they are.
const REMEMBERED: usize = 1 << 10;

/// Blocks in the order of their last touch.
pub(super) struct Stack {
    /// Where the last touches of a group are.
    groups: Map<u64, u32>,
    recent: Vec<(u64, u32)>,
    /// The last touch of each block, plus one; 0 for none.
    times: Vec<[u32; TOGETHER as usize]>,
    /// The next number.
    now: usize,
    bits: Vec<u64>,
    tree: Vec<u32>,
    /// How many blocks there are.
    blocks: u64,
}

impl Default for Stack {
    fn default() -> Self {
        Self {
            groups: Map::default(),
            recent: vec![(u64::MAX, 0); REMEMBERED],
            times: Vec::new(),
            now: 0,
            bits: vec![0; 1 << 10],
            tree: vec![0; (1 << 10) / WORDS + 1],
            blocks: 0,
        }
    }
}

impl Stack {
    /// Touches a block. How many others were touched since the last time; none if there was no last time.
    #[inline]
    pub(super) fn touch(&mut self, block: u64) -> Option<u64> {
        if self.now == self.bits.len() * 64 {
            self.renumber();
        }
        let now = self.now;
        let time = self.time(block);
        let last = std::mem::replace(time, now as u32 + 1);
        self.now += 1;
        let distance = (last != 0).then(|| self.forget(last as usize - 1));
        self.set(now);
        distance
    }

    /// Takes a block out. How many were touched since it was; none if it is not there.
    pub(super) fn remove(&mut self, block: u64) -> Option<u64> {
        let last = std::mem::take(self.time(block));
        (last != 0).then(|| self.forget(last as usize - 1))
    }

    /// All blocks, in the order of their last touch.
    pub(super) fn in_order(&self) -> Vec<u64> {
        let mut blocks: Vec<(u32, u64)> = Vec::with_capacity(self.blocks as usize);
        for (&group, &index) in &self.groups {
            let times = self.times[index as usize].iter().zip(group * TOGETHER..);
            blocks.extend(times.filter(|(time, _)| **time != 0).map(|(&time, block)| (time, block)));
        }
        blocks.sort_unstable();
        blocks.into_iter().map(|(_, block)| block).collect()
    }

    #[inline]
    fn time(&mut self, block: u64) -> &mut u32 {
        let (group, within) = (block / TOGETHER, block % TOGETHER);
        let recent = &mut self.recent[group as usize % REMEMBERED];
        if recent.0 != group {
            let times = &mut self.times;
            let index = *self.groups.entry(group).or_insert_with(|| {
                times.push([0; TOGETHER as usize]);
                times.len() as u32 - 1
            });
            *recent = (group, index);
        }
        &mut self.times[recent.1 as usize][within as usize]
    }

    /// Takes a number out. How many behind it are still there.
    #[inline]
    fn forget(&mut self, time: usize) -> u64 {
        let (word, bit) = (time / 64, time % 64);
        self.bits[word] &= !(1 << bit);
        self.blocks -= 1;
        let end = self.now.div_ceil(64);
        // Shifted twice, as all 64 bits may have to go.
        let mut behind = u64::from((self.bits[word] >> bit >> 1).count_ones());
        if end - word <= NEAR {
            behind +=
                self.bits[word + 1..end.max(word + 1)].iter().map(|w| u64::from(w.count_ones())).sum::<u64>();
            self.add(word / WORDS, u32::MAX);
        } else {
            let piece = word / WORDS;
            let rest = word + 1..(piece + 1) * WORDS;
            behind += self.bits[rest].iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
            self.add(piece, u32::MAX);
            behind += self.blocks - self.up_to(piece);
        }
        behind
    }

    #[inline]
    fn set(&mut self, time: usize) {
        self.bits[time / 64] |= 1 << (time % 64);
        self.blocks += 1;
        self.add(time / PIECE, 1);
    }

    /// Adds to the number of a piece; `u32::MAX` takes one off.
    #[inline]
    fn add(&mut self, piece: usize, by: u32) {
        let mut at = piece + 1;
        while at < self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add(by);
            at += at & at.wrapping_neg();
        }
    }

    /// How many are in a piece and those before it.
    #[inline]
    fn up_to(&self, piece: usize) -> u64 {
        let mut at = piece + 1;
        let mut sum = 0;
        while at > 0 {
            sum += u64::from(self.tree[at]);
            at &= at - 1;
        }
        sum
    }

    #[cold]
    fn renumber(&mut self) {
        // How many numbers in use come before each word.
        let mut before = Vec::with_capacity(self.bits.len());
        let mut sum = 0;
        for word in &self.bits {
            before.push(sum);
            sum += word.count_ones();
        }
        for time in self.times.iter_mut().flatten().filter(|time| **time != 0) {
            let (word, bit) = ((*time - 1) as usize / 64, (*time - 1) % 64);
            *time = before[word] + (self.bits[word] & ((1 << bit) - 1)).count_ones() + 1;
        }
        self.now = sum as usize;
        // At least as many again can come.
        let words = (self.now / 64 * 2 + WORDS).next_power_of_two().max(self.bits.len());
        self.bits.clear();
        self.bits.resize(words, 0);
        self.tree.clear();
        self.tree.resize(words / WORDS + 1, 0);
        for time in (0..self.now).step_by(64) {
            self.bits[time / 64] =
                if self.now - time >= 64 { u64::MAX } else { (1 << (self.now - time)) - 1 };
        }
        for piece in 0..words / WORDS {
            let count = self.now.saturating_sub(piece * PIECE).min(PIECE);
            self.add(piece, count as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The list itself.
    #[derive(Default)]
    struct List(Vec<u64>);

    impl List {
        fn remove(&mut self, block: u64) -> Option<u64> {
            let at = self.0.iter().position(|&other| other == block)?;
            self.0.remove(at);
            Some((self.0.len() - at) as u64)
        }

        fn touch(&mut self, block: u64) -> Option<u64> {
            let distance = self.remove(block);
            self.0.push(block);
            distance
        }
    }

    proptest! {
        #[test]
        fn as_a_list_tells(touches in prop::collection::vec((0u64..3000, 0u8..20), 0..3000)) {
            let (mut stack, mut list) = (Stack::default(), List::default());
            for &(block, what) in &touches {
                let block = block * block / 700;
                if what == 0 {
                    prop_assert_eq!(stack.remove(block), list.remove(block));
                } else {
                    prop_assert_eq!(stack.touch(block), list.touch(block));
                }
            }
            prop_assert_eq!(stack.in_order(), list.0);
        }
    }

    #[test]
    fn far_and_for_long() {
        let (mut stack, mut list) = (Stack::default(), List::default());
        let mut seed = 1u64;
        for i in 0..150_000u64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let block = if i % 3 == 0 { i % 6000 } else { (seed >> 33) % 3000 };
            // The list is slow.
            if i % 5 == 0 || !(8000..149_000).contains(&i) {
                assert_eq!(stack.touch(block), list.touch(block), "{i}");
            }
        }
        assert_eq!(stack.in_order(), list.0);
    }
}
