//! Jumps in the old code that lead to the new.
//!
//! The old code of a moved function is dead but for the places others know by address: its entries, and
//! the labels of computed jumps. Each gets a jump, five bytes long; where the next such place is too near,
//! two bytes that jump to five free ones close by.

use relive_code::addr::{AddrRange, LinkAddr};

/// A jump to be written at `at`. If `via` is set, a short jump goes there, and the long one lies there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Detour {
    /// The place others know.
    pub place: LinkAddr,
    /// Where the jump is written: at the place, or behind the mark that indirect branches land on.
    pub at: LinkAddr,
    /// Where the long jump is, if not there.
    pub via: Option<LinkAddr>,
}

const LONG: u64 = 5;
const SHORT: u64 = 2;
/// `endbr64`.
const MARK: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// Finds room for a detour at each of `places` (sorted, different) inside `dead`, the stretches of old code
/// that nobody needs (sorted). `None` if there is no room.
#[must_use]
pub fn plan(
    places: &[LinkAddr],
    dead: &[AddrRange],
    bytes: impl Fn(LinkAddr) -> [u8; 4],
) -> Option<Vec<Detour>> {
    let mut detours = Vec::new();
    let mut taken: Vec<AddrRange> = Vec::new();
    let mut cramped = Vec::new();
    for (i, &place) in places.iter().enumerate() {
        let range = dead.iter().find(|range| range.contains(place))?;
        let limit = places.get(i + 1).map_or(range.end, |&next| next.min(range.end));
        let marked = bytes(place) == MARK;
        let at = if marked && limit.since(place) >= 4 + LONG { place.offset(4) } else { place };
        let room = limit.since(at);
        if room >= LONG {
            detours.push(Detour { place, at, via: None });
            taken.push(AddrRange::sized(at, LONG));
        } else if room >= SHORT {
            cramped.push(detours.len());
            detours.push(Detour { place, at, via: None });
            taken.push(AddrRange::sized(at, SHORT));
        } else {
            return None;
        }
        if at != place {
            taken.push(AddrRange::sized(place, 4));
        }
    }
    for i in cramped {
        let at = detours[i].at;
        let spot = free_near(at, dead, &taken)?;
        taken.push(AddrRange::sized(spot, LONG));
        detours[i].via = Some(spot);
    }
    Some(detours)
}

/// Five free bytes that a short jump at `at` reaches.
fn free_near(at: LinkAddr, dead: &[AddrRange], taken: &[AddrRange]) -> Option<LinkAddr> {
    let from = at.0 + SHORT;
    (from.saturating_sub(128)..from + 128).map(LinkAddr).find(|&spot| {
        let range = AddrRange::sized(spot, LONG);
        dead.iter().any(|d| d.start <= range.start && range.end <= d.end)
            && !taken.iter().any(|t| t.overlaps(&range))
    })
}

impl Detour {
    /// The bytes to write, and where, if the jump is to lead to `to`.
    #[must_use]
    pub fn patches(&self, to: LinkAddr) -> Vec<(LinkAddr, Vec<u8>)> {
        let long = |at: LinkAddr| {
            let distance = to.0.wrapping_sub(at.0 + LONG) as u32;
            let mut bytes = vec![0xe9];
            bytes.extend(distance.to_le_bytes());
            (at, bytes)
        };
        match self.via {
            None => vec![long(self.at)],
            Some(via) => {
                let distance = via.0.wrapping_sub(self.at.0 + SHORT) as u8;
                vec![(self.at, vec![0xeb, distance]), long(via)]
            }
        }
    }

    /// The bytes it keeps from being filled.
    #[must_use]
    pub fn keeps(&self) -> Vec<AddrRange> {
        let mut kept = vec![AddrRange::new(self.place, self.at)];
        match self.via {
            None => kept.push(AddrRange::sized(self.at, LONG)),
            Some(via) => kept.extend([AddrRange::sized(self.at, SHORT), AddrRange::sized(via, LONG)]),
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(at: &[u64]) -> Vec<LinkAddr> {
        at.iter().copied().map(LinkAddr).collect()
    }

    #[test]
    fn cramped_places_borrow_room() {
        let dead = [AddrRange::new(LinkAddr(0x100), LinkAddr(0x140))];
        let plan = plan(&places(&[0x100, 0x103]), &dead, |_| [0; 4]).expect("room");
        assert_eq!(plan[0].via, Some(LinkAddr(0x108)));
        assert_eq!(plan[1].via, None);
        let patches = plan[0].patches(LinkAddr(0x9000));
        assert_eq!(patches[0], (LinkAddr(0x100), vec![0xeb, 0x06]));
        assert_eq!(patches[1].0, LinkAddr(0x108));
    }

    #[test]
    fn no_room_is_said() {
        let dead = [AddrRange::new(LinkAddr(0x100), LinkAddr(0x104))];
        assert_eq!(plan(&places(&[0x100]), &dead, |_| [0; 4]), None);
        assert_eq!(plan(&places(&[0x100, 0x101]), &dead, |_| [0; 4]), None);
    }

    #[test]
    fn the_mark_stays() {
        let dead = [AddrRange::new(LinkAddr(0x100), LinkAddr(0x120))];
        let plan = plan(&places(&[0x100]), &dead, |_| MARK).expect("room");
        assert_eq!(plan[0].at, LinkAddr(0x104));
    }
}
