//! Matches data blocks: by name, by content, by what refers to them, and by what lies around them.

use crate::fingerprint::{Fingerprint, Reference};
use crate::levels::mix;
use crate::pairing::by_key;
use crate::procedures::{Search, Vote};
use relive_profile::model::{DataKind, Module, Pointer};

/// How a pair of data blocks was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum How {
    /// The same name.
    Name,
    /// The same content, once in each build.
    Content,
    /// Code or data that matched refers to them at the same place.
    Reference,
    /// They lie between data that are partners, and are about as long.
    Between,
}

impl How {
    /// A short name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Content => "content",
            Self::Reference => "reference",
            Self::Between => "between",
        }
    }
}

/// Same names, in their order where several have one.
pub(crate) fn by_name(search: &mut Search<'_>) {
    let named = |f: &Fingerprint<'_>, i: u32| {
        let data = &f.data[i as usize];
        (data.name != 0).then(|| (mix(data.name, u64::from(data.kind == DataKind::Import)), i))
    };
    let old: Vec<_> = search.data.single_old().filter_map(|i| named(search.old, i)).collect();
    let new: Vec<_> = search.data.single_new().filter_map(|i| named(search.new, i)).collect();
    let mut found = Vec::new();
    by_key(old.into_iter(), new.into_iter(), |old, new| {
        found.extend(old.iter().zip(new).map(|(old, new)| (old.1, new.1)));
    });
    for (old, new) in found {
        search.data.pair(old, new, How::Name);
    }
}

/// Same contents, if they occur once.
pub(crate) fn by_content(search: &mut Search<'_>) {
    let filled = |f: &Fingerprint<'_>, i: u32| {
        let data = &f.data[i as usize];
        (data.hash != 0 && data.name == 0).then(|| (mix(data.hash, data.kind as u64), i))
    };
    let old: Vec<_> = search.data.single_old().filter_map(|i| filled(search.old, i)).collect();
    let new: Vec<_> = search.data.single_new().filter_map(|i| filled(search.new, i)).collect();
    let mut found = Vec::new();
    by_key(old.into_iter(), new.into_iter(), |old, new| {
        if let ([(_, old)], [(_, new)]) = (old, new) {
            found.push((*old, *new));
        }
    });
    for (old, new) in found {
        search.data.pair(old, new, How::Content);
    }
}

/// Makes two blocks partners if they are of the same kind, more or less.
pub(crate) fn pair(search: &mut Search<'_>, old: u32, new: u32, how: How) -> bool {
    let (a, b) = (&search.old.data[old as usize], &search.new.data[new as usize]);
    let written = |kind: DataKind| matches!(kind, DataKind::Variable | DataKind::Zeroed);
    let fits = a.kind == b.kind || written(a.kind) && written(b.kind) || a.kind.is_text() && b.kind.is_text();
    fits && search.data.pair(old, new, how)
}

/// Whether two blocks of the same name or place may be the same although their lengths differ.
fn similar_len(a: u64, b: u64) -> bool {
    a.max(b) <= 2 * a.min(b) || a.abs_diff(b) <= 16
}

/// Blocks between two pairs of neighbours that are partners.
pub(crate) fn in_between(search: &mut Search<'_>) {
    let pairs: Vec<(u32, u32)> = search.data.pairs().map(|(old, new, _)| (old, new)).collect();
    for pair in pairs.windows(2) {
        let [(a, b), (c, d)] = *pair else { continue };
        if c <= a || c - a != d - b {
            continue;
        }
        for (old, new) in (a + 1..c).zip(b + 1..d) {
            if similar_len(search.old.data[old as usize].size, search.new.data[new as usize].size) {
                self::pair(search, old, new, How::Between);
            }
        }
    }
}

/// What pointers at the same place of partners point to. Of tables that have grown or shrunk, the beginning and the
/// end, each as far as what is known to be the same reaches.
pub(crate) fn pointer_votes(search: &Search<'_>, old: u32, new: u32, votes: &mut Vec<Vote>) {
    let olds = pointers(search.old.module(), old);
    let news = pointers(search.new.module(), new);
    let targets = |(a, b): (&Pointer, &Pointer)| (target(search.old, a.to), target(search.new, b.to));
    let mut vote = |a: Option<Reference>, b: Option<Reference>, weight: u32| {
        if let (Some(a), Some(b)) = (a, b)
            && search.is_open(a, b)
        {
            votes.push((a, b, weight));
        }
    };
    if olds.len() == news.len() {
        olds.iter().zip(news).map(targets).for_each(|(a, b)| vote(a, b, 2));
        return;
    }
    let front: Vec<_> = olds.iter().zip(news).map(targets).collect();
    let back: Vec<_> = olds.iter().rev().zip(news.iter().rev()).map(targets).collect();
    for side in [front, back] {
        let agree = side.iter().take_while(|(a, b)| search.agree(*a, *b) != Some(false)).count();
        let sure = side[..agree].iter().rposition(|(a, b)| search.agree(*a, *b) == Some(true));
        side[..sure.unwrap_or(0)].iter().for_each(|&(a, b)| vote(a, b, 1));
    }
}

/// The pointers in a data block.
fn pointers(module: &Module, block: u32) -> &[Pointer] {
    let block = &module.data[block as usize];
    let end = block.address.saturating_add(block.size);
    let first = module.pointers.partition_point(|p| p.at < block.address);
    let behind = module.pointers.partition_point(|p| p.at < end);
    &module.pointers[first..behind]
}

/// The function or data block that begins at `at`.
fn target(fingerprint: &Fingerprint<'_>, at: u64) -> Option<Reference> {
    let module = fingerprint.module();
    if let Ok(i) = module.functions.binary_search_by_key(&at, |f| f.address) {
        return Some(Reference::Procedure(i as u32, 0));
    }
    let i = module.data.binary_search_by_key(&at, |d| d.address).ok()?;
    Some(Reference::Data(i as u32, 0))
}
