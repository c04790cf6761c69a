//! Where arrows touch the boxes.

use super::Graph;
use super::nets::{CORNER, Grid, Net, PORT_GAP, fan_outs, label_at_arrival};

/// Where arrows leave and enter boxes.
pub(super) struct Ports {
    /// By link.
    pub(super) leave: Vec<f64>,
    /// By net.
    pub(super) enter: Vec<f64>,
}

/// Chooses the ports, most of all for straight lines.
pub(super) fn choose(graph: &Graph, grid: &Grid, nets: &[Net], x: &[f64]) -> Ports {
    let mut net_of = vec![0; graph.links.len()];
    let mut leaving = vec![Vec::new(); graph.sizes.len()];
    let mut entering = leaving.clone();
    // By net, so that two lines between the same boxes have the same order at both ends.
    for (index, net) in nets.iter().enumerate() {
        entering[net.to].push(index);
        for &link in &net.links {
            net_of[link] = index;
            leaving[graph.links[link].from].push(link);
        }
    }
    let fan = fan_outs(graph);
    let mut ports = Ports {
        leave: graph.links.iter().map(|link| x[link.from]).collect(),
        enter: nets.iter().map(|net| x[net.to]).collect(),
    };
    // Each end would like to be straight below the other; nearly always both agree after a few rounds.
    for _ in 0..4 {
        for (node, links) in leaving.iter().enumerate() {
            let edge = Edge { centre: x[node], half: grid.slots[node].right, aside: 0.5, alone: 0.0 };
            let wishes = links.iter().map(|&link| {
                let net = &nets[net_of[link]];
                let row = grid.slots[node].row;
                let lane = net.lane(if net.back { row } else { row + 1 });
                let goal = lane.map_or(ports.enter[net_of[link]], |lane| x[lane]);
                let labelled = !label_at_arrival(net, fan[node]);
                Wish::new(link, net, goal, &edge, if labelled { graph.links[link].label_width } else { 0.0 })
            });
            for (link, port) in edge.spread(wishes.collect()) {
                ports.leave[link] = port;
            }
        }
        for (node, entering) in entering.iter().enumerate() {
            // Not the same as above, lest different lines leave a box and enter the one below it at the same
            // x.
            let edge = Edge { centre: x[node], half: grid.slots[node].right, aside: 0.4, alone: 0.1 };
            let wishes = entering.iter().map(|&index| {
                let net = &nets[index];
                let lane = if net.back { net.lanes.first() } else { net.lanes.last() };
                let goal = lane.map_or_else(|| middle(net, &ports.leave), |&lane| x[lane]);
                let link = &graph.links[net.links[0]];
                let labelled = net.lanes.is_empty() && label_at_arrival(net, fan[link.from]);
                Wish::new(index, net, goal, &edge, if labelled { link.label_width } else { 0.0 })
            });
            for (net, port) in edge.spread(wishes.collect()) {
                ports.enter[net] = port;
            }
        }
    }
    ports
}

/// The middle one of the places where the arrows of a net leave.
fn middle(net: &Net, leave: &[f64]) -> f64 {
    let mut all: Vec<f64> = net.links.iter().map(|&link| leave[link]).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// A line that wants to touch the edge of a box.
struct Wish {
    /// What is to be placed: a link or a net.
    index: usize,
    /// Lines that turn back on the left of the box, that do not turn, and that turn on its right, in this
    /// order.
    side: i8,
    /// Where the line comes from or goes to.
    x: f64,
    /// Room it needs on its right.
    room: f64,
}

impl Wish {
    fn new(index: usize, net: &Net, x: f64, edge: &Edge, room: f64) -> Self {
        let side = match (net.back, x < edge.centre) {
            (false, _) => 0,
            (true, true) => -1,
            (true, false) => 1,
        };
        Self { index, side, x, room }
    }

    /// Lines that turn back nest: the closest lane gets the outermost port.
    fn key(&self) -> f64 {
        if self.side == 0 { self.x } else { -self.x }
    }
}

/// The top or bottom edge of a box.
struct Edge {
    centre: f64,
    half: f64,
    /// Where lines go that cannot be straight, and where one does that is alone; as a share of `half`, to
    /// their side.
    aside: f64,
    alone: f64,
}

/// Lines that share what is left of their wishes after subtracting the gaps.
struct Pool {
    mean: f64,
    weight: f64,
    size: usize,
}

impl Pool {
    fn merged(&self, other: &Self) -> Self {
        let weight = self.weight + other.weight;
        let mean = (self.mean * self.weight + other.mean * other.weight) / weight;
        Self { mean, weight, size: self.size + other.size }
    }
}

impl Edge {
    /// Places lines apart from one another and as close as can be to where they wish to be.
    ///
    /// With the gaps subtracted this is a regression to an ascending sequence: pool adjacent violators.
    fn spread(&self, mut wishes: Vec<Wish>) -> Vec<(usize, f64)> {
        wishes.sort_by(|a, b| a.side.cmp(&b.side).then(a.key().total_cmp(&b.key())));
        let Some((_, but_last)) = wishes.split_last() else { return Vec::new() };
        let aside = self.half * if but_last.is_empty() { self.alone } else { self.aside };
        let usable = 2.0 * (self.half - CORNER).max(0.0);
        let wanted: f64 = but_last.iter().map(|wish| PORT_GAP + wish.room).sum();
        let scale = if wanted > usable { usable / wanted } else { 1.0 };
        let low = self.centre - usable / 2.0;
        let high = low + usable - wanted * scale;

        let mut offset = 0.0;
        let mut offsets = Vec::with_capacity(wishes.len());
        let mut pools: Vec<Pool> = Vec::new();
        for wish in &wishes {
            // What cannot be straight makes way for what can.
            let away = wish.x - self.centre;
            let straight = away.abs() <= usable / 2.0;
            let goal = if straight { wish.x } else { self.centre + away.signum() * aside };
            let weight = if straight { 1000.0 } else { 1.0 };
            let mut pool = Pool { mean: goal - offset, weight, size: 1 };
            while let Some(before) = pools.pop_if(|before| before.mean >= pool.mean) {
                pool = before.merged(&pool);
            }
            pools.push(pool);
            offsets.push(offset);
            offset += (PORT_GAP + wish.room) * scale;
        }
        let fitted =
            pools.iter().flat_map(|pool| std::iter::repeat_n(pool.mean.min(high).max(low), pool.size));
        let placed = fitted.zip(offsets).map(|(x, offset)| (x + offset).round());
        wishes.iter().map(|wish| wish.index).zip(placed).collect()
    }
}
