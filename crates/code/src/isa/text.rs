//! Instructions as text.

use super::Insn;
use alloc::string::String;
use core::fmt;
use iced_x86::{Formatter, FormatterOutput, FormatterTextKind, GasFormatter, IntelFormatter};

/// Which assembler's notation to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Syntax {
    /// `mov rax, [rbx]`
    #[default]
    Intel,
    /// `mov (%rbx),%rax`, as `objdump` writes it by default.
    Att,
}

/// An instruction that prints itself.
pub struct InsnText<'a> {
    insn: &'a Insn,
    syntax: Syntax,
}

impl Insn {
    /// The instruction as text.
    #[must_use]
    pub fn text(&self, syntax: Syntax) -> InsnText<'_> {
        InsnText { insn: self, syntax }
    }
}

struct Plain(String);

impl FormatterOutput for Plain {
    fn write(&mut self, text: &str, _: FormatterTextKind) {
        self.0.push_str(text);
    }
}

impl fmt::Display for InsnText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Plain(String::new());
        match self.syntax {
            Syntax::Intel => format_with(&mut IntelFormatter::new(), self.insn, &mut out),
            Syntax::Att => format_with(&mut GasFormatter::new(), self.insn, &mut out),
        }
        f.write_str(&out.0)
    }
}

fn format_with(formatter: &mut dyn Formatter, insn: &Insn, out: &mut Plain) {
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_branch_leading_zeros(false);
    options.set_space_after_operand_separator(true);
    options.set_small_hex_numbers_in_decimal(true);
    options.set_rip_relative_addresses(false);
    formatter.format(&insn.raw, out);
}
