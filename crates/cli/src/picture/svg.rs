//! SVG that needs nothing beside itself: no script, no font, no link.
//!
//! The background is left open and nothing depends on it: boxes bring their own fill, lines and free text
//! have a middling brightness. Arrow heads are plain triangles, as all arrows arrive from above; markers
//! would need ids, which clash when several pictures stand in one page.

use super::layout::{self, Graph, Layout, Link, Point, Rect, Route, Size};
use super::{ArrowKind, Node, Picture, Tone};
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

/// Font size and the line height and advance that go with it; 0.6 em is the advance of nearly all monospace
/// fonts.
pub(super) const FONT: f64 = 12.0;
pub(super) const LINE: f64 = 15.0;
pub(super) const ADVANCE: f64 = FONT * 0.6;
/// Text of boxes for other functions, of labels and of the legend, relative to the font.
pub(super) const SMALL: f64 = 10.0 / 12.0;
/// Between the border of a box and its text.
pub(super) const PAD: f64 = 8.0;
/// Columns after which text is cut short; the tooltip has all of it.
pub(super) const WIDEST_LINE: usize = 72;
const WIDEST_LABEL: usize = 28;
/// Colour of text outside boxes.
const GREY: &str = "#7d8590";
/// Radius of the corners of arrows.
const BEND: f64 = 5.0;

/// Lays `picture` out and draws it.
pub(super) fn write(picture: &Picture) -> String {
    let strokes = strokes(picture);
    let layout = layout::run(&graph(picture, &strokes));
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = Drawing { picture, strokes, layout }.print(&mut out);
    out
}

/// One line of the drawing: arrows of one kind between the same two boxes are drawn once, with all their
/// labels.
pub(super) struct Stroke {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) kind: ArrowKind,
    pub(super) label: String,
}

pub(super) fn strokes(picture: &Picture) -> Vec<Stroke> {
    let mut index = BTreeMap::new();
    let mut strokes: Vec<Stroke> = Vec::new();
    for arrow in picture.arrows() {
        let key = (arrow.from, arrow.to, arrow.kind);
        let at = *index.entry(key).or_insert(strokes.len());
        match strokes.get_mut(at) {
            None => {
                let (from, to, kind) = key;
                strokes.push(Stroke { from, to, kind, label: arrow.label.clone() });
            }
            Some(stroke) if stroke.label.is_empty() => stroke.label.clone_from(&arrow.label),
            Some(_) if arrow.label.is_empty() => {}
            Some(stroke) => {
                stroke.label.push_str(", ");
                stroke.label.push_str(&arrow.label);
            }
        }
    }
    strokes
}

pub(super) fn graph(picture: &Picture, strokes: &[Stroke]) -> Graph {
    let entry = |node: &Node| node.tone == Tone::Entry;
    let mut entries: Vec<usize> = (0..picture.nodes.len()).filter(|&i| entry(&picture.nodes[i])).collect();
    if entries.is_empty() && !picture.nodes.is_empty() {
        entries.push(0);
    }
    let link = |stroke: &Stroke| Link {
        from: stroke.from,
        to: stroke.to,
        bundle: stroke.kind as u8,
        label_width: label_width(&stroke.label),
    };
    Graph {
        sizes: picture.nodes.iter().map(size).collect(),
        links: strokes.iter().map(link).collect(),
        entries,
    }
}

fn label_width(label: &str) -> f64 {
    columns(&clipped(label, WIDEST_LABEL)) as f64 * ADVANCE * SMALL
}

/// Scale of the text of a box.
fn scale(node: &Node) -> f64 {
    if node.tone == Tone::Outside { SMALL } else { 1.0 }
}

fn size(node: &Node) -> Size {
    let texts = std::iter::once(&node.heading).chain(&node.lines);
    let widest = texts.map(|text| columns(&clipped(text, WIDEST_LINE))).max().unwrap_or(0);
    let lines = 1 + node.lines.len();
    let scale = scale(node);
    // Below the heading there is a rule.
    let rule = if node.lines.is_empty() { 0.0 } else { PAD };
    Size {
        width: (widest as f64 * ADVANCE * scale + 2.0 * PAD).ceil(),
        height: (lines as f64 * LINE * scale + rule + PAD).ceil(),
    }
}

/// Columns that `text` takes in a monospace font.
fn columns(text: &str) -> usize {
    text.chars().map(|c| if is_wide(c) { 2 } else { 1 }).sum()
}

/// Whether `c` takes two columns: the East Asian scripts and the pictographs.
const fn is_wide(c: char) -> bool {
    matches!(c, '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}' | '\u{ff00}'..='\u{ff60}' | '\u{1f300}'..)
}

