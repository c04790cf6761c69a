//! What statements do.

use super::sections;
use super::statements::Statement;

/// What a statement does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Makes an instruction, or, if it is a macro, anything.
    Instruction,
    /// Makes bytes.
    Bytes,
    /// Leads to another section.
    Section,
    /// Begins lines that are not for here and now: `.macro`, `.if`.
    Hides(Hidden),
    /// Ends such lines.
    Shows(Hidden),
    /// Makes no code: unwind information, alignment, attributes.
    Remark,
}

/// Lines that the assembler does not take, or not once, where they stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hidden {
    Macro,
    Repetition,
    Condition,
}

/// A statement's first word without its dot, in small letters, as the assembler sees it.
pub(super) struct Directive {
    name: [u8; Self::LONGEST],
    len: usize,
}

impl Directive {
    const LONGEST: usize = 12;

    pub(super) fn of(word: &[u8]) -> Option<Self> {
        let rest = word.strip_prefix(b".").filter(|rest| rest.len() <= Self::LONGEST)?;
        let mut name = [0; Self::LONGEST];
        name[..rest.len()].copy_from_slice(rest);
        name.make_ascii_lowercase();
        Some(Self { name, len: rest.len() })
    }

    pub(super) fn name(&self) -> &[u8] {
        &self.name[..self.len]
    }
}

impl Kind {
    pub(super) fn of(word: &[u8]) -> Self {
        if word.first() != Some(&b'.') {
            return Self::Instruction;
        }
        let Some(directive) = Directive::of(word) else {
            return Self::Remark;
        };
        match directive.name() {
            b"loc" | b"p2align" | b"align" | b"size" | b"type" | b"globl" => Self::Remark,
            b"long" | b"quad" | b"value" | b"byte" | b"string" | b"ascii" | b"zero" | b"uleb128"
            | b"sleb128" | b"2byte" | b"4byte" | b"8byte" | b"asciz" | b"base64" | b"dc" | b"dc.a"
            | b"dc.b" | b"dc.d" | b"dc.l" | b"dc.s" | b"dc.w" | b"dc.x" | b"dcb" | b"dcb.b" | b"dcb.d"
            | b"dcb.l" | b"dcb.s" | b"dcb.w" | b"dcb.x" | b"double" | b"ds" | b"ds.b" | b"ds.d" | b"ds.l"
            | b"ds.p" | b"ds.s" | b"ds.w" | b"ds.x" | b"fill" | b"float" | b"hword" | b"incbin" | b"int"
            | b"octa" | b"org" | b"short" | b"single" | b"skip" | b"slong" | b"space" | b"string16"
            | b"string32" | b"string64" | b"string8" | b"tfloat" | b"word" | b"" => Self::Bytes,
            b"nop" | b"nops" | b"insn" => Self::Instruction,
            b"macro" => Self::Hides(Hidden::Macro),
            b"endm" => Self::Shows(Hidden::Macro),
            b"rept" | b"rep" | b"irp" | b"irpc" | b"irep" | b"irepc" => Self::Hides(Hidden::Repetition),
            b"endr" => Self::Shows(Hidden::Repetition),
            b"endif" => Self::Shows(Hidden::Condition),
            name if name.starts_with(b"if") => Self::Hides(Hidden::Condition),
            name if sections::is_directive(name) => Self::Section,
            _ => Self::Remark,
        }
    }
}

/// What an instruction does to control flow, as far as it matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Flow {
    Call,
    IndirectJump,
    Return,
    Other,
}

impl Flow {
    pub(super) fn of(statement: &Statement<'_>, is_intel: bool) -> Self {
        let (mut word, mut operands) = (statement.word, statement.operands);
        while matches!(word, b"notrack" | b"bnd" | b"rep" | b"data16" | b"addr32" | b"rex64" | b"rex.W") {
            let end = operands.iter().position(u8::is_ascii_whitespace).unwrap_or(operands.len());
            (word, operands) = (&operands[..end], operands[end..].trim_ascii_start());
        }
        match word {
            b"call" | b"callq" => Self::Call,
            b"ret" | b"retq" => Self::Return,
            b"jmp" | b"jmpq" if is_computed(operands, is_intel) => Self::IndirectJump,
            _ => Self::Other,
        }
    }
}

/// Whether the operand of a jump is not simply a label.
fn is_computed(operand: &[u8], is_intel: bool) -> bool {
    operand.starts_with(b"*")
        || operand.starts_with(b"__x86_indirect_thunk")
        || is_intel && (operand.contains(&b'[') || is_register(operand))
}

fn is_register(name: &[u8]) -> bool {
    let registers: [&[u8]; 16] = [
        b"rax", b"rbx", b"rcx", b"rdx", b"rsi", b"rdi", b"rbp", b"rsp", b"r8", b"r9", b"r10", b"r11", b"r12",
        b"r13", b"r14", b"r15",
    ];
    registers.contains(&name.strip_prefix(b"%").unwrap_or(name))
}
