//! The gate in front of a moved function: code that the rewriter writes and the runtime steps over.
//!
//! `mov [rsp - 8], r11; mov r11, fs:[0]; cmp r11, gs:[owner]; mov r11, [rsp - 8]; jne slow`. Whoever comes from new code has
//! an area already and may enter right behind it.

/// `mov [rsp - 8], r11; mov r11, fs:[0]`.
pub const SAVE: [u8; 14] = [0x4c, 0x89, 0x5c, 0x24, 0xf8, 0x64, 0x4c, 0x8b, 0x1c, 0x25, 0, 0, 0, 0];
/// `cmp r11, gs:[rip + …]`; four bytes of distance follow.
pub const COMPARE: [u8; 4] = [0x65, 0x4c, 0x3b, 0x1d];
/// `mov r11, [rsp - 8]`.
pub const RESTORE: [u8; 5] = [0x4c, 0x8b, 0x5c, 0x24, 0xf8];
/// `jne`, always short; one byte of distance follows.
pub const UNLESS_EQUAL: u8 = 0x75;

/// Where the distance to the owner is.
pub const OWNER: u64 = (SAVE.len() + COMPARE.len()) as u64;
/// The length of a gate: behind it is the function, or a jump there.
pub const LEN: u64 = OWNER + 4 + RESTORE.len() as u64 + 2;