/// `text` cut to about `limit` columns.
fn clipped(text: &str, limit: usize) -> String {
    let mut left = limit;
    for (at, c) in text.char_indices() {
        let width = if is_wide(c) { 2 } else { 1 };
        if width > left {
            return format!("{}…", &text[..at]);
        }
        left -= width;
    }
    text.to_owned()
}

/// `text` as XML character data or attribute value. What XML cannot hold becomes the replacement character.
struct Xml<'a>(&'a str);

impl fmt::Display for Xml<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            '\n' => f.write_char('\n'),
            '\t' | '\r' => f.write_char(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => f.write_char('\u{fffd}'),
            c => f.write_char(c),
        })
    }
}

/// One line of text: as [`Xml`], without line ends.
fn one_line(text: &str, limit: usize) -> String {
    Xml(&clipped(text, limit).replace('\n', " ")).to_string()
}

struct Drawing<'a> {
    picture: &'a Picture,
    strokes: Vec<Stroke>,
    layout: Layout,
}

impl Drawing<'_> {
    fn print(&self, out: &mut String) -> fmt::Result {
        let caption = self.caption();
        let width = self.layout.width.max(caption.width).ceil();
        let height = (caption.height + self.layout.height).ceil();
        writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"relive-graph\" role=\"img\" \
             xml:space=\"preserve\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             font-size=\"{FONT}\" \
             font-family=\"ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace\">"
        )?;
        writeln!(out, "<title>{}</title>", Xml(&self.picture.title))?;
        style_sheet(out)?;
        out.push_str(&caption.body);
        writeln!(
            out,
            "<g transform=\"translate({} {})\">",
            ((width - self.layout.width) / 2.0).floor(),
            caption.height
        )?;
        // Loops go back over everything else, boxes over all lines, labels over all.
        let forward_first = [false, true];
        for back in forward_first {
            for (stroke, route) in
                self.strokes.iter().zip(&self.layout.routes).filter(|(_, route)| route.back == back)
            {
                self.arrow(stroke, route, out)?;
            }
        }
        for (node, rect) in self.picture.nodes.iter().zip(&self.layout.boxes) {
            print_box(node, rect, out)?;
        }
        for (stroke, route) in
            self.strokes.iter().zip(&self.layout.routes).filter(|(s, _)| !s.label.is_empty())
        {
            let Point { x, y } = route.label;
            let text = one_line(&stroke.label, WIDEST_LABEL);
            writeln!(out, "<text class=\"l {}\" x=\"{x}\" y=\"{y}\">{text}</text>", class(stroke.kind))?;
        }
        writeln!(out, "</g>\n</svg>")
    }

    fn arrow(&self, stroke: &Stroke, route: &Route, out: &mut String) -> fmt::Result {
        let back = if route.back { " b" } else { "" };
        write!(out, "<g class=\"a {}{back}\"><title>", class(stroke.kind))?;
        let ends = [stroke.from, stroke.to].map(|node| &self.picture.nodes[node].heading);
        write!(out, "{} → {}\n{}", Xml(ends[0]), Xml(ends[1]), stroke.kind.stroke().meaning)?;
        if !stroke.label.is_empty() {
            write!(out, ": {}", Xml(&stroke.label))?;
        }
        write!(out, "</title><path d=\"")?;
        rounded(&route.points, out)?;
        if let Some(tip) = route.points.last() {
            write!(out, "\"/><path class=\"h\" d=\"M{} {}l-4 -8h8z", tip.x, tip.y)?;
        }
        writeln!(out, "\"/></g>")
    }

    /// Title and legend: what the colours mean that occur in this picture.
    fn caption(&self) -> Caption {
        let mut caption = Caption::new(self.layout.width);
        let uses = |tone| self.picture.nodes.iter().any(|node| node.tone == tone);
        for tone in Tone::ALL.into_iter().filter(|&tone| uses(tone) && !tone.paint().meaning.is_empty()) {
            let Point { x, y } = caption.item(tone.paint().meaning);
            let class = tone_class(tone);
            caption.body += &format!(
                "<rect class=\"{class}\" x=\"{x}\" y=\"{}\" width=\"{KEY}\" height=\"10\" rx=\"2\"/>\n",
                y - 9.0
            );
        }
        for kind in ArrowKind::ALL.into_iter().filter(|&kind| self.strokes.iter().any(|s| s.kind == kind)) {
            let Point { x, y } = caption.item(kind.stroke().meaning);
            caption.body += &format!("<path class=\"{}\" d=\"M{x} {}h{KEY}\"/>\n", class(kind), y - 4.0);
        }
        if self.layout.routes.iter().any(|route| route.back) {
            let Point { x, y } = caption.item("loops back");
            caption.body += &format!("<path class=\"key b\" d=\"M{x} {}h{KEY}\"/>\n", y - 4.0);
        }
        caption.finish(&self.picture.title)
    }
}

