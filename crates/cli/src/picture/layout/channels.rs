//! The room between two rows, where lines turn.
//!
//! What a net draws in a channel is a wire: a horizontal track with branches to points above and below.
//! Tracks are chosen so that wires do not touch and seldom cross.

use super::Graph;
use super::nets::{End, Grid, Net, fan_outs, label_at_arrival};
use super::ports::Ports;

/// Distance of two tracks.
const TRACK: f64 = 9.0;
/// Room above the first track, and below the last one, where the arrow head is.
const ABOVE_TRACKS: f64 = 12.0;
pub(super) const BELOW_TRACKS: f64 = 18.0;
/// Room for a line of labels.
pub(super) const LABEL_HEIGHT: f64 = 13.0;

/// What a net draws in a channel.
pub(super) struct Wire {
    pub(super) net: usize,
    /// Where it comes from the row above and from the row below.
    tops: Vec<f64>,
    bottoms: Vec<f64>,
    low: f64,
    high: f64,
    /// Counted from the top of the channel.
    pub(super) track: usize,
}

/// The room between two rows.
#[derive(Default)]
pub(super) struct Channel {
    pub(super) wires: Vec<Wire>,
    tracks: usize,
    /// Whether labels stand in it at the top and at the bottom.
    labels_above: bool,
    labels_below: bool,
}

/// Collects the wires of each channel and gives them their tracks.
pub(super) fn fill(graph: &Graph, grid: &Grid, nets: &[Net], x: &[f64], ports: &Ports) -> Vec<Channel> {
    let mut channels: Vec<Channel> = grid.rows.iter().map(|_| Channel::default()).collect();
    for (index, net) in nets.iter().enumerate() {
        let place = |end: &End| match *end {
            End::Lane(slot) => x[slot],
            End::Leave(link) => ports.leave[link],
            End::Enter => ports.enter[index],
        };
        for (joint, channel) in net.joints.iter().zip(&mut channels[net.first_channel..]) {
            let tops: Vec<f64> = joint.above.iter().map(place).collect();
            let bottoms: Vec<f64> = joint.below.iter().map(place).collect();
            let all = || tops.iter().chain(&bottoms).copied();
            let (low, high) = (all().fold(f64::MAX, f64::min), all().fold(f64::MIN, f64::max));
            channel.wires.push(Wire { net: index, tops, bottoms, low, high, track: 0 });
        }
    }
    let fan = fan_outs(graph);
    for net in nets {
        for link in net.links.iter().map(|&link| &graph.links[link]).filter(|link| link.label_width > 0.0) {
            let channel = &mut channels[grid.slots[link.from].row];
            let at_arrival = label_at_arrival(net, fan[link.from]);
            channel.labels_below |= at_arrival;
            channel.labels_above |= !at_arrival;
        }
    }
    channels.iter_mut().for_each(Channel::assign_tracks);
    channels
}

/// Wires in a channel up to which the best order of tracks is sought pair by pair.
const MANY_WIRES: usize = 400;
/// Lines closer than this look like one.
const TOUCH: f64 = 3.0;

impl Wire {
    fn is_straight(&self) -> bool {
        self.low == self.high
    }

    fn meets(&self, other: &Self) -> bool {
        self.low - TOUCH <= other.high && other.low - TOUCH <= self.high
    }

    /// How bad it is to have `self` on a track above `other`: the number of crossings, with a penalty where a
    /// branch of one would run on top of a branch of the other.
    fn cost_above(&self, other: &Self) -> usize {
        const OVERLAP: usize = 8;
        let within = |wire: &Self, x: f64| usize::from(wire.low - TOUCH <= x && x <= wire.high + TOUCH);
        let tops = other.tops.iter().map(|&x| within(self, x));
        let bottoms = self.bottoms.iter().map(|&x| within(other, x));
        let overlaps = |&a: &f64| OVERLAP * other.tops.iter().filter(|&&b| (a - b).abs() <= TOUCH).count();
        tops.chain(bottoms).chain(self.bottoms.iter().map(overlaps)).sum()
    }
}

impl Channel {
    /// Gives every wire that is not straight a track on which it meets no other.
    fn assign_tracks(&mut self) {
        let bent: Vec<usize> =
            (0..self.wires.len()).filter(|&wire| !self.wires[wire].is_straight()).collect();
        let order =
            if bent.len() <= MANY_WIRES { self.order_by_cost(bent) } else { self.order_by_slope(bent) };
        let thorough = order.len() <= MANY_WIRES;
        let mut tracks: Vec<Vec<usize>> = Vec::new();
        for &wire in &order {
            let this = &self.wires[wire];
            let goes_above = |&other: &usize| {
                let other = &self.wires[other];
                other.meets(this) && other.cost_above(this) < this.cost_above(other)
            };
            let above = tracks.iter().rposition(|others| thorough && others.iter().any(goes_above));
            let first = above.map_or(0, |track| track + 1);
            let free = |others: &Vec<usize>| !others.iter().any(|&other| self.wires[other].meets(this));
            let track = (first..tracks.len()).find(|&track| free(&tracks[track])).unwrap_or(tracks.len());
            if track == tracks.len() {
                tracks.push(Vec::new());
            }
            tracks[track].push(wire);
            self.wires[wire].track = track;
        }
        self.tracks = tracks.len();
    }

    /// Repeatedly takes the wire that suffers least from lying above all that remain.
    fn order_by_cost(&self, mut remaining: Vec<usize>) -> Vec<usize> {
        let regret = |above: usize, below: usize| {
            let (above, below) = (&self.wires[above], &self.wires[below]);
            let worse = above.cost_above(below).saturating_sub(below.cost_above(above));
            if above.meets(below) { worse } else { 0 }
        };
        let mut regrets: Vec<usize> =
            remaining.iter().map(|&wire| remaining.iter().map(|&other| regret(wire, other)).sum()).collect();
        let mut order = Vec::with_capacity(remaining.len());
        while let Some((best, _)) = regrets.iter().enumerate().min_by_key(|&(_, &regret)| regret) {
            let wire = remaining.remove(best);
            regrets.remove(best);
            for (&other, sum) in remaining.iter().zip(&mut regrets) {
                *sum -= regret(other, wire);
            }
            order.push(wire);
        }
        order
    }

    /// The order that is right for wires with two ends: those leading right with the rightmost on top, and so
    /// on.
    fn order_by_slope(&self, mut wires: Vec<usize>) -> Vec<usize> {
        let key = |wire: usize| {
            let wire = &self.wires[wire];
            let leads_right = wire.tops.first().is_some_and(|&top| top == wire.low);
            if leads_right { -wire.low } else { wire.low }
        };
        wires.sort_by(|&a, &b| key(a).total_cmp(&key(b)));
        wires
    }

    /// The y of a track in a channel that starts at `top`.
    pub(super) fn track_y(&self, top: f64, track: usize) -> f64 {
        top + ABOVE_TRACKS + if self.labels_above { LABEL_HEIGHT } else { 0.0 } + track as f64 * TRACK
    }

    /// From the row above to the row below.
    pub(super) fn height(&self) -> f64 {
        if self.wires.is_empty() {
            return 0.0;
        }
        self.track_y(0.0, self.tracks) + BELOW_TRACKS + if self.labels_below { LABEL_HEIGHT } else { 0.0 }
    }
}
