//! A map between the things of two builds: one to one, and not all have a partner.

/// Who belongs to whom, and how that was found out.
#[derive(Clone, Debug)]
pub(crate) struct Pairing<H> {
    of_old: Vec<Option<u32>>,
    of_new: Vec<Option<(u32, H)>>,
    matched: usize,
}

impl<H: Copy> Pairing<H> {
    pub(crate) fn new(old: usize, new: usize) -> Self {
        Self { of_old: vec![None; old], of_new: vec![None; new], matched: 0 }
    }

    /// Makes them partners, unless one of them has one.
    pub(crate) fn pair(&mut self, old: u32, new: u32, how: H) -> bool {
        let free = self.is_open(old, new);
        if free {
            self.of_old[old as usize] = Some(new);
            self.of_new[new as usize] = Some((old, how));
            self.matched += 1;
        }
        free
    }

    /// Parts the new one from its partner.
    pub(crate) fn part(&mut self, new: u32) {
        if let Some((old, _)) = self.of_new[new as usize].take() {
            self.of_old[old as usize] = None;
            self.matched -= 1;
        }
    }

    /// The partner of an old one.
    pub(crate) fn of_old(&self, old: u32) -> Option<u32> {
        self.of_old[old as usize]
    }

    /// The partner of a new one.
    pub(crate) fn of_new(&self, new: u32) -> Option<u32> {
        self.of_new[new as usize].map(|(old, _)| old)
    }

    /// Whether neither of them has a partner.
    pub(crate) fn is_open(&self, old: u32, new: u32) -> bool {
        self.of_old[old as usize].is_none() && self.of_new[new as usize].is_none()
    }

    /// All pairs by the new partner.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (u32, u32, H)> + '_ {
        (0..).zip(&self.of_new).filter_map(|(new, pair)| pair.map(|(old, how)| (old, new, how)))
    }

    /// Old ones without a partner.
    pub(crate) fn single_old(&self) -> impl Iterator<Item = u32> + '_ {
        (0..).zip(&self.of_old).filter(|(_, partner)| partner.is_none()).map(|(old, _)| old)
    }

    /// New ones without a partner.
    pub(crate) fn single_new(&self) -> impl Iterator<Item = u32> + '_ {
        (0..).zip(&self.of_new).filter(|(_, partner)| partner.is_none()).map(|(new, _)| new)
    }

    /// How many pairs there are.
    pub(crate) fn len(&self) -> usize {
        self.matched
    }
}

/// Groups by key: calls `each` with the old and the new ones of a key that both sides have, in the order of keys.
pub(crate) fn by_key(
    old: impl Iterator<Item = (u64, u32)>,
    new: impl Iterator<Item = (u64, u32)>,
    mut each: impl FnMut(&[(u64, u32)], &[(u64, u32)]),
) {
    let mut old: Vec<(u64, u32)> = old.collect();
    let mut new: Vec<(u64, u32)> = new.collect();
    old.sort_unstable();
    new.sort_unstable();
    let (mut olds, mut news) = (old.chunk_by(|a, b| a.0 == b.0), new.chunk_by(|a, b| a.0 == b.0));
    let (mut next_old, mut next_new) = (olds.next(), news.next());
    while let (Some(a), Some(b)) = (next_old, next_new) {
        match a[0].0.cmp(&b[0].0) {
            std::cmp::Ordering::Less => next_old = olds.next(),
            std::cmp::Ordering::Greater => next_new = news.next(),
            std::cmp::Ordering::Equal => {
                each(a, b);
                (next_old, next_new) = (olds.next(), news.next());
            }
        }
    }
}
