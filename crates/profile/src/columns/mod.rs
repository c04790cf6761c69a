//! Between the model and the columns of the file: [`code`] and [`encode`] mirror [`decode`].

mod code;
mod decode;
mod encode;

pub(crate) use code::{Code, CodeWriter, field_head};
pub(crate) use decode::module as decode;
pub(crate) use encode::module as encode;

use crate::model::{DataKind, EdgeKind, Level, Mode, Node, Origin};

/// Differences to the number before: what is written and what is read.
#[derive(Default)]
struct Delta(u64);

impl Delta {
    fn write(&mut self, value: u64) -> i64 {
        let delta = value.wrapping_sub(self.0).cast_signed();
        self.0 = value;
        delta
    }

    fn read(&mut self, delta: i64) -> u64 {
        self.0 = self.0.wrapping_add(delta.cast_unsigned());
        self.0
    }
}

/// The same for numbers that may be missing: zero means that there is none.
#[derive(Default)]
struct SparseDelta(i64);

impl SparseDelta {
    fn write(&mut self, value: Option<u32>) -> i64 {
        let Some(value) = value else { return 0 };
        let delta = i64::from(value) - self.0;
        self.0 = value.into();
        if delta < 0 { delta } else { delta + 1 }
    }

    /// The number, or `None` if it is beyond 32 bits.
    fn read(&mut self, delta: i64) -> Option<Option<u32>> {
        if delta == 0 {
            return Some(None);
        }
        self.0 = self.0.checked_add(if delta < 0 { delta } else { delta - 1 })?;
        Some(Some(u32::try_from(self.0).ok()?))
    }
}

const EDGE_KINDS: [EdgeKind; 10] = [
    EdgeKind::Enter,
    EdgeKind::FallThrough,
    EdgeKind::Taken,
    EdgeKind::Jump,
    EdgeKind::Case,
    EdgeKind::CallReturn,
    EdgeKind::LandingPad,
    EdgeKind::TailCall,
    EdgeKind::Return,
    EdgeKind::NoReturn,
];

const DATA_KINDS: [DataKind; 7] = [
    DataKind::Constant,
    DataKind::Text,
    DataKind::Variable,
    DataKind::Zeroed,
    DataKind::JumpTable,
    DataKind::Import,
    DataKind::Literal,
];

const MODES: [Mode; 3] = [Mode::Functions, Mode::Blocks, Mode::Edges];

/// Zero means that there is no count.
const MEASURED: u32 = 1;
const DERIVED: u32 = 2;
const CONTROL_FLOW: u32 = 3;
const INFERRED: u32 = 4;
const SAMPLED: u32 = 5;
/// The first of the levels.
const MATCHED: u32 = 8;

fn origin_number(origin: Origin) -> u32 {
    match origin {
        Origin::Measured => MEASURED,
        Origin::Derived => DERIVED,
        Origin::ControlFlow => CONTROL_FLOW,
        Origin::Inferred => INFERRED,
        Origin::Sampled => SAMPLED,
        Origin::Matched(level) => MATCHED + number_of(&Level::ALL, &level),
    }
}

fn origin_of(number: u32) -> Option<Origin> {
    match number {
        MEASURED => Some(Origin::Measured),
        DERIVED => Some(Origin::Derived),
        CONTROL_FLOW => Some(Origin::ControlFlow),
        INFERRED => Some(Origin::Inferred),
        SAMPLED => Some(Origin::Sampled),
        _ => Level::ALL.get(number.checked_sub(MATCHED)? as usize).map(|&level| Origin::Matched(level)),
    }
}

fn number_of<T: PartialEq>(all: &[T], one: &T) -> u32 {
    all.iter().zip(0..).find(|(other, _)| *other == one).map_or(0, |(_, i)| i)
}

fn node_number(node: Node) -> u64 {
    match (node.as_block(), node.as_hub()) {
        (Some(block), _) => 1 + 2 * u64::from(block),
        (_, Some(hub)) => 2 + 2 * u64::from(hub),
        _ => 0,
    }
}

const BLOCK_IS_ENTRY: u32 = 1;
const BLOCK_IS_LANDING_PAD: u32 = 2;

const CALL_DIRECT: u32 = 0;
const CALL_IMPORT: u32 = 1;
const CALL_INDIRECT: u32 = 2;

const TARGET_OWN: u32 = 0;
const TARGET_GENERATED: u32 = 1;
const TARGET_FOREIGN: u32 = 2;
