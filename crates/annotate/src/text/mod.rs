//! Reads what a compiler hands to the assembler, and has the assembler keep what it says of its code.
//!
//! `gcc -dA` writes into comments where blocks begin and where control goes at their ends. Only the assembler knows where the
//! code comes to lie. So [`annotate`] gives the same text with labels put in where something is to be said, and with a
//! section behind it that names them ([`crate::facts`]). Labels make no code and, called `.L…`, no symbols. They stand on the
//! line of the statement that they precede, so that lines keep their numbers; comments of `-dA` are left out, which gives
//! lines the numbers that they have without `-dA`.
//!
//! Any text is taken, written by hand or by a compiler that says nothing; what can be seen in it, data among code and inline
//! assembler, is said. Lines in `.macro`, `.rept` and `.if` may be assembled many times or never: no labels go there.

mod edges;
mod function;
mod kind;
mod output;
mod rows;
mod sections;
mod statements;

use crate::facts::{self, Facts, Label};
use function::Function;
use kind::{Directive, Flow, Hidden, Kind};
use output::Output;
use rows::Rows;
use sections::Sections;
use statements::{Item, Items, Statement};

/// `text`, to be assembled instead of the file `name` that it was read from; `None` if that file is as good, because nothing
/// can be said of it.
///
/// The text is for 64-bit object files (`as --64`). It begins with a line marker, so that messages and line tables that the
/// assembler makes (`as -g`) go on speaking of `name`; what is asked to be written as symbols (`as -L`) will have more.
#[must_use]
pub fn annotate(text: &[u8], name: &str) -> Option<Vec<u8>> {
    // This turns off what makes comments and blanks harmless.
    if text.starts_with(b"#NO_APP") || text.starts_with(b"#APP") {
        return None;
    }
    let mut reader = Reader::new(text, name);
    for item in Items::new(text) {
        match item {
            Item::Comment { start, end } => reader.comment(text, start, end),
            Item::Label(_) if !reader.hidden.is_empty() => {}
            // The text has been here before.
            Item::Label(name) if name.starts_with(facts::LABEL) => return None,
            Item::Label(name) => {
                reader.function.label(name);
                reader.rows.label(&mut reader.facts);
            }
            Item::Statement(statement) => reader.statement(&statement)?,
        }
    }
    reader.end(text.len())
}

struct Reader<'a> {
    output: Output<'a>,
    facts: Facts<Label>,
    sections: Sections<'a>,
    function: Function<'a>,
    rows: Rows,
    /// Whether comments that say nothing can go, as `-dA` makes them.
    has_blocks: bool,
    is_intel: bool,
    /// Whether this is inline assembler.
    is_inline: bool,
    /// Where the inline assembler began that is being read.
    inline: Option<Label>,
    /// Where the bytes began that are being read.
    bytes: Option<Label>,
    /// The hidden lines that these are, from the outermost on.
    hidden: Vec<Hidden>,
    /// How many sections hidden lines entered to come back from.
    pushed: usize,
}

impl<'a> Reader<'a> {
    fn new(text: &'a [u8], name: &str) -> Self {
        Self {
            output: Output::new(text, name),
            facts: Facts::default(),
            sections: Sections::new(),
            function: Function::default(),
            rows: Rows::default(),
            has_blocks: memchr::memmem::find(text, b"\n# BLOCK ").is_some(),
            is_intel: false,
            is_inline: false,
            inline: None,
            bytes: None,
            hidden: Vec::new(),
            pushed: 0,
        }
    }

    fn comment(&mut self, text: &'a [u8], start: usize, end: usize) {
        let line = &text[start..end];
        let is_said = if let Some((block, sequence)) = edges::block(line) {
            if sequence == 0 {
                self.function.end(&mut self.facts);
            }
            self.function.block(block, self.sections.current.name, &mut self.facts);
            true
        } else if let Some(list) = line.strip_prefix(b"# SUCC:") {
            self.function.successors(list);
            true
        } else {
            line.starts_with(b"# PRED:")
        };
        match line.trim_ascii() {
            _ if is_said && self.has_blocks => self.output.leave_out(start, end),
            b"#APP" => self.is_inline = true,
            b"#NO_APP" => self.is_inline = false,
            [b'#', b' ', b'0'..=b'9', ..] if line[0] == b'#' => {}
            _ if self.has_blocks && !self.is_inline && self.hidden.is_empty() => {
                self.output.leave_out(start, end);
            }
            _ => {}
        }
    }

