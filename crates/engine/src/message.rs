//! Last words.

use core::fmt::{self, Write};
use relive_abi::kernel;

/// Standard error, of whatever program this is.
struct Standard;

impl Write for Standard {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let _ = kernel::write(2, text.as_bytes());
        Ok(())
    }
}

/// Something in the engine is wrong: says what, and ends the process.
pub fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    fatal(format_args!("{info}"))
}

/// One line.
pub fn say(what: fmt::Arguments<'_>) {
    let _ = writeln!(Standard, "{what}");
}

/// The same as [`panic()`].
pub fn fatal(what: fmt::Arguments<'_>) -> ! {
    let _ = writeln!(Standard, "relive: the engine is broken: {what}");
    kernel::exit(125)
}
