//! What references mean. Two references are the same if what they lead to has been matched; until then, by what it
//! is called or, for constants, by what it holds.

use crate::fingerprint::{Block, Fingerprint, Procedure, Reference};
use crate::levels::{index, mix};
use crate::pairing::Pairing;
use relive_profile::model::{DataKind, Level};

/// A number for each thing of a build; equal for partners. Zero if nothing is known.
pub(crate) struct Identities {
    procedures: Vec<u64>,
    data: Vec<u64>,
}

/// Identities of both builds.
pub(crate) struct Both {
    pub(crate) old: Identities,
    pub(crate) new: Identities,
}

impl Both {
    pub(crate) fn new(old: &Fingerprint<'_>, new: &Fingerprint<'_>) -> Self {
        // If one of them has lost its names, a name is no reason to tell two references apart.
        let named = |f: &Fingerprint<'_>| {
            2 * f.procedures.iter().filter(|p| p.names.is_some()).count() > f.procedures.len()
        };
        let names = named(old) && named(new);
        Self { old: of(old, names), new: of(new, names) }
    }

    /// Takes note of partners.
    pub(crate) fn update<P: Copy, D: Copy>(&mut self, procedures: &Pairing<P>, data: &Pairing<D>) {
        for (old, new, _) in procedures.pairs() {
            let id = mix(0x5eed, new.into()) | 1;
            self.old.procedures[old as usize] = id;
            self.new.procedures[new as usize] = id;
        }
        for (old, new, _) in data.pairs() {
            let id = mix(0xda7a, new.into()) | 1;
            self.old.data[old as usize] = id;
            self.new.data[new as usize] = id;
        }
    }
}

fn of(fingerprint: &Fingerprint<'_>, names: bool) -> Identities {
    Identities {
        procedures: fingerprint
            .procedures
            .iter()
            .map(|p| p.names.filter(|_| names).map_or(0, |names| names.hierarchical))
            .collect(),
        data: fingerprint
            .data
            .iter()
            .map(|d| match d.kind {
                DataKind::Text | DataKind::Literal | DataKind::Constant if d.hash != 0 => mix(d.hash, 1),
                DataKind::Import => d.name,
                _ if names => d.name,
                _ => 0,
            })
            .collect(),
    }
}

impl Identities {
    /// What a reference means.
    pub(crate) fn of(&self, reference: Reference) -> u64 {
        match reference {
            Reference::Procedure(i, offset) => match self.procedures[i as usize] {
                0 => 0,
                id => mix(id, u64::from(offset != 0)),
            },
            Reference::Data(i, offset) => match self.data[i as usize] {
                0 => 0,
                id => mix(id, offset.into()),
            },
            Reference::Import(name) => name,
            Reference::Unknown => 0,
        }
    }

    /// The hash of a block at a level, what it refers to included.
    pub(crate) fn hash(&self, procedure: &Procedure, number: u32, level: Level) -> u64 {
        let block: &Block = &procedure.blocks[number as usize];
        let references = procedure.references_of(number);
        let own = block.hashes[index(level)];
        match level {
            Level::Exact | Level::One | Level::Two => {
                references.iter().fold(own, |hash, &r| mix(hash, self.of(r)))
            }
            Level::Three => references.iter().fold(own, |hash, &r| self.called(hash, r)),
            Level::LastOne | Level::LastThree if block.last_refers => match references.last() {
                Some(&last) if level == Level::LastOne => mix(own, self.of(last)),
                Some(&last) => self.called(own, last),
                None => own,
            },
            Level::LastOne | Level::LastThree | Level::Four | Level::Five | Level::Similar => own,
        }
    }

    /// Of functions that are referred to, which.
    fn called(&self, hash: u64, reference: Reference) -> u64 {
        match reference {
            Reference::Procedure(..) | Reference::Import(_) => mix(hash, self.of(reference)),
            Reference::Data(..) | Reference::Unknown => hash,
        }
    }
}
