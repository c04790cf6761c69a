//! Calls and jumps whose targets are recorded.

use super::*;
use relive_abi::counters::PLACES;

fn wrong<T>(at: LinkAddr, what: &str) -> Step<T> {
    Err((at, format!("the target is not recorded as it should: {what}")))
}

impl Walk<'_, '_> {
    /// A call or jump whose target is recorded; returns the address behind it.
    pub(super) fn recorded(&mut self, old: &Insn, site: u32, mut at: LinkAddr) -> Step<LinkAddr> {
        let text = old.text(Syntax::Intel).to_string();
        let operand = text.split_once("call ").or_else(|| text.split_once("jmp ")).map_or("", |(_, o)| o);
        let row = old.addr();
        // From r11 to r11 nothing need be moved.
        if operand != "r11" {
            let new = self.world.insn(at)?;
            let new_text = new.text(Syntax::Intel).to_string();
            let plain = |text: &str| text.replace("qword ptr ", "");
            let tie = |insn: &Insn, bytes: &[u8]| match insn.tie(bytes) {
                Tie::Operand { target, .. } => Some(target),
                _ => None,
            };
            let (fixed, new_fixed) = (tie(old, self.old_bytes(old)), tie(&new, self.world.bytes(at)));
            let same = match new_text.strip_prefix("mov r11, ") {
                Some(loaded) => fixed == new_fixed && (fixed.is_some() || plain(loaded) == plain(operand)),
                None => false,
            };
            if !same {
                return wrong(at, &format!("`{new_text}` does not load what `{text}` goes to"));
            }
            at = new.next_addr();
            self.check_row(row, at, 0)?;
        }
        let (mut miss, go) = self.usual(row, site, 0, at)?;
        let form = [0x3e, 0x41, 0xff, if old.flow() == Flow::IndirectCall { 0xd3 } else { 0xe3 }];
        if !self.world.bytes(go).starts_with(&form) {
            return wrong(go, "it does not go there");
        }
        self.check_row(row, go, 0)?;
        for place in 1..PLACES {
            let (next, behind) = self.usual(row, site, place, miss)?;
            self.goes_back(row, behind, go)?;
            miss = next;
        }
        let Some((len, number)) = shapes::push(self.world.bytes(miss)) else {
            return wrong(miss, "no site is told");
        };
        if number != site {
            return wrong(miss, "another site is told");
        }
        self.check_row(row, miss, 0)?;
        let call = self.world.insn(miss.offset(len))?;
        self.check_row(row, call.addr(), 8)?;
        if call.flow() != Flow::Call(self.world.call) {
            return wrong(call.addr(), "relive_call is not called");
        }
        self.goes_back(row, call.next_addr(), go)?;
        Ok(self.world.insn(go)?.next_addr())
    }

    /// The comparison with a usual target, and what follows if it is that. Returns where it goes on if not, and
    /// the address behind.
    fn usual(&self, row: LinkAddr, site: u32, place: u32, mut at: LinkAddr) -> Step<(LinkAddr, LinkAddr)> {
        let [key, count, way] = self.world.site(site, place);
        self.check_row(row, at, 0)?;
        match shapes::compare(self.world.bytes(at), at) {
            Some((len, to)) if to == key => at = at.offset(len),
            _ => return wrong(at, "it is not compared with the known target"),
        }
        self.check_row(row, at, 0)?;
        let Some((len, miss)) = shapes::if_not_equal(self.world.bytes(at), at) else {
            return wrong(at, "no way for a new target");
        };
        if !self.world.code.contains(miss) {
            return wrong(miss, "the way for a new target leaves the new code");
        }
        at = at.offset(len);
        self.check_row(row, at, 0)?;
        match shapes::increment(self.world.bytes(at), at) {
            Some((len, to)) if to == count => at = at.offset(len),
            _ => return wrong(at, "it is not counted"),
        }
        self.check_row(row, at, 0)?;
        match shapes::addition(self.world.bytes(at), at) {
            Some((len, to)) if to == way => Ok((miss, at.offset(len))),
            _ => wrong(at, "it does not take the way of the known target"),
        }
    }

    fn goes_back(&self, row: LinkAddr, at: LinkAddr, go: LinkAddr) -> Step {
        self.check_row(row, at, 0)?;
        if self.world.insn(at)?.flow() != Flow::Jump(go) {
            return wrong(at, "it does not go on behind it");
        }
        Ok(())
    }
}
