//! Tables of fixed size.

/// A table that is all zero. The length is part of the type, so that an index modulo it needs no check.
pub(crate) fn zeroed<T: Clone + Default, const N: usize>() -> Box<[T; N]> {
    vec![T::default(); N].try_into().ok().expect("as many as the type says")
}
