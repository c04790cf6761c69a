//! Several values at once: with what a processor has for that, or one by one.

use super::encoder::ROOM;

/// How many values are looked at together.
pub(crate) const LANES: usize = 4;

/// So many of something.
pub(super) type Lanes = [u64; LANES];

/// How several values are looked at.
pub(crate) trait Wide: Copy {
    /// Takes the first so many of these values, which come behind the last ones. Keeps how far each has moved, and perhaps something behind it that
    /// has no meaning; tells a bit for each that was not expected to.
    fn step(self, values: &[u8; LANES * 8], count: usize, last: &mut Lanes, past: Past<'_>) -> u8;
}

/// How far values have moved: what is expected from one place on, and what comes from another.
pub(crate) struct Past<'a> {
    pub(super) all: &'a mut [u64; ROOM],
    pub(super) there: usize,
    pub(super) here: usize,
}

/// With what all processors have.
#[derive(Clone, Copy)]
pub(crate) struct Narrow;

impl Wide for Narrow {
    #[inline(always)]
    fn step(self, values: &[u8; LANES * 8], count: usize, last: &mut Lanes, past: Past<'_>) -> u8 {
        let mut surprises = 0;
        for (i, value) in values.as_chunks().0.iter().enumerate().take(count) {
            let value = u64::from_le_bytes(*value);
            let step = value.wrapping_sub(std::mem::replace(&mut last[i], value));
            surprises |= u8::from(step != past.all[past.there + i]) << i;
            past.all[past.here + i] = step;
        }
        surprises
    }
}

pub(crate) use avx2::Avx2;

mod avx2 {
    use super::{LANES, Lanes, Past, Wide};
    use std::arch::x86_64::{
        __m256i, _mm256_andnot_si256, _mm256_blendv_epi8, _mm256_castsi256_pd, _mm256_cmpeq_epi64,
        _mm256_cmpgt_epi64, _mm256_movemask_pd, _mm256_set_epi64x, _mm256_set1_epi64x, _mm256_sub_epi64,
    };

    /// A processor that has AVX2, and what else came with it.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx2(());

    impl Avx2 {
        /// This one, if it is.
        pub(crate) fn here() -> Option<Self> {
            let is_there = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt")
                && is_x86_feature_detected!("popcnt");
            is_there.then_some(Self(()))
        }
    }

    impl Wide for Avx2 {
        #[inline(always)]
        #[expect(unsafe_code, reason = "there is no other way to call what only some processors have")]
        fn step(self, values: &[u8; LANES * 8], count: usize, last: &mut Lanes, past: Past<'_>) -> u8 {
            let expected = past.all[past.there..].first_chunk().expect("room is left behind the last");
            // SAFETY: there is an `Avx2` only where the processor has all of it.
            let (steps, surprises) = unsafe { step(values, count, last, expected) };
            *past.all[past.here..].first_chunk_mut().expect("room is left behind the last") = steps;
            surprises
        }
    }

    /// Somebody who can be told so has to see that these are the same bytes.
    #[inline]
    #[target_feature(enable = "avx2")]
    #[expect(unsafe_code, reason = "there is no other way that leads to one instruction")]
    fn load(lanes: Lanes) -> __m256i {
        // SAFETY: any bits are words, and a vector.
        unsafe { std::mem::transmute::<Lanes, __m256i>(lanes) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    #[expect(unsafe_code, reason = "there is no other way that leads to one instruction")]
    fn lanes(vector: __m256i) -> Lanes {
        // SAFETY: as above.
        unsafe { std::mem::transmute::<__m256i, Lanes>(vector) }
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn step(values: &[u8; LANES * 8], count: usize, last: &mut Lanes, expected: &Lanes) -> (Lanes, u8) {
        let (values, _) = values.as_chunks();
        let value = load(std::array::from_fn(|i| u64::from_le_bytes(values[i])));
        let before = load(*last);
        let is_there = _mm256_cmpgt_epi64(_mm256_set1_epi64x(count as i64), _mm256_set_epi64x(3, 2, 1, 0));
        *last = lanes(_mm256_blendv_epi8(before, value, is_there));
        let step = _mm256_sub_epi64(value, before);
        let is_other = _mm256_andnot_si256(_mm256_cmpeq_epi64(step, load(*expected)), is_there);
        (lanes(step), _mm256_movemask_pd(_mm256_castsi256_pd(is_other)) as u8)
    }
}
