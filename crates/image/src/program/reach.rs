//! Which functions have to be read if only those that were executed are of interest.
//!
//! A jump out of one may lead to a piece of it, and a call need not come back, which only the callee tells. So
//! whatever an executed function calls or jumps to is read as well. What those call is read only where they are not
//! understood without: their code seems to run off its end because what it calls last never comes back.

use super::analyze::{Analysis, Need, Working};
use super::holes;
use crate::provenance::Provenance;
use rayon::prelude::*;
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::cfg::{Cfg, EdgeKind};
use relive_code::isa::Decode;
use std::collections::BTreeSet;

impl Analysis<'_, '_> {
    /// Adds the functions that were entered and that no table announces.
    pub(super) fn add_executed(&mut self) {
        let Some(executed) = self.executed else { return };
        // From the back, so that each finds the next one as its fence.
        for &entry in executed.entries().iter().rev() {
            if self.world.image.stub_holding(entry).is_some() {
                continue;
            }
            let owner = self.layout.holding(entry);
            if owner.is_none_or(|owner| self.is_beyond_code(owner, entry)) {
                self.add_found(entry, Provenance::DataFlow, Need::Own);
            }
        }
    }

    /// Makes sure that functions of unknown length, which are about to be read, end where something else is called: as
    /// code that was not executed is not followed, nothing else tells.
    pub(super) fn fence_unread(&mut self) {
        let Some(executed) = self.executed else { return };
        let image = self.world.image;
        let is_open = |f: &&Working<'_>| f.stale && !f.absorbed && f.outline.open_ended && f.is_unread();
        let fences: BTreeSet<LinkAddr> = self
            .functions
            .iter()
            .filter(is_open)
            .filter_map(|f| self.world.references.next_called(f.entry()))
            .filter(|&at| image.elf.is_text(at) && image.stub_holding(at).is_none())
            .filter(|&at| {
                !executed.holds(at) && self.layout.holding(at).is_none_or(|f| self.is_beyond_code(f, at))
            })
            .collect();
        for &at in fences.iter().rev() {
            self.add_found(at, Provenance::DataFlow, Need::None);
        }
    }

    /// Marks what large functions call, so that it is known whether that comes back before they are read, which takes long.
    pub(super) fn reach_ahead(&mut self) {
        let image = self.world.image;
        let large = self.functions.par_iter().filter(|f| self.executed.is_some() && f.stale && f.can_wait());
        let calls = large.flat_map_iter(|f| &f.outline.pieces).flat_map_iter(|piece| {
            let bytes = image.elf.bytes_in(piece.start, piece.len()).unwrap_or_default();
            Decode::new(bytes, piece.start).filter_map(|insn| insn.call_target())
        });
        let reached = calls.filter_map(|to| self.layout.holding(to)).collect();
        self.mark(reached);
    }

    /// Marks what has to be read before the given functions are understood.
    pub(super) fn reach(&mut self, among: &[usize]) {
        if self.executed.is_none() {
            return;
        }
        let mut reached: Vec<usize> = Vec::new();
        for function in among.iter().map(|&i| &self.functions[i]) {
            let links = &function.links;
            let calls = if needs_callees(function) { links.calls.as_slice() } else { &[] };
            let exits = links
                .exits
                .iter()
                .filter(|(_, kind)| function.need == Need::Own && *kind != EdgeKind::LandingPad);
            let last: &[LinkAddr] = if links.returns { &[] } else { &links.returns_if };
            let targets = calls.iter().chain(exits.map(|(to, _)| to)).chain(last);
            reached.extend(targets.filter_map(|&to| self.layout.holding(to)));
        }
        self.mark(reached);
    }

    fn mark(&mut self, reached: Vec<usize>) {
        for i in reached {
            let function = &mut self.functions[i];
            if function.need == Need::None {
                function.need = Need::Others;
                function.stale = true;
            }
        }
    }

    /// Why to read a function that nobody announced, at a place that `by` calls or jumps to.
    pub(super) fn need_of_found(&self, by: &Working<'_>, at: LinkAddr) -> Need {
        match self.executed {
            None => Need::Own,
            Some(executed) if executed.holds(at) => Need::Own,
            Some(_) if needs_callees(by) => Need::Others,
            Some(_) => Need::None,
        }
    }

    /// Adds functions for code that was executed and is in none, or was taken for a part of the function before it
    /// although another jumps to it; whether there was any.
    pub(super) fn look_into_executed(&mut self) -> bool {
        let Some(executed) = self.executed else { return false };
        let mut pieces: Vec<AddrRange> = self.layout.pieces().collect();
        pieces.extend(holes::plts(self.world.image));
        pieces.sort_unstable();
        let mut found = executed.outside(pieces.into_iter());
        found.extend(executed.jumps().iter().filter(|jump| self.leads_elsewhere(jump)).map(|(_, to)| to));
        for &at in found.iter().rev() {
            self.add_found(at, Provenance::DataFlow, Need::Own);
        }
        !found.is_empty()
    }

    /// Whether a computed jump leads into a function that nobody announced, from another one.
    fn leads_elsewhere(&self, &(from, to): &(LinkAddr, LinkAddr)) -> bool {
        let owner = self.layout.holding(to);
        owner.is_some_and(|owner| self.functions[owner].outline.open_ended)
            && owner != self.layout.holding(from)
            && !self.found.contains(&to)
    }

    /// Leaves nothing but the outline of functions that were not executed, whoever needed them; nothing at all of those
    /// that no table announces, and of pieces.
    pub(super) fn outline_others(&mut self) {
        let Some(executed) = self.executed else { return };
        for (i, function) in self.functions.iter_mut().enumerate().filter(|(_, f)| !f.absorbed) {
            if function.cfg.pieces.iter().any(|&piece| executed.touches(piece)) {
                continue;
            }
            if function.fragment || function.vouchers.best() >= Some(Provenance::DataFlow) {
                function.absorbed = true;
                function.outline.pieces.iter().for_each(|piece| self.layout.remove(piece.start, i));
            }
            function.cfg = Cfg { pieces: function.outline.pieces.clone(), ..Cfg::default() };
        }
    }
}

fn needs_callees(function: &Working<'_>) -> bool {
    function.need == Need::Own || !function.cfg.is_understood()
}