/// Width of the sample in front of a legend's text.
const KEY: f64 = 22.0;

/// The lines above the graph.
struct Caption {
    body: String,
    width: f64,
    height: f64,
    /// Where the next item of the legend goes.
    next: Point,
    limit: f64,
}

impl Caption {
    fn new(width: f64) -> Self {
        let next = Point { x: PAD, y: 2.0 * LINE + PAD };
        Self { body: String::new(), width: 0.0, height: 0.0, next, limit: width.max(420.0) }
    }

    /// Writes the text of an item and returns where its sample goes.
    fn item(&mut self, text: &str) -> Point {
        let width = KEY + 5.0 + columns(text) as f64 * ADVANCE * SMALL;
        if self.next.x > PAD && self.next.x + width + PAD > self.limit {
            self.next = Point { x: PAD, y: self.next.y + LINE };
        }
        let at = self.next;
        self.body +=
            &format!("<text class=\"l\" x=\"{}\" y=\"{}\">{}</text>\n", at.x + KEY + 5.0, at.y, Xml(text));
        self.next.x += width + 14.0;
        self.width = self.width.max(at.x + width + PAD);
        self.height = at.y + PAD;
        at
    }

    fn finish(mut self, title: &str) -> Self {
        let limit = ((self.limit.max(720.0) - 2.0 * PAD) / ADVANCE) as usize;
        let shown = one_line(title, limit);
        self.width = self.width.max(columns(&clipped(title, limit)) as f64 * ADVANCE + 2.0 * PAD);
        self.height = self.height.max(LINE + PAD);
        self.body =
            format!("<text class=\"t\" x=\"{PAD}\" y=\"{}\">{shown}</text>\n{}", LINE + 2.0, self.body);
        self
    }
}

/// The path along `points` with its corners rounded.
fn rounded(points: &[Point], out: &mut String) -> fmt::Result {
    let Some((first, rest)) = points.split_first() else { return Ok(()) };
    write!(out, "M{} {}", first.x, first.y)?;
    let mut before = *first;
    for (index, &corner) in rest.iter().enumerate() {
        let Some(&after) = rest.get(index + 1) else {
            // The line ends inside the head, lest its square end peep out at the tip.
            return write!(out, "L{} {}", corner.x, corner.y - 4.0);
        };
        let towards = |end: Point| {
            let (dx, dy) = (end.x - corner.x, end.y - corner.y);
            let length = dx.abs() + dy.abs();
            let share = if length > 0.0 { BEND.min(length / 2.0) / length } else { 0.0 };
            Point { x: corner.x + dx * share, y: corner.y + dy * share }
        };
        let (a, b) = (towards(before), towards(after));
        write!(out, "L{} {}Q{} {} {} {}", a.x, a.y, corner.x, corner.y, b.x, b.y)?;
        before = corner;
    }
    Ok(())
}

fn print_box(node: &Node, rect: &Rect, out: &mut String) -> fmt::Result {
    let Rect { x, y, width, height } = *rect;
    let scale = scale(node);
    let radius = if node.tone == Tone::Outside { 9 } else { 3 };
    write!(out, "<g class=\"n {}\"><title>{}", tone_class(node.tone), Xml(&node.heading))?;
    node.lines.iter().try_for_each(|line| write!(out, "\n{}", Xml(line)))?;
    writeln!(out, "</title>")?;
    writeln!(out, "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"{radius}\"/>")?;
    let left = x + PAD;
    let mut base = y + PAD / 2.0 + LINE * scale * 0.75;
    writeln!(
        out,
        "<text class=\"i\" x=\"{left}\" y=\"{base}\">{}</text>",
        one_line(&node.heading, WIDEST_LINE)
    )?;
    if !node.lines.is_empty() {
        let rule = (y + PAD / 2.0 + LINE * scale).round() + 1.5;
        writeln!(out, "<path d=\"M{x} {rule}h{width}\"/>")?;
        base += PAD;
    }
    for line in &node.lines {
        base += LINE * scale;
        writeln!(out, "<text x=\"{left}\" y=\"{base}\">{}</text>", one_line(line, WIDEST_LINE))?;
    }
    writeln!(out, "</g>")
}

