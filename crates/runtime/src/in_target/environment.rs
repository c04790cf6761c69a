//! What the kernel gave the process: environment and auxiliary vector.

use core::ffi::CStr;

use super::syscall;

const VARIABLE: &[u8] = b"RELIVE_PROFILE=";

const AT_PHDR: u64 = 3;
const AT_PHNUM: u64 = 5;
const AT_BASE: u64 = 7;
const AT_SECURE: u64 = 23;
const AT_EXECFN: u64 = 31;

/// What matters here.
#[derive(Default)]
pub(crate) struct Environment {
    /// Length of the pattern that the environment asks for; zero if it does not.
    pub(crate) pattern_len: usize,
    /// The path of the executable.
    pub(crate) executable: &'static [u8],
    /// The program headers of the executable: address and number.
    pub(crate) headers: (u64, u64),
    /// Where the dynamic linker is; zero if there is none.
    pub(crate) linker: u64,
    secure: bool,
}

impl Environment {
    /// From the stack as the kernel leaves it. Copies the pattern into the buffer.
    ///
    /// # Safety
    /// The stack must look like that.
    pub(crate) unsafe fn from_stack(mut stack: *const u64, pattern: &mut [u8]) -> Self {
        let mut environment = Environment::default();
        // SAFETY: argument count, arguments, 0, environment, 0, pairs up to AT_NULL.
        unsafe {
            stack = stack.add(*stack as usize + 2);
            let variables = stack;
            while *stack != 0 {
                stack = stack.add(1);
            }
            stack = stack.add(1);
            while *stack != 0 {
                environment.take_pair(*stack, *stack.add(1));
                stack = stack.add(2);
            }
            stack = variables;
            while *stack != 0 && !environment.secure {
                let variable = CStr::from_ptr(*stack as *const _).to_bytes();
                if let Some(value) = variable.strip_prefix(VARIABLE) {
                    environment.pattern_len = copy(value, pattern);
                    break;
                }
                stack = stack.add(1);
            }
        }
        environment
    }

    /// From `/proc`: what a library has that is started by whatever C library, at whatever time.
    pub(crate) fn from_proc(pattern: &mut [u8]) -> Self {
        let mut environment = Environment::default();
        if let Ok(fd) = syscall::open(c"/proc/self/auxv", syscall::O_RDONLY, 0) {
            let mut pair = [0u8; 16];
            while syscall::read(fd, &mut pair) == Ok(16) {
                let value = u128::from_le_bytes(pair);
                environment.take_pair(value as u64, (value >> 64) as u64);
            }
            syscall::close(fd);
        }
        if environment.secure {
            return environment;
        }
        if let Ok(fd) = syscall::open(c"/proc/self/environ", syscall::O_RDONLY, 0) {
            let mut search = Search::new();
            let mut chunk = [0u8; 256];
            while let Ok(len @ 1..) = syscall::read(fd, &mut chunk) {
                search.feed(chunk.get(..len).unwrap_or(&[]), pattern);
            }
            environment.pattern_len = search.len;
            syscall::close(fd);
        }
        environment
    }

    fn take_pair(&mut self, kind: u64, value: u64) {
        match kind {
            AT_PHDR => self.headers.0 = value,
            AT_PHNUM => self.headers.1 = value,
            AT_BASE => self.linker = value,
            AT_SECURE => self.secure = value != 0,
            // SAFETY: the kernel's string.
            AT_EXECFN => self.executable = unsafe { CStr::from_ptr(value as *const _) }.to_bytes(),
            _ => {}
        }
    }
}

fn copy(from: &[u8], to: &mut [u8]) -> usize {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
    if from.len() <= to.len() { from.len() } else { 0 }
}

/// Looks for the variable in an environment that comes in pieces.
struct Search {
    /// How many bytes of this variable agree; none will if it is too large.
    agree: usize,
    len: usize,
    found: bool,
}

impl Search {
    fn new() -> Self {
        Search { agree: 0, len: 0, found: false }
    }

    fn feed(&mut self, piece: &[u8], value: &mut [u8]) {
        for &byte in piece {
            if byte == 0 {
                self.found |= self.agree == VARIABLE.len();
                self.agree = 0;
            } else if self.found {
            } else if self.agree == VARIABLE.len() {
                if let Some(at) = value.get_mut(self.len) {
                    *at = byte;
                    self.len += 1;
                }
            } else if VARIABLE.get(self.agree) == Some(&byte) {
                self.agree += 1;
            } else {
                self.agree = usize::MAX;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Search;

    #[test]
    fn variable_is_found_in_pieces() {
        let environ =
            b"XRELIVE_PROFILE=no\0RELIVE_PROFILE2=no\0A=RELIVE_PROFILE=no\0RELIVE_PROFILE=yes/%p\0B=1\0";
        for size in 1..environ.len() {
            let mut search = Search::new();
            let mut value = [0; 32];
            for piece in environ.chunks(size) {
                search.feed(piece, &mut value);
            }
            assert_eq!(&value[..search.len], b"yes/%p");
        }
    }
}
