//! A picture laid out, as numbers: for a page that draws it when it is looked at.
//!
//! A drawing as SVG is ten times as long, and a page may hold thousands.

use super::Picture;
use super::layout::{self, Point};
use super::svg::{self, ADVANCE, FONT, LINE, PAD, SMALL, WIDEST_LINE};
use serde::Serialize;

/// What the layout took for granted: whoever draws has to use the same.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Metrics {
    font: f64,
    line: f64,
    advance: f64,
    small: f64,
    pad: f64,
    widest: usize,
}

/// See [`Metrics`].
pub(crate) const METRICS: Metrics =
    Metrics { font: FONT, line: LINE, advance: ADVANCE, small: SMALL, pad: PAD, widest: WIDEST_LINE };

/// A picture laid out. Texts are left to whoever draws.
#[derive(Serialize)]
pub(crate) struct LaidOut {
    width: i64,
    height: i64,
    /// x, y, width and height of each box, one after the other.
    boxes: Vec<i64>,
    /// Of each arrow: where from and to, its place in [`super::ArrowKind::ALL`] and 8 more if it goes back up, where its
    /// label begins (0, 0 if it has none), where it begins itself, and then how far it goes down, to the right, down, and so on.
    arrows: Vec<Vec<i64>>,
}

/// Lays `picture` out.
pub(super) fn lay_out(picture: &Picture) -> LaidOut {
    let strokes = svg::strokes(picture);
    let layout = layout::run(&svg::graph(picture, &strokes));
    let arrows = strokes.iter().zip(&layout.routes).map(|(stroke, route)| {
        let label = if stroke.label.is_empty() { Point::default() } else { route.label };
        let kind = stroke.kind as i64 + if route.back { 8 } else { 0 };
        let mut arrow = vec![stroke.from as i64, stroke.to as i64, kind, whole(label.x), whole(label.y)];
        arrow.extend(path(&route.points));
        arrow
    });
    LaidOut {
        width: whole(layout.width.ceil()),
        height: whole(layout.height.ceil()),
        arrows: arrows.collect(),
        boxes: layout.boxes.iter().flat_map(|b| [b.x, b.y, b.width, b.height].map(whole)).collect(),
    }
}

fn whole(number: f64) -> i64 {
    number.round() as i64
}

/// A path whose pieces are all horizontal or vertical: where it begins, and how far it goes, down first.
fn path(points: &[Point]) -> Vec<i64> {
    let mut corners = points.iter().map(|point| (whole(point.x), whole(point.y)));
    let Some((mut x, mut y)) = corners.next() else { return Vec::new() };
    let mut path = vec![x, y];
    for (next_x, next_y) in corners {
        let is_down_next = path.len() % 2 == 0;
        match (next_x - x, next_y - y) {
            (0, 0) => {}
            (0, down) if is_down_next => path.push(down),
            (0, down) => path.extend([0, down]),
            (right, 0) if is_down_next => path.extend([0, right]),
            (right, 0) => path.push(right),
            // No router makes these; the line would still end where it should.
            (right, down) if is_down_next => path.extend([down, right]),
            (right, down) => path.extend([right, down]),
        }
        (x, y) = (next_x, next_y);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_turn_at_every_number() {
        let points = |all: &[(f64, f64)]| all.iter().map(|&(x, y)| Point { x, y }).collect::<Vec<_>>();
        assert_eq!(path(&points(&[(5.0, 1.0), (5.0, 4.0), (9.0, 4.0), (9.0, 8.0)])), [5, 1, 3, 4, 4]);
        assert_eq!(path(&points(&[(5.0, 1.0), (5.0, 4.0), (5.0, 6.0)])), [5, 1, 3, 0, 2]);
        assert_eq!(path(&points(&[(5.0, 1.0), (2.0, 1.0), (2.0, 1.2), (2.0, 3.0)])), [5, 1, 0, -3, 2]);
        assert!(path(&[]).is_empty());
    }
}
