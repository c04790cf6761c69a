//! What the unwinder does at each address of a frame, in a form that can be written again elsewhere.

use crate::unwind::{Frame, Unwind};
use gimli::{CfaRule, EhFrame, RegisterRule, UnwindContext, UnwindSection as _};
use relive_code::addr::{AddrRange, LinkAddr};
use std::cell::RefCell;

/// Where the caller's stack begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cfa {
    /// At an offset from a register.
    Register(u16, i64),
    /// Where a DWARF expression says.
    Expression(Vec<u8>),
}

/// Where the caller's value of a register is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Lost.
    Undefined,
    /// Still there.
    SameValue,
    /// In memory, at an offset from the caller's stack.
    Offset(i64),
    /// It is the caller's stack plus an offset.
    ValOffset(i64),
    /// In another register.
    Register(u16),
    /// In memory, where an expression says.
    Expression(Vec<u8>),
    /// What an expression says.
    ValExpression(Vec<u8>),
}

/// What the unwinder does over a stretch of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Where the caller's stack begins.
    pub cfa: Cfa,
    /// Registers by number; one that is not here has not been touched, or is not to be restored.
    pub registers: Vec<(u16, Rule)>,
    /// Bytes of arguments pushed that a landing pad has to drop.
    pub args_size: u64,
}

impl Row {
    /// How things are at the entry of a function: everything is where the call left it.
    #[must_use]
    pub fn at_entry() -> Self {
        Self {
            cfa: Cfa::Register(gimli::X86_64::RSP.0, 8),
            registers: vec![(gimli::X86_64::RA.0, Rule::Offset(-8))],
            args_size: 0,
        }
    }
}

/// How a frame is treated as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Treatment {
    /// The personality routine; if `indirect`, the word that holds its address.
    pub personality: Option<(LinkAddr, bool)>,
    /// Whether it is the kernel's frame around a signal handler.
    pub signal: bool,
}

thread_local! {
    /// It is large, and there are many frames.
    static CONTEXT: RefCell<UnwindContext<usize>> = RefCell::new(UnwindContext::new());
}

impl Unwind<'_> {
    /// The rows of a frame by address, and how it is treated.
    ///
    /// # Errors
    /// If the entry is damaged.
    pub fn rows(&self, frame: &Frame) -> gimli::Result<(Treatment, Vec<(AddrRange, Row)>)> {
        CONTEXT.with_borrow_mut(|context| self.rows_in(frame, context))
    }

    fn rows_in(
        &self,
        frame: &Frame,
        context: &mut UnwindContext<usize>,
    ) -> gimli::Result<(Treatment, Vec<(AddrRange, Row)>)> {
        let (section, bases) = self.section();
        let fde =
            section.fde_from_offset(bases, gimli::EhFrameOffset(frame.offset), EhFrame::cie_from_offset)?;
        let mut table = fde.rows(section, bases, context)?;
        let mut rows: Vec<(AddrRange, Row)> = Vec::new();
        let bytes = |e: &gimli::UnwindExpression<usize>| -> gimli::Result<Vec<u8>> {
            Ok(e.get(section)?.0.slice().to_vec())
        };
        while let Some(row) = table.next_row()? {
            let cfa = match row.cfa() {
                CfaRule::RegisterAndOffset { register, offset } => Cfa::Register(register.0, *offset),
                CfaRule::Expression(e) => Cfa::Expression(bytes(e)?),
            };
            let mut registers = Vec::new();
            for (register, rule) in row.registers() {
                let rule = match rule {
                    RegisterRule::Undefined => Rule::Undefined,
                    RegisterRule::SameValue => Rule::SameValue,
                    RegisterRule::Offset(n) => Rule::Offset(*n),
                    RegisterRule::ValOffset(n) => Rule::ValOffset(*n),
                    RegisterRule::Register(other) => Rule::Register(other.0),
                    RegisterRule::Expression(e) => Rule::Expression(bytes(e)?),
                    RegisterRule::ValExpression(e) => Rule::ValExpression(bytes(e)?),
                    _ => continue,
                };
                registers.push((register.0, rule));
            }
            registers.sort_by_key(|(register, _)| *register);
            let range = AddrRange::new(LinkAddr(row.start_address()), LinkAddr(row.end_address()));
            rows.push((range, Row { cfa, registers, args_size: row.saved_args_size() }));
        }
        let personality = fde.personality().map(|pointer| match pointer {
            gimli::Pointer::Direct(at) => (LinkAddr(at), false),
            gimli::Pointer::Indirect(at) => (LinkAddr(at), true),
        });
        Ok((Treatment { personality, signal: fde.is_signal_trampoline() }, rows))
    }
}
