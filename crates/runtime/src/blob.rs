//! The root of what is linked into measured programs. See `build.rs`.

#![no_std]
#![no_main]

mod in_target;

relive_abi::memory_functions!();

/// Never reached: nothing in here panics (or the link would need relocations and be refused).
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    in_target::syscall::abort()
}