/// Class of the elements of an arrow.
const fn class(kind: ArrowKind) -> &'static str {
    match kind {
        ArrowKind::FallThrough => "fall",
        ArrowKind::Taken => "taken",
        ArrowKind::Jump => "jump",
        ArrowKind::Case => "case",
        ArrowKind::CallReturn => "call",
        ArrowKind::TailCall => "tail",
        ArrowKind::LandingPad => "throw",
        ArrowKind::Unknown => "unknown",
    }
}

/// Class of the elements of a box.
const fn tone_class(tone: Tone) -> &'static str {
    match tone {
        Tone::Entry => "entry",
        Tone::Plain => "plain",
        Tone::LoopHeader => "loop",
        Tone::LandingPad => "pad",
        Tone::Exit => "exit",
        Tone::Unreached => "unreached",
        Tone::Outside => "outside",
    }
}

/// Every rule names the class of the picture, to leave a page alone into which the picture is pasted.
fn style_sheet(out: &mut String) -> fmt::Result {
    const G: &str = ".relive-graph";
    writeln!(out, "<style>")?;
    writeln!(out, "{G} text{{white-space:pre}}")?;
    writeln!(out, "{G} path{{fill:none;stroke-width:1.5;stroke-linejoin:round}}")?;
    writeln!(out, "{G} .b path,{G} .b{{stroke-width:2.5}}")?;
    writeln!(out, "{G} .a:hover path{{stroke-width:4}}")?;
    writeln!(out, "{G} .a .h,{G} .a:hover .h{{stroke-width:1;stroke-dasharray:none}}")?;
    writeln!(out, "{G} .l{{font-size:{}px;fill:{GREY}}}", FONT * SMALL)?;
    writeln!(out, "{G} .t{{font-weight:bold;fill:{GREY}}}")?;
    writeln!(out, "{G} .key{{stroke:{GREY}}}")?;
    for kind in ArrowKind::ALL {
        let (stroke, class) = (kind.stroke(), class(kind));
        let dashes = if stroke.dashes.is_empty() { "none" } else { stroke.dashes };
        writeln!(out, "{G} .{class}{{stroke:{};stroke-dasharray:{dashes}}}", stroke.colour)?;
        writeln!(out, "{G} .{class} .h,{G} .l.{class}{{fill:{}}}", stroke.colour)?;
    }
    writeln!(out, "{G} .l{{stroke:none}}")?;
    for tone in Tone::ALL {
        let (paint, class) = (tone.paint(), tone_class(tone));
        writeln!(out, "{G} rect.{class},{G} .{class} rect{{fill:{};stroke:{}}}", paint.fill, paint.border)?;
        writeln!(out, "{G} .{class} text{{fill:{}}}", paint.text)?;
        writeln!(out, "{G} .{class} path{{stroke:{};stroke-width:1}}", paint.border)?;
    }
    writeln!(out, "{G} .entry rect{{stroke-width:2.5}}")?;
    writeln!(out, "{G} .unreached rect{{stroke-dasharray:4 3}}")?;
    writeln!(out, "{G} .outside text{{font-size:{}px}}", FONT * SMALL)?;
    writeln!(out, "{G} .i{{font-weight:bold}}")?;
    writeln!(out, "</style>")
}

#[cfg(test)]
mod tests {
    use super::super::Arrow;
    use super::*;

    fn node(heading: &str, lines: &[&str], tone: Tone) -> Node {
        Node { heading: heading.into(), lines: lines.iter().map(|&line| line.into()).collect(), tone }
    }

    fn arrow(from: usize, to: usize, kind: ArrowKind, label: &str) -> Arrow {
        Arrow { from, to, kind, label: label.into() }
    }

    fn sample() -> Picture {
        Picture {
            title: "vector<int>::push_back(int&&) \"quoted\"".into(),
            nodes: vec![
                node("bb0", &["cmp  rax, rbx", "jl   bb0 <&>"], Tone::Entry),
                node("bb1\u{0}", &["]]>", "\ttab\nnewline"], Tone::LoopHeader),
                node("memcpy", &[], Tone::Outside),
                node(&"x".repeat(500), &["日本語"], Tone::Unreached),
            ],
            edges: vec![
                arrow(0, 1, ArrowKind::Taken, "a<b"),
                arrow(0, 1, ArrowKind::Taken, "c"),
                arrow(0, 1, ArrowKind::FallThrough, ""),
                arrow(1, 1, ArrowKind::Jump, "again"),
                arrow(1, 2, ArrowKind::TailCall, ""),
                arrow(1, 0, ArrowKind::Unknown, "?"),
                arrow(1, 99, ArrowKind::Jump, "nowhere"),
            ],
        }
    }

