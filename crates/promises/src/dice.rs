//! Numbers that look random and are the same every time.

/// A sequence of numbers (xorshift64).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The sequence that belongs to `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // Spread out, so that neighbours differ from the first roll on; and never zero.
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `sides`, which is not zero.
    pub fn roll(&mut self, sides: usize) -> usize {
        // The low bits of the sequence are its worst.
        ((self.number() >> 16) % sides as u64) as usize
    }

    /// Whether something with a chance of one in `sides` happens.
    pub fn once_in(&mut self, sides: usize) -> bool {
        self.roll(sides) == 0
    }

    /// One of `choices`, which are not none.
    pub fn pick<'c, T>(&mut self, choices: &'c [T]) -> &'c T {
        &choices[self.roll(choices.len())]
    }
}
