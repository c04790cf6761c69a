//! The y of the rows, and the path of every arrow.
//!
//! Arrows run straight down (or back up) through the rows and turn only in the channels between them.

use super::channels::{self, BELOW_TRACKS, Channel, LABEL_HEIGHT};
use super::nets::{Grid, Net, fan_outs, label_at_arrival};
use super::ports::{self, Ports};
use super::{Graph, Layout, Link, Point, Rect, Route, Size};

/// Distance of a label from its line.
const LABEL_GAP: f64 = 4.0;
/// Room around the drawing.
const MARGIN: f64 = 8.0;

/// Turns columns into a drawing.
pub(super) fn run(graph: &Graph, grid: &Grid, nets: &[Net], x: &[f64]) -> Layout {
    let ports = ports::choose(graph, grid, nets, x);
    let channels = channels::fill(graph, grid, nets, x, &ports);
    let rows = stack_rows(graph, grid, &channels);
    let sketch = Sketch { graph, grid, nets, x, ports: &ports, channels: &channels, rows: &rows };
    framed(graph, sketch.boxes(), sketch.routes())
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
        let place = |(node, size): (usize, &Size)| {
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
    let corners =
        boxes.iter().flat_map(|b| [Point { x: b.x, y: b.y }, Point { x: b.x + b.width, y: b.y + b.height }]);
    let turns = routes.iter().flat_map(|route| route.points.iter().copied());
    let label_end =
        |(route, link): (&Route, &Link)| Point { x: route.label.x + link.label_width, ..route.label };
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
