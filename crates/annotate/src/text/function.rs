//! The function that is being read, as far as `gcc -dA` speaks of it.

use super::edges::Edges;
use super::kind::{Flow, Kind};
use super::output::Output;
use super::statements::Statement;
use crate::facts::{Facts, Jump, Label, Table};

#[derive(Default)]
pub(super) struct Function<'a> {
    /// Where blocks begin, by number; `None` while that is not known, and if there is nothing in them to the end.
    blocks: Vec<Option<Label>>,
    /// Blocks that begin with the next code in that section.
    beginning: Vec<u32>,
    section: &'a [u8],
    /// What comes at the end of this block, if that was said.
    edges: Edges,
    has_edges: bool,
    /// What the last instruction of this block did.
    last: Option<Flow>,
    behind: Behind,
    table: TableText<'a>,
    /// The blocks that jumps lead to, with the jumps' indices among the facts.
    jumps: Vec<(usize, Vec<u32>)>,
}

/// Whether this is behind a call that does not come back.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Behind {
    #[default]
    No,
    /// If the call was the block's last instruction. The label behind it, if there is one yet.
    IfLast(Option<Label>),
    Yes,
}

/// What was seen of the jump table that belongs to the last jump.
#[derive(Clone, Copy, Default)]
enum TableText<'a> {
    #[default]
    None,
    /// A jump without anything behind it.
    Jump,
    /// The label of what may be a table.
    Label(&'a [u8]),
    /// Entries, made by this directive.
    Entries { label: &'a [u8], directive: &'a [u8], table: Table<Label> },
}

impl<'a> Function<'a> {
    /// A block is announced.
    pub(super) fn block(&mut self, number: u32, section: &'a [u8], facts: &mut Facts<Label>) {
        self.end_table(facts);
        self.behind = match self.behind {
            Behind::IfLast(Some(label)) => {
                facts.no_return.push(label);
                Behind::No
            }
            Behind::IfLast(None) => Behind::Yes,
            other => other,
        };
        // Where the last one is empty, both begin at the same place.
        if self.section != section {
            self.leave_blocks();
        }
        self.section = section;
        self.beginning.push(number);
        self.has_edges = false;
        self.last = None;
    }

    /// Said of this block's end, before its last instruction.
    pub(super) fn successors(&mut self, list: &[u8]) {
        self.edges.read(list);
        self.has_edges = true;
        if self.last == Some(Flow::Call) && !self.edges.falls_through {
            self.behind = Behind::IfLast(None);
        }
    }

    /// Whether blocks begin here, at code in that section.
    pub(super) fn begins_block(&self, section: &[u8]) -> bool {
        !self.beginning.is_empty() && self.section == section
    }

    /// Whether blocks begin right here, before code in that section is aligned: empty ones, from which control goes through the
    /// fill. The one that was announced last is what is aligned.
    pub(super) fn begins_block_before_fill(&self, section: &[u8]) -> bool {
        self.beginning.len() > 1 && self.section == section
    }

    /// Blocks begin at `label`: all that were announced, but for so many that come later.
    pub(super) fn place_blocks(&mut self, label: Label, later: usize) {
        for block in self.beginning.drain(..self.beginning.len() - later) {
            let index = block as usize;
            if self.blocks.len() <= index {
                self.blocks.resize(index + 1, None);
            }
            self.blocks[index] = Some(label);
        }
    }

    /// The function, or a piece of it, ends: what was announced and did not come is empty.
    pub(super) fn leave_blocks(&mut self) {
        self.beginning.clear();
    }

    /// An instruction. Whether it is a jump of which it is known where it leads.
    pub(super) fn instruction(&mut self, flow: Flow, is_inline: bool) -> bool {
        self.last = Some(flow);
        if !self.has_edges {
            return false;
        }
        let edges = &self.edges;
        if flow == Flow::Call && !edges.falls_through {
            self.behind = Behind::IfLast(None);
        }
        match flow {
            Flow::IndirectJump => !is_inline,
            // The jump of a thunk.
            Flow::Return => !is_inline && !edges.to.is_empty() && !edges.exits && !edges.falls_through,
            Flow::Call | Flow::Other => false,
        }
    }

