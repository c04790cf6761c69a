//! What is compared at each place: unwind rows, exceptions, counts and symbols.

use super::*;

impl Walk<'_, '_> {
    pub(super) fn check_row(&self, old: LinkAddr, new: LinkAddr, deeper: i64) -> Step {
        self.check_rows(&[old], new, deeper)
    }

    pub(super) fn check_rows(&self, old: &[LinkAddr], new: LinkAddr, deeper: i64) -> Step {
        let damaged = |what: &'static str| (new, what.to_string());
        let new_frame = self.new_frames.at(new).map_err(damaged)?;
        let new_row = new_frame.as_ref().and_then(|f| f.row(new));
        for &old in old {
            let old_frame = self.old_frames.at(old).map_err(damaged)?;
            if rows_agree(old_frame.as_ref().and_then(|f| f.row(old)), new_row, deeper) {
                return Ok(());
            }
        }
        Err((new, "it is unwound otherwise than the old code".into()))
    }

    pub(super) fn check_treatment(&self, old: LinkAddr, new: LinkAddr) -> Step {
        let damaged = |what: &'static str| (new, what.to_string());
        let old_frame = self.old_frames.at(old).map_err(damaged)?;
        let new_frame = self.new_frames.at(new).map_err(damaged)?;
        if old_frame.map(|f| f.treatment) != new_frame.map(|f| f.treatment) {
            return Err((new, "another personality, or none, treats its exceptions".into()));
        }
        Ok(())
    }

    /// Compares what becomes of an exception from `old`, whose new code ends at `end`.
    pub(super) fn check_throw(&mut self, id: BlockId, old: &Insn, end: LinkAddr, held: &Held) -> Step {
        let damaged = |what: &'static str| (end, what.to_string());
        let (old_at, new_at) = (LinkAddr(old.next_addr().0 - 1), LinkAddr(end.0 - 1));
        let old_frame = self.old_frames.at(old_at).map_err(damaged)?;
        let new_frame = self.new_frames.at(new_at).map_err(damaged)?;
        let old_site = old_frame.as_ref().and_then(|f| f.site(old_at));
        let new_site = new_frame.as_ref().and_then(|f| f.site(new_at));
        let differs = |what: &str| Err((new_at, format!("an exception from here {what}")));
        let (site, new_site) = match (old_site, new_site) {
            (None, None) | (Some(None), Some(None)) => return Ok(()),
            (Some(Some(old)), Some(Some(new))) => (old, new),
            (None, _) | (_, None) => return differs("had a table, or has one now"),
            (Some(None), _) => return differs("ended the program and does not any more"),
            (_, Some(None)) => return differs("did not end the program and now does"),
        };
        let old_lsda = old_frame.as_ref().and_then(|f| f.lsda.as_ref());
        let new_lsda = new_frame.as_ref().and_then(|f| f.lsda.as_ref());
        if let (Some(old), Some(new)) = (old_lsda, new_lsda)
            && !actions_agree((old, site), (new, new_site))
        {
            return differs("is caught by other types");
        }
        match (site.landing_pad, new_site.landing_pad) {
            (None, None) => Ok(()),
            (Some(pad), Some(new)) => {
                let Some(block) = self.cfg.block_starting(pad) else {
                    return differs("lands outside the function");
                };
                let arc = self.arcs_from[id.index()].iter().copied().find(|&i| {
                    let arc = &self.measured.flow.arcs[i];
                    arc.kind == ArcKind::LandingPad && arc.to == Node::Block(block)
                });
                self.arrive(arc, old.addr(), new, Target::Block(block), held)
            }
            _ => differs("landed and does not any more, or the other way round"),
        }
    }

    pub(super) fn check_counts(&mut self) {
        let flow = &self.measured.flow;
        let mut increments = Increments { arcs: self.arcs.clone(), blocks: self.blocks.clone() };
        // Nothing can be incremented on the way to outside but what was incremented before.
        for (i, arc) in flow.arcs.iter().enumerate() {
            let from_walked = match arc.from {
                Node::Block(from) => self.blocks[from.index()].is_some(),
                Node::Hub(hub) => {
                    flow.hubs[hub as usize].jumps.iter().any(|jump| self.blocks[jump.index()].is_some())
                }
                Node::Outside => false,
            };
            if increments.arcs[i].is_none() && from_walked && !matches!(arc.to, Node::Block(_)) {
                increments.arcs[i] = Some(0);
            }
        }
        for (i, arc) in flow.arcs.iter().enumerate() {
            if let (Node::Block(from), Some(sum)) = (arc.from, &mut increments.arcs[i])
                && arc.kind != ArcKind::NoReturn
            {
                *sum = sum.wrapping_add(self.tails[from.index()]);
            }
        }
        // Those who do not come through the gate are counted by their callers.
        if self.measured.plan.called {
            let enter = flow.arcs.iter().position(|arc| arc.kind == ArcKind::Enter);
            if let Some((Some(sum), counter)) =
                enter.map(|i| &mut increments.arcs[i]).zip(self.measured.plan.entry(flow))
            {
                *sum = sum.wrapping_add(weight(counter));
            }
        }
        let kept = match self.kept.increments() {
            Ok(kept) => kept,
            Err((at, what)) => return self.report(self.function.entry, at, what),
        };
        for (spot, by) in kept {
            let sum = match spot {
                Spot::Arc(arc) => &mut increments.arcs[arc],
                Spot::Block(block) => &mut increments.blocks[block.index()],
            };
            *sum = sum.map(|sum| sum.wrapping_add(by));
        }
        if let Some(wrong) = counts::check(self.measured, &increments) {
            let (old, what) = match wrong {
                counts::Wrong::Arc(i) => {
                    let arc = &flow.arcs[i];
                    let node = |node: Node| match node {
                        Node::Block(id) => self.cfg.block(id).start.to_string(),
                        Node::Hub(_) => "a computed jump".to_string(),
                        Node::Outside => "outside".to_string(),
                    };
                    let old = match (arc.from, arc.to) {
                        (Node::Block(id), _) | (_, Node::Block(id)) => self.cfg.block(id).start,
                        _ => self.function.entry,
                    };
                    let (from, to) = (node(arc.from), node(arc.to));
                    (old, format!("the edge from {from} to {to} ({:?}) is counted wrongly", arc.kind))
                }
                counts::Wrong::Block(i) => {
                    (self.cfg.blocks[i].start, "the block is counted wrongly".to_string())
                }
            };
            let new = self.cfg.block_starting(old).and_then(|id| self.places.get(&id)).copied();
            self.report(old, new.unwrap_or_default(), what);
        }
    }

    pub(super) fn check_symbols(&mut self) {
        let name = self.function.name();
        let mut missing = None;
        for (&id, &at) in &self.places {
            let behind = self.world.symbols.partition_point(|&(start, ..)| start <= at);
            let known = self.world.symbols[..behind].last();
            let named = known.is_some_and(|&(start, len, symbol)| {
                at.since(start) < len && (symbol == name || symbol.strip_suffix(".cold") == Some(&name))
            });
            if !named {
                let here = (self.cfg.block(id).start, at);
                missing = Some(missing.map_or(here, |known: (LinkAddr, LinkAddr)| known.min(here)));
            }
        }
        if let Some((old, new)) = missing {
            self.report(old, new, format!("no symbol names the new code after {name}"));
        }
    }
}
