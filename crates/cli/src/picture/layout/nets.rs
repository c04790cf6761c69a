//! Lines shared by arrows, and the lanes they need in the rows they pass.
//!
//! All arrows of one bundle that enter the same box form a net, drawn as a trunk with branches. A common
//! clean-up block then has one line along the function instead of fifty, and following any branch still leads
//! to the one target, so nothing becomes ambiguous.

use super::Graph;
use super::layers::Layers;
use std::collections::BTreeMap;

/// Arrows drawn as one line with branches.
pub(super) struct Net {
    pub(super) to: usize,
    /// Whether it leads back up.
    pub(super) back: bool,
    /// The links of the graph in it; never empty.
    pub(super) links: Vec<usize>,
    /// Row of the first lane.
    first_row: usize,
    /// The slots through which the trunk passes, in consecutive rows downwards. A net that leads down has
    /// lanes in the rows between its ends; one that leads back has them also beside its ends, to get round
    /// them.
    pub(super) lanes: Vec<usize>,
    /// First channel in which it is found.
    pub(super) first_channel: usize,
    /// What it connects in each of consecutive channels. Empty for a net that is drawn as a straight line,
    /// across everything: see [`LANE_BUDGET`].
    pub(super) joints: Vec<Joint>,
}

/// What a net connects in a channel.
#[derive(Clone, Default)]
pub(super) struct Joint {
    pub(super) above: Vec<End>,
    pub(super) below: Vec<End>,
}

/// A point where a line comes into a channel.
#[derive(Clone, Copy)]
pub(super) enum End {
    /// The lane that is this slot.
    Lane(usize),
    /// Where this link leaves its box.
    Leave(usize),
    /// Where the net enters its box.
    Enter,
}

impl Net {
    /// The lane in `row`, if the trunk passes it.
    pub(super) fn lane(&self, row: usize) -> Option<usize> {
        self.lanes.get(row.checked_sub(self.first_row)?).copied()
    }

    /// Whether it is drawn as a straight line.
    pub(super) fn is_direct(&self) -> bool {
        self.joints.is_empty()
    }
}

/// What a slot holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Box,
    Lane,
}

/// A place in a row.
pub(super) struct Slot {
    pub(super) kind: Kind,
    pub(super) row: usize,
    /// Room needed to the left and to the right of the x that is to be found.
    pub(super) left: f64,
    pub(super) right: f64,
    /// Slots in the rows above and below to which a straight line would be welcome.
    pub(super) up: Vec<usize>,
    pub(super) down: Vec<usize>,
}

/// The rows of slots. The first slots are the boxes, under their own numbers. The channel `n` is the room
/// below the row `n`; the first and the last row are empty, so that there are channels above and below all
/// boxes.
pub(super) struct Grid {
    pub(super) slots: Vec<Slot>,
    pub(super) rows: Vec<Vec<usize>>,
}

impl Grid {
    fn add(&mut self, kind: Kind, row: usize, half: f64) -> usize {
        self.slots.push(Slot { kind, row, left: half, right: half, up: Vec::new(), down: Vec::new() });
        self.rows[row].push(self.slots.len() - 1);
        self.slots.len() - 1
    }

    fn tie(&mut self, upper: usize, lower: usize) {
        self.slots[upper].down.push(lower);
        self.slots[lower].up.push(upper);
    }

    /// The place of each slot within its row.
    pub(super) fn places(&self) -> Vec<usize> {
        let mut places = vec![0; self.slots.len()];
        for row in &self.rows {
            row.iter().enumerate().for_each(|(place, &slot)| places[slot] = place);
        }
        places
    }
}

/// Least distance between two lines at the edge of a box.
pub(super) const PORT_GAP: f64 = 14.0;
/// Distance kept between lines and the corners of a box.
pub(super) const CORNER: f64 = 12.0;
/// Half the room of a lane.
const LANE: f64 = 5.0;
/// A box is not widened beyond this for its ports: the ports then move closer.
const WIDEST_FOR_PORTS: f64 = 420.0;
/// Lanes in all. Real functions stay far below; a graph of thousands of boxes connected at random would need
/// millions, so its longest arrows go without and are drawn straight across.
const LANE_BUDGET: usize = 150_000;

/// Whether the label of the only link of `net` stands where its line arrives in the next row instead of where
/// it leaves its box: below a switch there is no room for twenty labels, above its cases there is.
pub(super) fn label_at_arrival(net: &Net, fan_out: usize) -> bool {
    fan_out > 2 && net.links.len() == 1 && !net.back && !net.is_direct()
}

/// Number of lines leaving each box.
pub(super) fn fan_outs(graph: &Graph) -> Vec<usize> {
    let mut fan = vec![0; graph.sizes.len()];
    graph.links.iter().for_each(|link| fan[link.from] += 1);
    fan
}

