//! Where control comes into new code from elsewhere: gates in front of entries, and the way back from the kernel.

use super::*;
use relive_abi::gate;

/// With the slow way in front of it, seven bytes, and with these the gate takes a multiple of 16.
const FILL_BEFORE_GATE: usize = 12;
const _: () = assert!((FILL_BEFORE_GATE as u64 + 7 + gate::LEN).is_multiple_of(16));

/// What a counter takes mostly.
const INC_LEN: usize = 8;

impl Emitter<'_> {
    /// Calls from code that does not know of this copy come through a gate, which sees to it that the
    /// thread has an area to count in.
    fn gate(&mut self, slow: Label) -> Label {
        let gate = self.a.label();
        self.a.bind(gate);
        self.a.raw(&gate::SAVE);
        self.a.raw(&gate::COMPARE);
        self.a.with_distance(&[0; 4], 0, Dest::Area(0));
        self.a.raw(&gate::RESTORE);
        self.a.jump(Some(5), Dest::Label(slow)); // jne
        gate
    }

    /// Behind a system call this may be another process, or another thread: it then needs an area of its own.
    /// The kernel has overwritten `rcx` and `r11`, so they are free; flags are left alone.
    pub(super) fn look_round(&mut self, insn: &Insn) {
        self.row(insn.addr());
        let row = self.rows.last().and_then(|&(_, row, _)| row);
        self.a.raw(&[0x64, 0x4c, 0x8b, 0x1c, 0x25, 0, 0, 0, 0]); // mov r11, fs:[0]
        self.a.with_distance(&[0x65, 0x48, 0x8b, 0x0d, 0, 0, 0, 0], 4, Dest::Area(0)); // mov rcx, gs:[owner]
        self.a.raw(&[0x48, 0xf7, 0xd1]); // not rcx
        self.a.raw(&[0x4a, 0x8d, 0x4c, 0x19, 0x01]); // lea rcx, [rcx + r11 + 1]
        self.a.raw(&[0xe3, 18]); // jrcxz, over the rest
        self.a.raw(&[0x48, 0x8d, 0x64, 0x24, 0x80]); // lea rsp, [rsp - 128]
        self.rows.push((self.a.pos(), row, 128));
        self.a.with_distance(&[0xe8, 0, 0, 0, 0], 1, Dest::Runtime(Routine::Enter));
        self.a.raw(&[0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0]); // lea rsp, [rsp + 128]
        self.rows.push((self.a.pos(), row, 0));
    }

    fn slow_way(&mut self, slow: Label, entry: Label) {
        self.a.bind(slow);
        self.a.with_distance(&[0xe8, 0, 0, 0, 0], 1, Dest::Runtime(Routine::Enter));
        self.a.jump(None, Dest::Label(entry));
    }

    /// What is counted only for those who come through the gate.
    pub(super) fn counted_at_gate(&self) -> Option<Task> {
        let counter = if self.job.plan.called { self.job.plan.entry(self.job.flow) } else { None };
        counter.map(Task::Count)
    }

    /// Behind a gate, before the entry.
    fn pass_gate(&mut self, block: BlockId) {
        if let Some(Task::Count(counter)) = self.counted_at_gate() {
            self.count(Way::best(self.liveness.live_in(block)), counter);
        }
    }

    /// The gate of the first entry runs straight into it, and leaves it aligned.
    pub(super) fn gate_in_front(&mut self, block: BlockId, entry: Label) -> Label {
        self.entry_row();
        let counts = self.counted_at_gate().is_some();
        self.a.raw(&[0xcc; FILL_BEFORE_GATE][if counts { INC_LEN } else { 0 }..]);
        let (slow, passed) = (self.a.label(), if counts { self.a.label() } else { entry });
        self.slow_way(slow, passed);
        let gate = self.gate(slow);
        if counts {
            self.a.bind(passed);
            self.pass_gate(block);
        }
        gate
    }

    /// Gates of other entries.
    pub(super) fn gates<'e>(
        &mut self,
        entries: impl Iterator<Item = &'e (LinkAddr, Label)>,
    ) -> Vec<(LinkAddr, Label)> {
        let entries: Vec<_> = entries.copied().collect();
        let mut gates = Vec::new();
        for (at, entry) in entries {
            self.entry_row();
            let (slow, mut passed) = (self.a.label(), entry);
            gates.push((at, self.gate(slow)));
            let block = self.job.cfg.block_starting(at).filter(|_| self.counted_at_gate().is_some());
            if let Some(block) = block {
                passed = self.a.label();
                self.a.bind(passed);
                self.pass_gate(block);
            }
            self.a.jump(None, Dest::Label(entry));
            self.slow_way(slow, passed);
        }
        gates
    }
}
