//! Instructions and registers drawn at random.

/// A source of numbers that are always the same for a seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn byte(&mut self) -> u8 {
        (self.next() >> 32) as u8
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 16) % end
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// A number near zero.
    pub(crate) fn small(&mut self, range: u64) -> u64 {
        self.below(2 * range).wrapping_sub(range)
    }
}

/// Opcodes that luck alone brings too seldom: gather, scatter, compress, expand, masked moves.
const VECTOR: [u8; 20] = [
    0x90, 0x91, 0x92, 0x93, 0xa0, 0xa1, 0xa2, 0xa3, 0x8a, 0x8b, 0x88, 0x89, 0x62, 0x63, 0x2c, 0x2d, 0x2e,
    0x2f, 0x8c, 0x8e,
];
/// Shifts and products of general registers that are encoded like those.
const GENERAL: [u8; 4] = [0xf2, 0xf5, 0xf6, 0xf7];
/// Bits in memory, the state of the processor, bytes by a mask, products, exchanges.
const LONG: [u8; 13] = [0xa3, 0xab, 0xb3, 0xbb, 0xba, 0xae, 0xc7, 0xf7, 0x01, 0xae, 0xaf, 0xc0, 0xc1];
/// Frames, the stack and memory; shifts, products, exchanges.
const SHORT: [u8; 20] = [
    0xc8, 0xff, 0x8f, 0xd7, 0xc0, 0xc1, 0xd0, 0xd1, 0xd2, 0xd3, 0xd2, 0xd3, 0xf6, 0xf7, 0x86, 0x86, 0x87,
    0x69, 0x6b, 0x99,
];

/// Bytes that are an instruction with some luck, whose operand in memory is not far from its registers or from itself.
pub(crate) fn instruction(dice: &mut Dice) -> [u8; 16] {
    let mut bytes = Vec::new();
    let mut operands = if dice.one_in(3) { dice.byte() } else { dice.byte() & 0x7f };
    let (encoding, seldom) = (dice.below(12), dice.one_in(4));
    if encoding < 8 {
        for _ in 0..2 {
            if dice.one_in(4) {
                bytes.push(
                    dice.pick(&[0x66, 0x66, 0x66, 0xf2, 0xf2, 0xf3, 0xf3, 0xf3, 0x64, 0x65, 0x67, 0xf0]),
                );
            }
        }
        if dice.one_in(2) {
            bytes.push(0x40 | dice.byte() & 0xf);
        }
    } else if dice.one_in(16) {
        bytes.push(dice.pick(&[0x64, 0x65, 0x67]));
    }
    let general = seldom && dice.one_in(3);
    let map = if seldom { 2 } else { dice.pick(&[1, 2, 2, 3]) };
    let kind = match (general, seldom) {
        (true, _) => dice.byte() & !4,
        (_, true) => dice.byte() & !3 | 1,
        _ => dice.byte(),
    };
    // No third operand.
    let kind = if !general && dice.one_in(2) { kind | 0x78 } else { kind };
    match encoding {
        0..4 => {}
        4..7 => bytes.push(0x0f),
        7 => bytes.extend([0x0f, dice.pick(&[0x38, 0x3a])]),
        8..10 => bytes.extend([0xc4, dice.byte() & 0xe0 | map, kind]),
        _ => {
            // Neither broadcast nor zeros instead of what is masked, as for most that access memory.
            let more = if dice.one_in(3) { dice.byte() } else { dice.byte() & !0x90 };
            bytes.extend([0x62, dice.byte() & 0xf0 | map, kind | 4, more]);
        }
    }
    bytes.push(match encoding {
        0..4 if seldom => dice.pick(&SHORT),
        4..8 if seldom => dice.pick(&LONG),
        8.. if general => dice.pick(&GENERAL),
        8.. if seldom => {
            operands = operands & 0x78 | 4;
            dice.pick(&VECTOR)
        }
        _ => dice.byte(),
    });
    if seldom && dice.one_in(2) {
        operands &= 0x3f;
    } else if seldom && encoding < 8 && dice.one_in(2) {
        operands |= 0xc0;
    }
    bytes.push(operands);
    let (mode, memory) = (operands >> 6, operands & 7);
    let mut without_base = mode == 0 && memory == 5;
    if mode != 3 && memory == 4 {
        bytes.push(dice.byte());
        without_base = mode == 0 && bytes[bytes.len() - 1] & 7 == 5;
    }
    if without_base || mode == 2 {
        let distance = if without_base && memory == 5 { dice.below(5000) } else { dice.small(600) };
        bytes.extend((distance as u32).to_le_bytes());
    }
    while bytes.len() < 16 {
        bytes.push(dice.byte());
    }
    bytes[..16].try_into().expect("sixteen bytes")
}

/// Registers most of which are addresses near `middle`, and some of them small.
pub(crate) fn registers(dice: &mut Dice, middle: u64) -> [u64; 16] {
    let mut all = [0; 16];
    for register in &mut all {
        *register = match dice.below(20) {
            0..11 => middle.wrapping_add(dice.small(400)),
            11..17 => dice.small(40),
            17 => dice.next() & 0xffff_ffff,
            _ => dice.next(),
        };
    }
    // Some like their operands aligned.
    if dice.one_in(4) {
        all.iter_mut().for_each(|register| *register &= !63);
    }
    // The count of repeated ones.
    if dice.one_in(2) {
        all[1] = dice.below(12);
    }
    all
}

/// A vector whose lanes are small numbers, or anything.
pub(crate) fn vector(dice: &mut Dice, lane: usize) -> [u8; 64] {
    let mut all = [0; 64];
    for part in all.chunks_mut(lane) {
        let number = if lane == 1 { dice.next() } else { dice.small(60) };
        part.copy_from_slice(&number.to_le_bytes()[..part.len()]);
    }
    // Signs, for masks.
    if dice.one_in(3) {
        all.iter_mut().skip(lane - 1).step_by(lane).for_each(|byte| *byte ^= 0x80 & (*byte).rotate_left(3));
    }
    all
}