    /// `None` if the way is lost.
    fn statement(&mut self, statement: &Statement<'a>) -> Option<()> {
        let kind = Kind::of(statement.word);
        if !self.hidden.is_empty() {
            return self.hidden_statement(kind, statement);
        }
        self.function.table_statement(kind, statement, &mut self.output, &mut self.facts);
        self.function.call_statement(kind, statement, &mut self.output, &mut self.facts);
        let at = statement.at;
        // Of the compiler's own tables more is known.
        if (self.is_inline || !self.has_blocks) && self.sections.current.may_hold_tables() {
            self.rows.statement(kind, statement, &mut self.output, &mut self.facts);
        } else {
            self.rows.end(&mut self.facts);
        }
        if kind != Kind::Bytes || self.has_blocks && !self.is_inline {
            self.end_bytes(at);
        }
        if kind == Kind::Section || !self.is_inline {
            self.end_inline(at);
        }
        match kind {
            Kind::Instruction | Kind::Bytes if self.sections.current.is_code => self.code(kind, statement),
            Kind::Section => self.follow(statement),
            Kind::Hides(hidden) => {
                if self.sections.current.is_code {
                    self.code(kind, statement);
                }
                self.hidden.push(hidden);
                self.pushed = 0;
            }
            Kind::Remark => self.remark(statement),
            Kind::Instruction | Kind::Bytes | Kind::Shows(_) => {}
        }
        Some(())
    }

    /// Something in a section of code that makes code, or may.
    fn code(&mut self, kind: Kind, statement: &Statement<'a>) {
        let at = statement.at;
        if self.function.begins_block(self.sections.current.name) {
            let label = self.output.label(at);
            self.function.place_blocks(label, 0);
            self.facts.blocks.push(label);
        }
        if self.is_inline && self.inline.is_none() {
            self.inline = Some(self.output.label(at));
        }
        // What a compiler writes in numbers are instructions that some assembler does not know.
        let may_be_data = self.is_inline || !self.has_blocks;
        if kind == Kind::Bytes && may_be_data && self.bytes.is_none() {
            self.bytes = Some(self.output.label(at));
        }
        if kind == Kind::Instruction {
            let flow = Flow::of(statement, self.is_intel);
            if self.function.instruction(flow, self.is_inline) {
                let site = self.output.label(at);
                self.function.jump(site, &mut self.facts);
            }
        }
    }

    fn end_bytes(&mut self, at: usize) {
        if let Some(from) = self.bytes.take() {
            self.facts.bytes.push((from, self.output.label(at)));
        }
    }

    fn end_inline(&mut self, at: usize) {
        if let Some(from) = self.inline.take() {
            self.facts.inline.push((from, self.output.label(at)));
        }
    }

    fn follow(&mut self, statement: &Statement<'a>) {
        if let Some(directive) = Directive::of(statement.word) {
            self.sections.follow(directive.name(), statement.operands);
        }
    }

    fn remark(&mut self, statement: &Statement<'_>) {
        match statement.word {
            b".p2align" | b".align" if self.function.begins_block_before_fill(self.sections.current.name) => {
                let label = self.output.label(statement.at);
                self.function.place_blocks(label, 1);
                self.facts.blocks.push(label);
            }
            b".cfi_endproc" | b".size" => self.function.leave_blocks(),
            b".intel_syntax" => self.is_intel = true,
            b".att_syntax" => self.is_intel = false,
            _ => {}
        }
    }

    /// Hidden lines may go to other sections only if they come back.
    fn hidden_statement(&mut self, kind: Kind, statement: &Statement<'_>) -> Option<()> {
        let inner = *self.hidden.last()?;
        match kind {
            Kind::Hides(hidden) if hidden == inner || inner == Hidden::Condition => self.hidden.push(hidden),
            Kind::Shows(hidden) if hidden == inner => {
                self.hidden.pop();
                if self.hidden.is_empty() && self.pushed != 0 {
                    return None;
                }
            }
            Kind::Section => match statement.word {
                b".pushsection" => self.pushed += 1,
                b".popsection" => self.pushed = self.pushed.checked_sub(1)?,
                _ if self.pushed == 0 => return None,
                _ => {}
            },
            _ => {}
        }
        Some(())
    }

    fn end(mut self, at: usize) -> Option<Vec<u8>> {
        self.end_bytes(at);
        self.end_inline(at);
        self.rows.end(&mut self.facts);
        self.function.end(&mut self.facts);
        if self.facts.is_empty() && !self.has_blocks {
            return None;
        }
        let mut out = self.output.finish();
        facts::write(&self.facts, &mut out);
        Some(out)
    }
}
