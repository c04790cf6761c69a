//! The y of the rows, and the path of every arrow.
//!
//! Arrows run straight down (or back up) through the rows and turn only in the channels between them. What a net needs
//! in a channel is a wire: one horizontal track with branches to points above and below. Tracks are chosen so that
//! wires do not touch and cross seldom.

use super::nets::{CORNER, End, Grid, Net, PORT_GAP, fan_outs, label_at_arrival};
use super::{Graph, Layout, Link, Point, Rect, Route};

/// Distance of two tracks.
const TRACK: f64 = 9.0;
/// Room above the first track, and below the last one, where the arrow head is.
const ABOVE_TRACKS: f64 = 12.0;
const BELOW_TRACKS: f64 = 18.0;
/// Room for a line of labels.
const LABEL_HEIGHT: f64 = 13.0;
/// Distance of a label from its line.
const LABEL_GAP: f64 = 4.0;
/// Room around the drawing.
const MARGIN: f64 = 8.0;

/// Turns columns into a drawing.
pub(super) fn run(graph: &Graph, grid: &Grid, nets: &[Net], x: &[f64]) -> Layout {
    let ports = Ports::choose(graph, grid, nets, x);
    let mut channels = channels(graph, grid, nets, x, &ports);
    channels.iter_mut().for_each(Channel::assign_tracks);
    let rows = stack_rows(graph, grid, &channels);
    let sketch = Sketch { graph, grid, nets, x, ports: &ports, channels: &channels, rows: &rows };
    framed(graph, sketch.boxes(), sketch.routes())
}

/// Where arrows leave and enter boxes.
struct Ports {
    /// By link.
    leave: Vec<f64>,
    /// By net.
    enter: Vec<f64>,
}

/// A line that wants to touch the edge of a box.
struct Wish {
    /// What is to be placed: a link or a net.
    index: usize,
    /// Lines to the left side, down, and to the right side, in this order.
    side: i8,
    /// Where the line comes from or goes to.
    x: f64,
    /// Room it needs on its right.
    room: f64,
}

impl Wish {
    /// Lines that turn back round the box nest: the closest lane gets the outermost port.
    fn key(&self) -> (i8, f64) {
        (self.side, if self.side == 0 { self.x } else { -self.x })
    }
}

impl Ports {
    fn choose(graph: &Graph, grid: &Grid, nets: &[Net], x: &[f64]) -> Self {
        let mut net_of = vec![0; graph.links.len()];
        for (index, net) in nets.iter().enumerate() {
            net.links.iter().for_each(|&link| net_of[link] = index);
        }
        let mut leaving = vec![Vec::new(); graph.sizes.len()];
        let mut entering = leaving.clone();
        // By net, so that two lines between the same boxes have the same order at both ends.
        for (index, net) in nets.iter().enumerate() {
            entering[net.to].push(index);
            net.links.iter().for_each(|&link| leaving[graph.links[link].from].push(link));
        }
        let fan = fan_outs(graph);
        let mut ports =
            Self { leave: graph.links.iter().map(|link| x[link.from]).collect(), enter: nets.iter().map(|net| x[net.to]).collect() };
        // Each end would like to be straight below the other; nearly always both agree after a few rounds.
        for _ in 0..4 {
            for (node, links) in leaving.iter().enumerate() {
                let wishes = links.iter().map(|&link| {
                    let net = &nets[net_of[link]];
                    let row = grid.slots[node].row;
                    let lane = net.lane(if net.back { row } else { row + 1 }).map(|lane| x[lane]);
                    let goal = lane.unwrap_or(ports.enter[net_of[link]]);
                    let labelled = !label_at_arrival(net, fan[node]);
                    let room = if labelled { graph.links[link].label_width } else { 0.0 };
                    Wish { index: link, side: side(net, goal, x[node]), x: goal, room }
                });
                let placed = spread(wishes.collect(), x[node], grid.slots[node].right);
                placed.into_iter().for_each(|(link, port)| ports.leave[link] = port);
            }
            for (node, entering) in entering.iter().enumerate() {
                let wishes = entering.iter().map(|&index| {
                    let net = &nets[index];
                    let lane = if net.back { net.lanes.first() } else { net.lanes.last() };
                    let goal = lane.map_or_else(|| middle(net, &ports.leave), |&lane| x[lane]);
                    let link = net.links[0];
                    let labelled = net.lanes.is_empty() && label_at_arrival(net, fan[graph.links[link].from]);
                    let room = if labelled { graph.links[link].label_width } else { 0.0 };
                    Wish { index, side: side(net, goal, x[node]), x: goal, room }
                });
                let placed = spread(wishes.collect(), x[node], grid.slots[node].right);
                placed.into_iter().for_each(|(net, port)| ports.enter[net] = port);
            }
        }
        ports
    }
}