    /// The jump at `site` leads where this block does.
    pub(super) fn jump(&mut self, site: Label, facts: &mut Facts<Label>) {
        let to = std::mem::take(&mut self.edges.to);
        let leaves = self.edges.exits || to.is_empty();
        self.has_edges = false;
        self.jumps.push((facts.jumps.len(), to));
        facts.jumps.push(Jump { site, targets: Vec::new(), table: None, leaves });
        self.table = TableText::Jump;
    }

    /// A statement: puts a label before it if a call that does not come back is there.
    pub(super) fn call_statement(
        &mut self,
        kind: Kind,
        statement: &Statement<'a>,
        output: &mut Output<'a>,
        facts: &mut Facts<Label>,
    ) {
        self.behind = match self.behind {
            Behind::No => return,
            Behind::Yes => {
                facts.no_return.push(output.label(statement.at));
                Behind::No
            }
            Behind::IfLast(_) if kind == Kind::Instruction => Behind::No,
            Behind::IfLast(label) => {
                let label = label.unwrap_or_else(|| output.label(statement.at));
                if matches!(statement.word, b".cfi_endproc" | b".size" | b".section" | b".text") {
                    facts.no_return.push(label);
                    Behind::No
                } else {
                    Behind::IfLast(Some(label))
                }
            }
        };
    }

    /// A label.
    pub(super) fn label(&mut self, name: &'a [u8]) {
        if let TableText::Jump | TableText::Label(_) = self.table {
            self.table = TableText::Label(name);
        }
    }

    /// A statement, which may be an entry of the table that belongs to the last jump.
    pub(super) fn table_statement(
        &mut self,
        kind: Kind,
        statement: &Statement<'a>,
        output: &mut Output<'a>,
        facts: &mut Facts<Label>,
    ) {
        match &mut self.table {
            TableText::None => {}
            TableText::Jump if matches!(kind, Kind::Section | Kind::Remark) => {}
            TableText::Label(_) if kind == Kind::Remark => {}
            &mut TableText::Label(label) => {
                self.table = match entry(statement, label) {
                    Some((entry_size, is_relative)) => {
                        let at = output.label(statement.at);
                        let table = Table { at, entry_size, is_relative, count: 1 };
                        TableText::Entries { label, directive: statement.word, table }
                    }
                    None => TableText::None,
                };
            }
            TableText::Entries { label, directive, table }
                if *directive == statement.word
                    && entry(statement, label) == Some((table.entry_size, table.is_relative)) =>
            {
                table.count += 1;
            }
            TableText::Jump | TableText::Entries { .. } => self.end_table(facts),
        }
    }

    /// No more entries.
    pub(super) fn end_table(&mut self, facts: &mut Facts<Label>) {
        if let TableText::Entries { table, .. } = std::mem::take(&mut self.table)
            && let Some(jump) = facts.jumps.last_mut()
        {
            jump.table = Some(table);
        }
    }

    /// The function ends: now it is known where all its blocks are.
    pub(super) fn end(&mut self, facts: &mut Facts<Label>) {
        self.end_table(facts);
        for (jump, to) in self.jumps.drain(..) {
            let targets = to.iter().filter_map(|&block| *self.blocks.get(block as usize)?);
            facts.jumps[jump].targets = targets.collect();
        }
        self.blocks.clear();
        self.beginning.clear();
    }
}

/// Bytes of an entry of the table called `label`, and whether it is relative to it.
fn entry(statement: &Statement<'_>, label: &[u8]) -> Option<(u8, bool)> {
    let size = match statement.word {
        b".long" => 4,
        b".quad" => 8,
        _ => return None,
    };
    match statement.operands.iter().position(|&byte| byte == b'-') {
        Some(minus) => (&statement.operands[minus + 1..] == label).then_some((size, true)),
        None => statement.operands.starts_with(b".L").then_some((size, false)),
    }
}