    /// Panics unless tags nest, attributes are quoted and text holds only known entities.
    fn check_xml(text: &str) {
        let mut open = Vec::new();
        let mut rest = text;
        while let Some(start) = rest.find('<') {
            check_text(&rest[..start]);
            let end = start + rest[start..].find('>').expect("a tag that ends");
            let tag = &rest[start + 1..end];
            rest = &rest[end + 1..];
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name), "closed in the wrong order");
                continue;
            }
            assert_eq!(tag.matches('"').count() % 2, 0, "unbalanced quotes in <{tag}>");
            if !tag.ends_with('/') {
                open.push(tag.split_whitespace().next().expect("a tag with a name"));
            }
        }
        assert!(open.is_empty() && rest.trim().is_empty());
    }

    fn check_text(text: &str) {
        assert!(!text.contains('>') && !text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        for (at, _) in text.match_indices('&') {
            let known =
                ["&amp;", "&lt;", "&gt;", "&quot;"].iter().any(|entity| text[at..].starts_with(entity));
            assert!(known, "{text:?}");
        }
    }

    #[test]
    fn whatever_the_text_the_xml_is_well_formed() {
        let svg = sample().to_svg();
        check_xml(&svg);
        assert!(svg.contains("jl   bb0 &lt;&amp;&gt;"));
        assert!(svg.contains(">a&lt;b, c</text>"), "parallel arrows are drawn once with both labels");
        assert!(!svg.contains("nowhere"));
    }

    #[test]
    fn equal_pictures_give_equal_bytes() {
        assert_eq!(sample().to_svg(), sample().to_svg());
    }

    #[test]
    fn an_empty_picture_is_a_picture() {
        check_xml(&Picture::default().to_svg());
    }

    #[test]
    fn boxes_lie_inside_the_picture() {
        let svg = sample().to_svg();
        let number = |tag: &str, name: &str| -> f64 {
            let (_, value) = tag.split_once(&format!(" {name}=\"")).expect("the attribute");
            value.split('"').next().and_then(|value| value.parse().ok()).expect("a number")
        };
        let (root, body) = svg.split_once('>').expect("a root");
        let (width, height) = (number(root, "width"), number(root, "height"));
        let (_, body) = body.split_once("translate(").expect("the graph");
        let mut shift = body.split([' ', ')']).map(|number| number.parse::<f64>().unwrap_or(0.0));
        let (dx, dy) = (shift.next().unwrap_or(0.0), shift.next().unwrap_or(0.0));
        let boxes: Vec<&str> = body.split("<rect").skip(1).collect();
        assert_eq!(boxes.len(), 4);
        for rect in boxes {
            let (x, y) = (number(rect, "x") + dx, number(rect, "y") + dy);
            assert!(x >= 0.0 && y >= 0.0, "{rect}");
            assert!(x + number(rect, "width") <= width && y + number(rect, "height") <= height, "{rect}");
        }
    }

    /// Contrast of two colours after WCAG 2.
    fn contrast(a: &str, b: &str) -> f64 {
        let luminance = |colour: &str| {
            let part = |at: usize| {
                let value =
                    f64::from(u8::from_str_radix(&colour[at..at + 2], 16).expect("two hex digits")) / 255.0;
                if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
        };
        let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
        f64::max(a, b) / f64::min(a, b)
    }

    #[test]
    fn colours_can_be_seen_on_white_and_on_dark() {
        for background in ["#ffffff", "#1e1e1e"] {
            for colour in ArrowKind::ALL.map(|kind| kind.stroke().colour).into_iter().chain([GREY]) {
                let contrast = contrast(colour, background);
                assert!(contrast >= 3.0, "{colour} on {background}: {contrast:.2}");
            }
        }
        for paint in Tone::ALL.map(Tone::paint) {
            assert!(contrast(paint.text, paint.fill) >= 4.5, "{} on {}", paint.text, paint.fill);
        }
    }

    #[test]
    fn long_lines_are_cut_but_kept_in_the_tooltip() {
        let svg = sample().to_svg();
        assert!(svg.contains(&format!(">{}…</text>", "x".repeat(WIDEST_LINE))));
        assert!(svg.contains(&format!("<title>{}\n", "x".repeat(500))));
    }

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!((columns("日本"), columns("ab…→")), (4, 4));
        assert_eq!(clipped("日本語", 4), "日本…");
    }
}