/// The side of a box at which a net turns round it; 0 if it does not turn.
fn side(net: &Net, lane: f64, centre: f64) -> i8 {
    match (net.back, lane < centre) {
        (false, _) => 0,
        (true, true) => -1,
        (true, false) => 1,
    }
}

/// The middle one of the places where the arrows of a net leave.
fn middle(net: &Net, leave: &[f64]) -> f64 {
    let mut all: Vec<f64> = net.links.iter().map(|&link| leave[link]).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
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

/// Places lines at the edge of a box, apart from one another and as close as can be to where they wish to be.
///
/// With the gaps subtracted this is a regression to an ascending sequence, solved by pooling adjacent violators.
fn spread(mut wishes: Vec<Wish>, centre: f64, half: f64) -> Vec<(usize, f64)> {
    wishes.sort_by(|a, b| a.key().0.cmp(&b.key().0).then(a.key().1.total_cmp(&b.key().1)));
    let Some((_, but_last)) = wishes.split_last() else { return Vec::new() };
    let usable = 2.0 * (half - CORNER).max(0.0);
    let wanted: f64 = but_last.iter().map(|wish| PORT_GAP + wish.room).sum();
    let scale = if wanted > usable { usable / wanted } else { 1.0 };
    let wanted = wanted * scale;
    let low = centre - usable / 2.0;
    let high = low + usable - wanted;

    let mut offset = 0.0;
    let mut pools: Vec<Pool> = Vec::new();
    let mut offsets = Vec::with_capacity(wishes.len());
    for wish in &wishes {
        // A line that cannot be straight leaves half-way between the middle and the corner, a single one in the middle,
        // and makes way for those that can.
        let aside = if but_last.is_empty() { 0.0 } else { half / 2.0 };
        let straight = (wish.x - centre).abs() <= usable / 2.0;
        let goal = if straight { wish.x } else { centre + (wish.x - centre).signum() * aside };
        let mut pool = Pool { mean: goal - offset, weight: if straight { 1000.0 } else { 1.0 }, size: 1 };
        while let Some(before) = pools.pop_if(|before| before.mean >= pool.mean) {
            pool = before.merged(&pool);
        }
        pools.push(pool);
        offsets.push(offset);
        offset += (PORT_GAP + wish.room) * scale;
    }
    let fitted = pools.iter().flat_map(|pool| std::iter::repeat_n(pool.mean.min(high).max(low), pool.size));
    fitted.zip(offsets).zip(wishes).map(|((x, offset), wish)| (wish.index, (x + offset).round())).collect()
}

/// What a net draws in a channel.
struct Wire {
    net: usize,
    /// Where it comes from the row above and from the row below.
    tops: Vec<f64>,
    bottoms: Vec<f64>,
    low: f64,
    high: f64,
    /// Counted from the top of the channel.
    track: usize,
}

/// The room between two rows.
#[derive(Default)]
struct Channel {
    wires: Vec<Wire>,
    tracks: usize,
    /// Whether labels stand in it at the top and at the bottom.
    labels_above: bool,
    labels_below: bool,
}

/// Collects the wires of each channel.
fn channels(graph: &Graph, grid: &Grid, nets: &[Net], x: &[f64], ports: &Ports) -> Vec<Channel> {
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

    /// How bad it is to have `self` on a track above `other`: the number of crossings, with a penalty where a branch
    /// of one would run on top of a branch of the other.
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
        let bent: Vec<usize> = (0..self.wires.len()).filter(|&wire| !self.wires[wire].is_straight()).collect();
        let order = if bent.len() <= MANY_WIRES { self.order_by_cost(bent) } else { self.order_by_slope(bent) };
        let thorough = order.len() <= MANY_WIRES;
        let mut tracks: Vec<Vec<usize>> = Vec::new();
        for &wire in &order {
            let this = &self.wires[wire];
            let mut first = 0;
            if thorough {
                for (track, others) in tracks.iter().enumerate() {
                    let must_be_below = |&&other: &&usize| {
                        let other = &self.wires[other];
                        other.meets(this) && other.cost_above(this) < this.cost_above(other)
                    };
                    if others.iter().any(|other| must_be_below(&other)) {
                        first = track + 1;
                    }
                }
            }
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
            if !above.meets(below) { 0 } else { above.cost_above(below).saturating_sub(below.cost_above(above)) }
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

    /// The order that is right for wires with two ends: of those leading right the rightmost on top, and the reverse.
    fn order_by_slope(&self, mut wires: Vec<usize>) -> Vec<usize> {
        let key = |wire: usize| {
            let wire = &self.wires[wire];
            let leads_right = wire.tops.first().is_some_and(|&top| top == wire.low);
            if leads_right { -wire.low } else { wire.low }
        };
        wires.sort_by(|&a, &b| key(a).total_cmp(&key(b)));
        wires
    }

    fn track_y(&self, top: f64, track: usize) -> f64 {
        top + ABOVE_TRACKS + if self.labels_above { LABEL_HEIGHT } else { 0.0 } + track as f64 * TRACK
    }

    fn height(&self) -> f64 {
        if self.wires.is_empty() {
            return 0.0;
        }
        self.track_y(0.0, self.tracks) + BELOW_TRACKS + if self.labels_below { LABEL_HEIGHT } else { 0.0 }
    }
}

/// Top of a row, and of the channel below it.
#[derive(Clone, Copy)]
struct Row {
    top: f64,
    bottom: f64,
}

fn stack_rows(graph: &Graph, grid: &Grid, channels: &[Channel]) -> Vec<Row> {
    let mut y = 0.0;
    let mut rows = Vec::with_capacity(grid.rows.len());
    for (row, channel) in grid.rows.iter().zip(channels) {
        let heights = row.iter().filter_map(|&slot| graph.sizes.get(slot)).map(|size| size.height);
        let bottom = y + heights.fold(0.0, f64::max);
        rows.push(Row { top: y, bottom });
        y = bottom + channel.height();
    }
    rows
}

/// Everything known, from which paths are read off.
struct Sketch<'a> {
    graph: &'a Graph,
    grid: &'a Grid,
    nets: &'a [Net],
    x: &'a [f64],
    ports: &'a Ports,
    channels: &'a [Channel],
    rows: &'a [Row],
}

impl Sketch<'_> {
    fn boxes(&self) -> Vec<Rect> {
        let place = |(node, size): (usize, &super::Size)| {
            let slot = &self.grid.slots[node];
            Rect {
                x: self.x[node] - slot.left,
                y: self.rows[slot.row].top,
                width: slot.left + slot.right,
                height: size.height,
            }
        };
        self.graph.sizes.iter().enumerate().map(place).collect()
    }

    fn routes(&self) -> Vec<Route> {
        let mut routes = vec![Route::default(); self.graph.links.len()];
        // Tracks by net: a net has at most one wire in a channel, and channels come in order.
        let mut tracks: Vec<Vec<f64>> = vec![Vec::new(); self.nets.len()];
        for (row, channel) in self.rows.iter().zip(self.channels) {
            for wire in &channel.wires {
                tracks[wire.net].push(channel.track_y(row.bottom, wire.track));
            }
        }
        let fan = fan_outs(self.graph);
        for (index, net) in self.nets.iter().enumerate() {
            let track = |channel: usize| tracks[index][channel - net.first_channel];
            for &link in &net.links {
                let points = self.path(index, link, track);
                let label = self.label(net, link, &points, fan[self.graph.links[link].from]);
                routes[link] = Route { points, back: net.back, label };
            }
        }
        routes
    }

    fn path(&self, index: usize, link: usize, track: impl Fn(usize) -> f64) -> Vec<Point> {
        let net = &self.nets[index];
        let from = self.graph.links[link].from;
        let (source, target) = (self.grid.slots[from].row, self.grid.slots[net.to].row);
        let enter = self.ports.enter[index];
        let lane = |row: usize| net.lane(row).map(|lane| self.x[lane]);

        let mut x = self.ports.leave[link];
        let mut points = vec![Point { x, y: self.rows[source].top + self.graph.sizes[from].height }];
        let mut turn = |channel: usize, to: f64| {
            if to != x {
                let y = track(channel);
                points.extend([Point { x, y }, Point { x: to, y }]);
                x = to;
            }
        };
        if net.is_direct() {
            // The end is all there is to it.
        } else if net.back {
            for row in (target..=source).rev() {
                turn(row, lane(row).unwrap_or(enter));
            }
            turn(target - 1, enter);
        } else {
            for row in source..target {
                turn(row, lane(row + 1).unwrap_or(enter));
            }
        }
        points.push(Point { x: enter, y: self.rows[target].top });
        points
    }

    fn label(&self, net: &Net, link: usize, points: &[Point], fan_out: usize) -> Point {
        let row = self.grid.slots[self.graph.links[link].from].row;
        if label_at_arrival(net, fan_out) {
            let x = net.lane(row + 1).map_or(points[points.len() - 1].x, |lane| self.x[lane]);
            Point { x: x + LABEL_GAP, y: self.rows[row + 1].top - BELOW_TRACKS / 2.0 }
        } else {
            Point { x: points[0].x + LABEL_GAP, y: points[0].y + LABEL_HEIGHT }
        }
    }
}

