//! Graphviz DOT: the graph only, the layout is left to Graphviz.

use super::{Picture, Tone};
use std::fmt::Write as _;

/// Writes `picture` as a `digraph`.
pub(super) fn write(picture: &Picture) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = print(picture, &mut out);
    out
}

fn print(picture: &Picture, out: &mut String) -> std::fmt::Result {
    let title = quoted(&picture.title);
    writeln!(out, "digraph {title} {{")?;
    writeln!(out, "  graph [label={title}, labelloc=t, fontname=monospace, bgcolor=transparent]")?;
    writeln!(out, "  node [shape=box, style=filled, fontname=monospace, fontsize=10]")?;
    writeln!(out, "  edge [fontname=monospace, fontsize=9]")?;

    for (index, node) in picture.nodes.iter().enumerate() {
        let paint = node.tone.paint();
        let look = match node.tone {
            Tone::Outside => ", style=\"filled,rounded\", fontsize=8",
            Tone::Unreached => ", style=\"filled,dashed\"",
            Tone::Entry => ", penwidth=2",
            _ => "",
        };
        writeln!(
            out,
            "  n{index} [label={}, fillcolor=\"{}\", color=\"{}\", fontcolor=\"{}\"{look}]",
            left_aligned(&node.heading, &node.lines),
            paint.fill,
            paint.border,
            paint.text,
        )?;
    }

    for arrow in picture.arrows() {
        let stroke = arrow.kind.stroke();
        let style = match stroke.dashes {
            "" => "solid",
            "2 3" => "dotted",
            _ => "dashed",
        };
        write!(out, "  n{} -> n{} [color=\"{}\", style={style}", arrow.from, arrow.to, stroke.colour)?;
        write!(out, ", tooltip=\"{}\"", stroke.meaning)?;
        if !arrow.label.is_empty() {
            write!(out, ", label={}, fontcolor=\"{}\"", quoted(&arrow.label), stroke.colour)?;
        }
        writeln!(out, "]")?;
    }
    writeln!(out, "}}")
}

/// A label whose lines all start at the left edge: in DOT `\l` ends a line and aligns it.
fn left_aligned(heading: &str, lines: &[String]) -> String {
    let mut label = String::from("\"");
    escape(heading, &mut label);
    // A heading alone is centred, which is what Graphviz does with a line that nothing ends.
    if !lines.is_empty() {
        label.push_str("\\l");
    }
    for line in lines {
        escape(line, &mut label);
        label.push_str("\\l");
    }
    label.push('"');
    label
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    escape(text, &mut out);
    out.push('"');
    out
}

/// Within quotes Graphviz gives a meaning to `"`, to backslash (`\N` is the node's name) and to HTML
/// entities.
fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '&' => out.push_str("&amp;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Arrow, ArrowKind, Node, Picture, Tone};

    #[test]
    fn special_characters_are_escaped() {
        let picture = Picture {
            title: "operator\"\" _x".into(),
            nodes: vec![Node { heading: "a\\N".into(), lines: vec!["x & \ny".into()], tone: Tone::Plain }],
            edges: vec![Arrow { from: 0, to: 0, kind: ArrowKind::Unknown, label: "\"?\"".into() }],
        };
        let dot = picture.to_dot();
        assert!(dot.starts_with("digraph \"operator\\\"\\\" _x\" {\n"), "{dot}");
        assert!(dot.contains("label=\"a\\\\N\\lx &amp;  y\\l\""), "{dot}");
        assert!(dot.contains("n0 -> n0 [color=\"#c9509a\", style=dotted"), "{dot}");
        assert!(dot.contains("label=\"\\\"?\\\"\""), "{dot}");
    }

    #[test]
    fn an_arrow_to_nowhere_is_left_out() {
        let edges = vec![Arrow { from: 0, to: 7, kind: ArrowKind::Jump, label: String::new() }];
        let picture = Picture { title: String::new(), nodes: Vec::new(), edges };
        assert!(!picture.to_dot().contains("->"));
    }
}
