//! Where boxes and arrows go: a layered drawing after Sugiyama, with orthogonal arrows.
//!
//! It looks as users of disassemblers expect: the entry on top, arrows leave a box at its bottom and enter
//! the next at its top, loops go back up beside their body. Each phase is a file:
//!
//! 1. [`layers`]: which arrows go back up, and the row of every box;
//! 2. [`nets`]: arrows with a common target share a line; a line that passes a row gets a lane in it;
//! 3. [`order`]: the order within the rows, for few crossings;
//! 4. [`place`]: x, for straight lines, and [`tighten`]: for short ones;
//! 5. [`route`]: y, and the path of every arrow, by [`ports`] at the boxes and [`channels`] between the rows.
//!
//! Functions of 150 blocks take some 5 ms, graphs of 5,000 boxes and 10,000 arrows 0.5 to 2.5 s: each phase
//! has a limit beyond which it makes do with a plainer result.
//!
//! Why not a crate: `rust-sugiyama` 0.4 (2.2 s for 5,000 boxes) tells where boxes go but not where the lines
//! between them can pass, so long arrows would run across boxes, and it picks back edges by a heuristic that
//! knows of no entry; `layout-rs` 0.1 did not finish a graph of 80 boxes and 157 arrows within a minute.

mod channels;
mod layers;
mod nets;
mod order;
mod place;
mod ports;
mod route;
mod simplex;
mod tighten;

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
    let mut x = place::columns(&grid);
    tighten::columns(graph, &grid, &nets, &mut x);
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

/// The place of each part: like books on shelves, in order, a shelf being about as wide as all shelves are
/// high.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn graph(sizes: &[(u16, u16)], links: &[(usize, usize, u8, bool)]) -> Graph {
        let size = |&(width, height): &(u16, u16)| Size { width: width.into(), height: height.into() };
        let mut links: Vec<_> =
            links.iter().map(|&(a, b, k, l)| (a % sizes.len(), b % sizes.len(), k, l)).collect();
        links.sort_unstable();
        links.dedup_by_key(|&mut (from, to, bundle, _)| (from, to, bundle));
        let link = |(from, to, bundle, labelled)| Link {
            from,
            to,
            bundle,
            label_width: f64::from(u8::from(labelled)) * 30.0,
        };
        Graph {
            sizes: sizes.iter().map(size).collect(),
            links: links.into_iter().map(link).collect(),
            entries: vec![0],
        }
    }

    /// Whether two rectangles share more than their edges.
    fn overlap(a: &Rect, b: &Rect) -> bool {
        a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height
    }

    fn check(graph: &Graph) {
        let layout = run(graph);
        assert_eq!(layout, run(graph), "not deterministic");
        let inside = |p: &Point| (0.0..=layout.width).contains(&p.x) && (0.0..=layout.height).contains(&p.y);
        let boxes = &layout.boxes;
        for (index, this) in boxes.iter().enumerate() {
            let end = Point { x: this.x + this.width, y: this.y + this.height };
            assert!(inside(&Point { x: this.x, y: this.y }) && inside(&end), "box {index} outside: {this:?}");
            assert!(this.width >= graph.sizes[index].width && this.height == graph.sizes[index].height);
            for (other, that) in boxes.iter().enumerate().skip(index + 1) {
                assert!(!overlap(this, that), "boxes {index} and {other} overlap: {this:?} {that:?}");
            }
        }
        for (link, route) in graph.links.iter().zip(&layout.routes) {
            let (from, to) = (&boxes[link.from], &boxes[link.to]);
            let (first, last) = (route.points[0], route.points[route.points.len() - 1]);
            assert!(first.y == from.y + from.height && from.x < first.x && first.x < from.x + from.width);
            assert!(last.y == to.y && to.x < last.x && last.x < to.x + to.width);
            assert!(route.back || from.y + from.height < to.y, "{link:?} leads up and is not marked");
            for pair in route.points.windows(2) {
                let (a, b) = (pair[0], pair[1]);
                assert!((a.x == b.x) != (a.y == b.y), "slanting or empty piece {a:?} {b:?}");
                let piece = Rect {
                    x: a.x.min(b.x),
                    y: a.y.min(b.y),
                    width: (a.x - b.x).abs(),
                    height: (a.y - b.y).abs(),
                };
                assert!(inside(&a) && inside(&b));
                assert!(!boxes.iter().any(|this| overlap(this, &piece)), "{link:?} runs across a box");
            }
        }
    }

    proptest! {
        #[test]
        fn any_graph_is_drawn_properly(
            sizes in prop::collection::vec((1_u16..300, 1_u16..200), 1..25),
            links in prop::collection::vec((0_usize..25, 0_usize..25, 0_u8..3, any::<bool>()), 0..60),
        ) {
            check(&graph(&sizes, &links));
        }
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        assert_eq!(run(&Graph::default()), Layout::default());
    }

    #[test]
    fn a_loop_lies_above_what_follows_it() {
        // 0 -> 1 (header) -> 2 -> 3 -> 1, and 1 -> 4.
        let links =
            [(0, 1, 0, false), (1, 2, 0, false), (2, 3, 0, false), (3, 1, 0, false), (1, 4, 0, false)];
        let layout = run(&graph(&[(50, 20); 5], &links));
        let y: Vec<f64> = layout.boxes.iter().map(|b| b.y).collect();
        assert!(y.is_sorted() && y[3] < y[4], "{y:?}");
        assert_eq!(layout.routes.iter().filter(|route| route.back).count(), 1);
    }

    #[test]
    fn arrows_to_one_target_share_a_line() {
        let links: Vec<_> =
            (0..9).map(|i| (i, i + 1, 0, false)).chain((0..8).map(|i| (i, 9, 1, false))).collect();
        let layout = run(&graph(&[(50, 20); 10], &links));
        let arrivals = layout.routes.iter().map(|route| route.points[route.points.len() - 1].x);
        let mut arrivals: Vec<i64> = arrivals.map(|x| x as i64).collect();
        arrivals.sort_unstable();
        arrivals.dedup();
        let at_last = layout.boxes[9];
        let near = |&&x: &&i64| (at_last.x..at_last.x + at_last.width).contains(&(x as f64));
        assert!(arrivals.iter().filter(near).count() <= 3, "{arrivals:?}");
    }

    #[test]
    fn a_huge_tangle_ends() {
        // Far more lanes than there is room for: the longest arrows are drawn straight.
        let count = 2_000;
        let chain = (0..count - 1).map(|i| (i, i + 1, 0, false));
        let jumps = (0..count).map(|i| (i, (i * 7_919 + 13) % count, 1, false));
        let layout = run(&graph(&vec![(40, 20); count], &chain.chain(jumps).collect::<Vec<_>>()));
        assert!(layout.routes.iter().all(|route| route.points.len() >= 2));
    }
}