/// The drawing moved to the origin, with a margin.
fn framed(graph: &Graph, boxes: Vec<Rect>, routes: Vec<Route>) -> Layout {
    let corners = boxes.iter().flat_map(|b| [Point { x: b.x, y: b.y }, Point { x: b.x + b.width, y: b.y + b.height }]);
    let turns = routes.iter().flat_map(|route| route.points.iter().copied());
    let label_end = |(route, link): (&Route, &Link)| Point { x: route.label.x + link.label_width, ..route.label };
    let labels = routes.iter().zip(&graph.links).map(label_end);
    let all: Vec<Point> = corners.chain(turns).chain(labels).collect();
    let low = Point {
        x: all.iter().map(|p| p.x).fold(f64::MAX, f64::min) - MARGIN,
        y: all.iter().map(|p| p.y).fold(f64::MAX, f64::min) - MARGIN,
    };
    let high = Point {
        x: all.iter().map(|p| p.x).fold(f64::MIN, f64::max) + MARGIN,
        y: all.iter().map(|p| p.y).fold(f64::MIN, f64::max) + MARGIN,
    };
    let shift = |p: Point| Point { x: p.x - low.x, y: p.y - low.y };
    let moved = |b: Rect| Rect { x: b.x - low.x, y: b.y - low.y, ..b };
    Layout {
        width: high.x - low.x,
        height: high.y - low.y,
        boxes: boxes.into_iter().map(moved).collect(),
        routes: routes
            .into_iter()
            .map(|route| Route {
                points: route.points.into_iter().map(shift).collect(),
                back: route.back,
                label: shift(route.label),
            })
            .collect(),
    }
}
