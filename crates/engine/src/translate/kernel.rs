//! Calls of the kernel.

use super::{Progress, Spilled, Step, Writer, leave};
use crate::thread::offset;
use relive_abi::engine as abi;
use relive_abi::kernel::EFAULT;
use relive_code::isa::Gpr;

impl Writer<'_, '_> {
    /// A call of the kernel: at once if the engine has nothing to do with it. The kernel overwrites `rcx`.
    pub(super) fn kernel(&mut self, step: &Step) {
        let number = self.next_exit();
        let stub = self.unit.cold.here();
        let next = step.insn.next_addr().0;
        leave(&mut self.unit.cold, number);
        self.end_record(number);
        let hot = &mut self.unit.hot;
        hot.store(offset::SCRATCH, Gpr::RAX);
        hot.raw(&[0x0f, 0xb7, 0xc8]); // movzx ecx, ax
        hot.raw(&[0x65, 0x0f, 0xb6, 0x89]); // movzx ecx, byte gs:[rcx + …]
        hot.raw(&offset::KERNEL_CALLS.to_le_bytes());
        hot.raw(&[0xe3, 5]); // jrcxz to the call
        hot.raw(&[0xe9]);
        hot.distance(stub, 0);
        self.record_call();
        self.put_away();
        // Where the kernel comes back to if it wants to be called again.
        self.mark(step.pc(), Spilled::default());
        // Prefixes mean nothing, and the kernel goes back by two bytes.
        self.unit.hot.raw(&[0x0f, 0x05]);
        self.progress = Progress::Called;
        self.mark(next, Spilled::default());
        self.take_back();
        self.exit(abi::KERNEL, step.piece, step.pc(), next, 0, stub);
        // The kernel may not have been able to write to code.
        let refused = self.unit.cold.here();
        let number = self.next_exit();
        leave(&mut self.unit.cold, number);
        self.exit(abi::REFUSED, step.piece, step.pc(), next, 0, refused);
        self.unit.hot.raw(&[0x48, 0x8d, 0x48, EFAULT.0 as u8]); // lea rcx, [rax + …]
        self.unit.hot.raw(&[0xe3, 0]); // jrcxz to the last jump
        let short = self.unit.hot.bytes.len();
        self.record_result();
        // As the kernel leaves it: where it came back to.
        self.unit.hot.address(Gpr::RCX, next);
        let stub = self.unit.cold.here();
        let number = self.next_exit();
        leave(&mut self.unit.cold, number);
        let field = self.unit.hot.jump(stub);
        self.exit(abi::JUMP, step.piece, step.pc(), next, field, stub);
        self.unit.hot.bytes[short - 1] = (self.unit.hot.bytes.len() - short) as u8;
        self.unit.hot.raw(&[0xe9]);
        self.unit.hot.distance(refused, 0);
    }
}
