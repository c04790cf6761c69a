//! The program's own `gs`. The register is the engine's, so that what the program believes to have in it is kept apart
//! (see `translate::segment` for the instructions).

use crate::entry;
use crate::kernel_calls::number::ARCH_PRCTL;
use crate::program_memory;
use crate::thread::Thread;
use relive_abi::kernel::{EOPNOTSUPP, EPERM, Errno};

/// `arch_prctl`.
pub fn prctl(thread: &mut Thread, call: [usize; 6]) -> Result<usize, Errno> {
    const ARCH_SET_GS: usize = 0x1001;
    const ARCH_GET_GS: usize = 0x1004;
    const ARCH_SHSTK_ENABLE: usize = 0x5001;
    /// The end of what a program can address.
    const END: usize = 0x7fff_ffff_f000;
    match call[0] {
        ARCH_SET_GS if call[1] >= END => Err(EPERM),
        ARCH_SET_GS => {
            thread.gs_base = call[1] as u64;
            thread.gs_selector = 0;
            Ok(0)
        }
        ARCH_GET_GS => program_memory::write(call[1], &thread.gs_base).map(|()| 0),
        // Returns do not go through the processor's stack of them.
        ARCH_SHSTK_ENABLE => Err(EOPNOTSUPP),
        _ => entry::call(ARCH_PRCTL, &call),
    }
}
