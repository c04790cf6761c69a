//! A control-flow graph as a picture: Graphviz DOT for further processing, SVG to look at, numbers for a page that
//! draws it.
//!
//! A [`Picture`] knows nothing of programs: it is boxes of text and arrows between them, so whoever has a
//! graph decides what is worth saying in it. [`layout`] decides where things go without knowing what they
//! look like, [`svg`] how they look without knowing why they are there.

mod data;
mod dot;
mod layout;
mod svg;

pub(crate) use data::{LaidOut, METRICS};

/// What is drawn: boxes of text lines and arrows between them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Picture {
    /// Written above the graph.
    pub(crate) title: String,
    /// The boxes; arrows refer to them by index.
    pub(crate) nodes: Vec<Node>,
    /// The arrows. One that names a box which is not there is left out.
    pub(crate) edges: Vec<Arrow>,
}

/// A box of text.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// First line, set apart from the others.
    pub(crate) heading: String,
    /// What follows the heading, one entry a line.
    pub(crate) lines: Vec<String>,
    /// The role the box plays.
    pub(crate) tone: Tone,
}

/// The role of a box, which decides its colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tone {
    /// Where control comes in: drawn on top.
    Entry,
    /// Nothing special.
    Plain,
    /// A loop starts here.
    LoopHeader,
    /// Control arrives by an exception.
    LandingPad,
    /// Control leaves the function.
    Exit,
    /// No known path leads here.
    Unreached,
    /// Another function, drawn small.
    Outside,
}

/// An arrow between two boxes.
#[derive(Clone, Debug)]
pub(crate) struct Arrow {
    /// Index of the box it leaves.
    pub(crate) from: usize,
    /// Index of the box it enters.
    pub(crate) to: usize,
    /// How control passes along it.
    pub(crate) kind: ArrowKind,
    /// Short text beside it; may be empty.
    pub(crate) label: String,
}

/// How control passes along an arrow, which decides its colour and line style.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum ArrowKind {
    /// To the next instruction.
    FallThrough,
    /// A conditional branch that is taken.
    Taken,
    /// An unconditional jump.
    Jump,
    /// A case of a jump table.
    Case,
    /// Over a call, when it returns.
    CallReturn,
    /// A jump to another function.
    TailCall,
    /// From a throwing call to its handler.
    LandingPad,
    /// An indirect jump that was not resolved.
    Unknown,
}

/// A colour as `#rrggbb`, which SVG and DOT both understand.
type Colour = &'static str;

/// How the line of an arrow is drawn.
struct Stroke {
    colour: Colour,
    /// `stroke-dasharray`; empty for a solid line.
    dashes: &'static str,
    /// What the legend says.
    meaning: &'static str,
}

/// How a box is drawn.
struct Paint {
    fill: Colour,
    border: Colour,
    text: Colour,
    /// What the legend says; the plain box needs no explanation.
    meaning: &'static str,
}

impl ArrowKind {
    const ALL: [Self; 8] = [
        Self::FallThrough,
        Self::Taken,
        Self::Jump,
        Self::Case,
        Self::CallReturn,
        Self::TailCall,
        Self::LandingPad,
        Self::Unknown,
    ];

    /// Colours of middling brightness, told apart on white and on black alike (a test holds them to it).
    const fn stroke(self) -> Stroke {
        let (colour, dashes, meaning) = match self {
            Self::FallThrough => ("#748496", "", "falls through"),
            Self::Taken => ("#2a9d4a", "", "branch taken"),
            Self::Jump => ("#3f83e0", "", "jump"),
            Self::Case => ("#a86ad6", "", "switch case"),
            Self::CallReturn => ("#748496", "6 3", "call returns"),
            Self::TailCall => ("#c2761c", "9 3 2 3", "tail call"),
            Self::LandingPad => ("#dd4b45", "6 3", "exception"),
            Self::Unknown => ("#c9509a", "2 3", "unresolved"),
        };
        Stroke { colour, dashes, meaning }
    }
}

impl Tone {
    const ALL: [Self; 7] = [
        Self::Entry,
        Self::Plain,
        Self::LoopHeader,
        Self::LandingPad,
        Self::Exit,
        Self::Unreached,
        Self::Outside,
    ];

    /// Boxes bring their own light background, so their text reads well whatever lies behind the picture.
    const fn paint(self) -> Paint {
        let (fill, border, meaning) = match self {
            Self::Entry => ("#dff3e1", "#2a9d4a", "entry"),
            Self::Plain => ("#f6f7f9", "#8a95a3", ""),
            Self::LoopHeader => ("#fdf1c9", "#b98a10", "loop header"),
            Self::LandingPad => ("#fde3e1", "#dd4b45", "landing pad"),
            Self::Exit => ("#dfeafa", "#3f83e0", "exit"),
            Self::Unreached => ("#e4e6e9", "#8a95a3", "not reached"),
            Self::Outside => ("#efe5f8", "#a86ad6", "other function"),
        };
        let text = if matches!(self, Self::Unreached) { "#5c6570" } else { "#1c2128" };
        Paint { fill, border, text, meaning }
    }
}

impl Picture {
    /// The picture in the language of Graphviz, for `dot -Tsvg` or any tool that reads DOT.
    #[must_use]
    pub(crate) fn to_dot(&self) -> String {
        dot::write(self)
    }

    /// The picture laid out as an SVG that needs nothing beside itself. Equal pictures give equal bytes.
    #[must_use]
    pub(crate) fn to_svg(&self) -> String {
        svg::write(self)
    }

    /// Where everything goes, for a page that draws it.
    #[must_use]
    pub(crate) fn to_data(&self) -> LaidOut {
        data::lay_out(self)
    }

    /// The arrows whose two ends exist.
    fn arrows(&self) -> impl Iterator<Item = &Arrow> {
        self.edges.iter().filter(|arrow| arrow.from < self.nodes.len() && arrow.to < self.nodes.len())
    }
}