/// Sorts links into nets, and gives boxes and lanes their slots.
pub(super) fn weave(graph: &Graph, layers: &Layers) -> (Grid, Vec<Net>) {
    let depth = layers.layer.iter().max().map_or(0, |deepest| deepest + 3);
    let mut grid = Grid { slots: Vec::new(), rows: vec![Vec::new(); depth] };
    for &layer in &layers.layer {
        grid.add(Kind::Box, layer + 1, 0.0);
    }
    let mut nets = nets(graph, layers);
    let mut by_length: Vec<usize> = (0..nets.len()).collect();
    by_length.sort_by_key(|&net| rows_passed(graph, &grid, &nets[net]).len());
    let mut lanes = 0;
    for index in by_length {
        let net = &mut nets[index];
        let rows = rows_passed(graph, &grid, net);
        lanes += rows.len();
        if lanes <= LANE_BUDGET {
            net.first_row = rows.start;
            net.lanes = rows.map(|row| grid.add(Kind::Lane, row, LANE)).collect();
            join(graph, &grid, net);
        }
    }

    let fan = fan_outs(graph);
    for net in &nets {
        tie(&mut grid, graph, net, &fan);
    }
    for (node, room) in room_for_ports(graph, &nets, &fan).into_iter().enumerate() {
        let half = (graph.sizes[node].width.max(room) / 2.0).ceil();
        grid.slots[node].left = half;
        grid.slots[node].right = half;
    }
    (grid, nets)
}

fn nets(graph: &Graph, layers: &Layers) -> Vec<Net> {
    let mut by_key: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (index, (link, &back)) in graph.links.iter().zip(&layers.back).enumerate() {
        by_key.entry((link.to, back, link.bundle)).or_default().push(index);
    }
    let net = |((to, back, _), links)| Net {
        to,
        back,
        links,
        first_row: 0,
        lanes: Vec::new(),
        first_channel: 0,
        joints: Vec::new(),
    };
    by_key.into_iter().map(net).collect()
}

/// The rows in which a net needs lanes.
fn rows_passed(graph: &Graph, grid: &Grid, net: &Net) -> std::ops::Range<usize> {
    let target = grid.slots[net.to].row;
    let sources = net.links.iter().map(|&link| grid.slots[graph.links[link].from].row);
    if net.back {
        target..sources.max().unwrap_or(target) + 1
    } else {
        sources.min().unwrap_or(target) + 1..target
    }
}

/// Finds out what a net connects in the channels.
fn join(graph: &Graph, grid: &Grid, net: &mut Net) {
    let target = grid.slots[net.to].row;
    let passed = rows_passed(graph, grid, net);
    net.first_channel = passed.start - 1;
    let mut joints = vec![Joint::default(); passed.len() + 1];
    for (index, &lane) in net.lanes.iter().enumerate() {
        joints[index].below.push(End::Lane(lane));
        joints[index + 1].above.push(End::Lane(lane));
    }
    joints[target - 1 - net.first_channel].below.push(End::Enter);
    for &link in &net.links {
        let row = grid.slots[graph.links[link].from].row;
        joints[row - net.first_channel].above.push(End::Leave(link));
    }
    net.joints = joints;
}

/// Ties slots that would best be straight below one another. A net that turns back ties its own lanes only.
fn tie(grid: &mut Grid, graph: &Graph, net: &Net, fan: &[usize]) {
    for pair in net.lanes.windows(2) {
        grid.tie(pair[0], pair[1]);
    }
    if net.back || net.is_direct() {
        return;
    }
    for &link in &net.links {
        let link = &graph.links[link];
        let lane = net.lane(grid.slots[link.from].row + 1);
        grid.tie(link.from, lane.unwrap_or(net.to));
        if let Some(lane) = lane
            && label_at_arrival(net, fan[link.from])
        {
            grid.slots[lane].right += link.label_width;
        }
    }
    if let Some(&last) = net.lanes.last() {
        grid.tie(last, net.to);
    }
}

/// The width each box needs for the lines at its top and bottom.
fn room_for_ports(graph: &Graph, nets: &[Net], fan: &[usize]) -> Vec<f64> {
    let mut top = vec![0.0; graph.sizes.len()];
    let mut bottom = top.clone();
    for net in nets {
        top[net.to] += PORT_GAP;
        for &link in &net.links {
            let link = &graph.links[link];
            let at_arrival = label_at_arrival(net, fan[link.from]);
            bottom[link.from] += PORT_GAP + if at_arrival { 0.0 } else { link.label_width };
            if at_arrival && net.lanes.is_empty() {
                top[net.to] += link.label_width;
            }
        }
    }
    let both = top.iter().zip(&bottom);
    both.map(|(&top, &bottom)| (f64::max(top, bottom) - PORT_GAP + 2.0 * CORNER).min(WIDEST_FOR_PORTS))
        .collect()
}
