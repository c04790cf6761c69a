//! Where boxes and arrows go: a layered drawing after Sugiyama, with orthogonal arrows.
//!
//! It looks as users of disassemblers expect: the entry on top, arrows leave a box at its bottom and enter the next
//! at its top, loops go back up beside their body. Each phase is a file:
//!
//! 1. [`layers`]: which arrows go back up, and the row of every box;
//! 2. [`nets`]: arrows with a common target share a line; a line that passes a row gets a lane in it;
//! 3. [`order`]: the order within the rows, for few crossings;
//! 4. [`place`]: x, for straight lines;
//! 5. [`route`]: y, and the path of every arrow.
//!
//! Why not a crate: `rust-sugiyama` 0.4 (MIT, 2.2 s for 5,000 boxes) places boxes but keeps the places of the dummy
//! vertices to itself, so long arrows could only be drawn straight through boxes, and it picks back edges by a
//! heuristic that knows of no entry; `layout-rs` 0.1 does not minimise the bends of long edges and draws splines.

mod layers;
mod nets;
mod order;
mod place;
mod route;
mod simplex;

/// Width and height of a box.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    pub(super) width: f64,
    pub(super) height: f64,
}

/// What is to be connected. No two links agree in `from`, `to` and `bundle`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) from: usize,
    pub(super) to: usize,
    /// Links of one bundle that enter the same box may share a line.
    pub(super) bundle: u8,
    /// Room for the label, 0 if there is none.
    pub(super) label_width: f64,
}

/// A graph to lay out.
#[derive(Clone, Debug, Default)]
pub(super) struct Graph {
    pub(super) sizes: Vec<Size>,
    pub(super) links: Vec<Link>,
    /// Boxes that belong on top.
    pub(super) entries: Vec<usize>,
}

/// A point, y growing downwards.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// Where a box went. It may have become wider than asked for, to give its arrows room.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Rect {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// The path of a link.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Route {
    /// Corners, from the bottom of one box to the top of the other; every piece is horizontal or vertical.
    pub(super) points: Vec<Point>,
    /// Whether the link goes back up.
    pub(super) back: bool,
    /// Left end of the label's base line.
    pub(super) label: Point,
}

/// A finished drawing: everything lies between the origin and `width`, `height`.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Layout {
    pub(super) width: f64,
    pub(super) height: f64,
    /// As the boxes of the graph.
    pub(super) boxes: Vec<Rect>,
    /// As the links of the graph.
    pub(super) routes: Vec<Route>,
}

/// Lays `graph` out. Parts that are not connected are laid out on their own and put side by side.
pub(super) fn run(graph: &Graph) -> Layout {
    let mut whole = Layout {
        boxes: vec![Rect::default(); graph.sizes.len()],
        routes: vec![Route::default(); graph.links.len()],
        ..Layout::default()
    };
    let parts: Vec<Part> = connected_parts(graph);
    let drawn: Vec<Layout> = parts.iter().map(|part| draw(&part.graph)).collect();
    for ((part, layout), at) in parts.iter().zip(&drawn).zip(shelves(&drawn)) {
        whole.width = whole.width.max(at.x + layout.width);
        whole.height = whole.height.max(at.y + layout.height);
        for (&node, rect) in part.nodes.iter().zip(&layout.boxes) {
            whole.boxes[node] = Rect { x: rect.x + at.x, y: rect.y + at.y, ..*rect };
        }
        for (&link, route) in part.links.iter().zip(&layout.routes) {
            let shift = |p: &Point| Point { x: p.x + at.x, y: p.y + at.y };
            whole.routes[link] = Route {
                points: route.points.iter().map(shift).collect(),
                back: route.back,
                label: shift(&route.label),
            };
        }
    }
    whole
}

/// Lays out a connected graph.
fn draw(graph: &Graph) -> Layout {
    let layers = layers::assign(graph);
    let (mut grid, nets) = nets::weave(graph, &layers);
    order::reduce_crossings(graph, &mut grid, &nets);
    let x = place::columns(graph, &grid, &nets);
    route::run(graph, &grid, &nets, &x)
}

/// A connected part of a graph, and what its boxes and links are called in the whole.
struct Part {
    graph: Graph,
    nodes: Vec<usize>,
    links: Vec<usize>,
}

/// The connected parts, those with an entry first, else in the order of their first boxes.
fn connected_parts(graph: &Graph) -> Vec<Part> {
    let count = graph.sizes.len();
    let mut neighbours = vec![Vec::new(); count];
    for link in &graph.links {
        neighbours[link.from].push(link.to);
        neighbours[link.to].push(link.from);
    }
    const UNSEEN: usize = usize::MAX;
    let mut part_of = vec![UNSEEN; count];
    let mut parts = Vec::new();
    for start in graph.entries.iter().copied().chain(0..count) {
        if part_of[start] != UNSEEN {
            continue;
        }
        part_of[start] = parts.len();
        let mut pending = vec![start];
        while let Some(node) = pending.pop() {
            for &next in &neighbours[node] {
                if part_of[next] == UNSEEN {
                    part_of[next] = parts.len();
                    pending.push(next);
                }
            }
        }
        parts.push(Part { graph: Graph::default(), nodes: Vec::new(), links: Vec::new() });
    }
    let mut name = vec![0; count];
    for node in 0..count {
        let part = &mut parts[part_of[node]];
        name[node] = part.nodes.len();
        part.nodes.push(node);
        part.graph.sizes.push(graph.sizes[node]);
    }
    for &entry in &graph.entries {
        parts[part_of[entry]].graph.entries.push(name[entry]);
    }
    for (index, link) in graph.links.iter().enumerate() {
        let part = &mut parts[part_of[link.from]];
        part.links.push(index);
        part.graph.links.push(Link { from: name[link.from], to: name[link.to], ..*link });
    }
    parts
}

/// Room between unconnected parts.
const PART_GAP: f64 = 40.0;

/// The place of each part: like books on shelves, in order, a shelf being about as wide as all shelves are high.
fn shelves(parts: &[Layout]) -> Vec<Point> {
    let area: f64 = parts.iter().map(|p| (p.width + PART_GAP) * (p.height + PART_GAP)).sum();
    let widest = parts.iter().map(|p| p.width).fold(0.0, f64::max);
    let shelf_width = widest.max(area.sqrt() * 1.3);
    let mut at = Point::default();
    let mut shelf_height = 0.0_f64;
    let mut places = Vec::with_capacity(parts.len());
    for part in parts {
        if at.x > 0.0 && at.x + part.width > shelf_width {
            at = Point { x: 0.0, y: at.y + shelf_height + PART_GAP };
            shelf_height = 0.0;
        }
        places.push(at);
        at.x += part.width + PART_GAP;
        shelf_height = shelf_height.max(part.height);
    }
    places
}
