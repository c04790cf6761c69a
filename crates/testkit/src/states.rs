//! A program in the hand: its registers and memory before and after each instruction, and what it does when they are changed.

use crate::compile::{Compiled, compile};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Starts programs. It is a small C program, for the same reason as [`crate::steps::Stepper`].
#[derive(Debug)]
pub struct Watcher {
    program: Compiled,
}

impl Default for Watcher {
    fn default() -> Self {
        Self { program: compile("gcc", &["-O2"], ("states.c", include_str!("states.c"))) }
    }
}

/// How many registers a state has.
pub const REGISTERS: usize = 27;
/// Where the program counter is among them.
pub const RIP: usize = 16;
/// Where the flags are.
pub const FLAGS: usize = 18;
/// Where the bases of `fs` and `gs` are.
pub const SEGMENT_BASES: [usize; 2] = [21, 22];
/// Where the general registers are, in their hardware order.
const GENERAL: [usize; 16] = [10, 11, 12, 5, 19, 4, 13, 14, 9, 8, 7, 6, 3, 2, 1, 0];
const DIRECTION: u64 = 1 << 10;

/// What there is between two instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    /// How it came to this.
    pub stop: Stop,
    /// All registers, as the kernel keeps them.
    pub registers: [u64; REGISTERS],
    /// The bytes of the instruction that comes next, and what lies behind it.
    pub code: [u8; 16],
}

/// How a program stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// An instruction was executed.
    Stepped,
    /// A signal arrived instead. With the next step it is delivered, and nothing else happens.
    Signal(u64),
    /// There is no program any more.
    Ended(u64),
}

impl State {
    /// The program counter.
    #[must_use]
    pub fn rip(&self) -> u64 {
        self.registers[RIP]
    }

    /// The general registers in their hardware order.
    #[must_use]
    pub fn general(&self) -> [u64; 16] {
        GENERAL.map(|i| self.registers[i])
    }

    /// Sets the general registers.
    pub fn set_general(&mut self, values: &[u64; 16]) {
        for (i, value) in GENERAL.into_iter().zip(values) {
            self.registers[i] = *value;
        }
    }

    /// Whether string instructions go downwards.
    #[must_use]
    pub fn backwards(&self) -> bool {
        self.registers[FLAGS] & DIRECTION != 0
    }

    /// Lets string instructions go downwards or upwards.
    pub fn set_backwards(&mut self, backwards: bool) {
        self.registers[FLAGS] = self.registers[FLAGS] & !DIRECTION | if backwards { DIRECTION } else { 0 };
    }
}

/// Registers that are vectors, masks or x87, as `xsave` writes them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Vectors {
    bytes: Vec<u8>,
    /// Where mask registers, upper halves of vectors and upper vectors are; zero if there are none.
    places: [usize; 3],
}

impl Vectors {
    /// Where the parts of a vector register are. Only those up to 15 exist without the upper ones.
    fn parts(&self, number: usize) -> Vec<(usize, usize)> {
        let [_, halves, upper] = self.places;
        let mut parts = match number {
            0..16 if halves == 0 => vec![(160 + 16 * number, 16), (576 + 16 * number, 16)],
            0..16 => vec![(160 + 16 * number, 16), (576 + 16 * number, 16), (halves + 32 * number, 32)],
            _ => vec![(upper + 64 * (number - 16), 64)],
        };
        parts.retain(|(at, len)| at + len <= self.bytes.len());
        parts
    }

    /// How many vector registers there are.
    #[must_use]
    pub fn count(&self) -> usize {
        if self.places[2] == 0 { 16 } else { 32 }
    }

    /// Whether there are mask registers.
    #[must_use]
    pub fn has_masks(&self) -> bool {
        self.places[0] != 0
    }

    /// What a vector register holds.
    #[must_use]
    pub fn vector(&self, number: usize) -> Vec<u8> {
        self.parts(number).into_iter().flat_map(|(at, len)| &self.bytes[at..at + len]).copied().collect()
    }

    /// Sets it.
    pub fn set_vector(&mut self, number: usize, value: &[u8; 64]) {
        let mut done = 0;
        for (at, len) in self.parts(number) {
            self.bytes[at..at + len].copy_from_slice(&value[done..done + len]);
            done += len;
        }
        self.mark();
    }

    /// What a mask register holds.
    #[must_use]
    pub fn mask(&self, number: usize) -> u64 {
        let at = self.places[0] + 8 * number;
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().expect("eight bytes"))
    }

    /// Sets it.
    pub fn set_mask(&mut self, number: usize, value: u64) {
        let at = self.places[0] + 8 * number;
        self.bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        self.mark();
    }

    /// Sets a register of the x87 stack, whose lower eight bytes are an MMX register.
    pub fn set_x87(&mut self, number: usize, value: &[u8; 10]) {
        const IN_USE: usize = 4;
        self.bytes[32 + 16 * number..][..10].copy_from_slice(value);
        self.bytes[IN_USE] |= 1 << number;
        self.mark();
    }

    /// What an MMX register holds.
    #[must_use]
    pub fn mmx(&self, number: usize) -> [u8; 8] {
        self.bytes[32 + 16 * number..][..8].try_into().expect("eight bytes")
    }

    /// The parts of the processor's state that the system has enabled: a bit for each, by number.
    #[must_use]
    pub fn enabled(&self) -> u64 {
        u64::from_le_bytes(self.bytes[464..472].try_into().expect("eight bytes"))
    }

    /// Says that they are not as they were at the start.
    fn mark(&mut self) {
        self.bytes[512] |= if self.places[0] == 0 { 0x07 } else { 0xe7 };
    }
}

/// A program that does nothing unless told to. It ends with this value.
#[derive(Debug)]
pub struct Watched {
    watcher: Child,
    orders: BufWriter<ChildStdin>,
    answers: BufReader<ChildStdout>,
    memory: File,
}

impl Watcher {
    /// Starts a program, stopped before its first instruction. It has nothing to read, and what it writes is thrown away.
    ///
    /// # Panics
    ///
    /// If processes cannot be watched here.
    #[must_use]
    pub fn start(&self, program: &Path, args: &[&str]) -> Watched {
        let mut watcher = Command::new(&*self.program)
            .arg(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the watcher starts");
        let mut orders = BufWriter::new(watcher.stdin.take().expect("a pipe"));
        let mut answers = BufReader::with_capacity(1 << 16, watcher.stdout.take().expect("a pipe"));
        order(&mut orders, b'G', &[]);
        let (_, pid) = read_state(&mut answers);
        let memory = File::options().read(true).write(true).open(format!("/proc/{pid}/mem"));
        Watched { watcher, orders, answers, memory: memory.expect("memory of the program") }
    }
}

fn order(to: &mut BufWriter<ChildStdin>, command: u8, with: &[u8]) {
    to.write_all(&[command]).expect("the watcher listens");
    to.write_all(with).expect("the watcher listens");
    to.flush().expect("the watcher listens");
}

fn read_number(from: &mut impl Read) -> u64 {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes).expect("the watcher answers");
    u64::from_le_bytes(bytes)
}

fn read_state(from: &mut impl Read) -> (State, u64) {
    let stop = match read_number(from) {
        0 => Stop::Stepped,
        ended @ 256.. => Stop::Ended(ended - 256),
        signal => Stop::Signal(signal),
    };
    let pid = read_number(from);
    let registers = std::array::from_fn(|_| read_number(from));
    let mut code = [0; 16];
    from.read_exact(&mut code).expect("the watcher answers");
    (State { stop, registers, code }, pid)
}

fn read_vectors(from: &mut impl Read) -> Vectors {
    let places = std::array::from_fn(|_| read_number(from) as usize);
    let mut bytes = vec![0; read_number(from) as usize];
    from.read_exact(&mut bytes).expect("the watcher answers");
    Vectors { bytes, places }
}

impl Watched {
    /// Runs the program to its entry, behind the dynamic linker.
    pub fn run_to_entry(&mut self) {
        order(&mut self.orders, b'E', &[]);
    }

    /// The state there is.
    pub fn state(&mut self) -> State {
        order(&mut self.orders, b'G', &[]);
        read_state(&mut self.answers).0
    }

    /// Executes an instruction. Of one that repeats itself, one turn.
    pub fn step(&mut self) -> State {
        self.steps(1)[0]
    }

    /// Executes some instructions; the states behind each.
    pub fn steps(&mut self, count: u64) -> Vec<State> {
        order(&mut self.orders, b'S', &count.to_le_bytes());
        (0..count).map(|_| read_state(&mut self.answers).0).collect()
    }

    /// Lets the program and all that it starts go to their ends. Tells of the state behind each instruction, and of which thread; of
    /// vectors and the like too, where the next instruction may find memory by them.
    pub fn run_all(&mut self, mut each: impl FnMut(u64, State, Vectors)) {
        order(&mut self.orders, b'T', &[]);
        loop {
            let (state, thread) = read_state(&mut self.answers);
            let vectors = read_vectors(&mut self.answers);
            if thread == 0 {
                return;
            }
            each(thread, state, vectors);
        }
    }

    /// The program, as the kernel numbers it.
    pub fn id(&mut self) -> u64 {
        order(&mut self.orders, b'G', &[]);
        read_state(&mut self.answers).1
    }

    /// Puts the registers of `state` in place. A signal that has arrived is forgotten.
    pub fn set_registers(&mut self, state: &State) {
        let bytes: Vec<u8> = state.registers.iter().flat_map(|r| r.to_le_bytes()).collect();
        order(&mut self.orders, b'R', &bytes);
    }

    /// The registers that are not in a [`State`]: vectors, masks, x87.
    pub fn vectors(&mut self) -> Vectors {
        order(&mut self.orders, b'X', &[]);
        read_vectors(&mut self.answers)
    }

    /// Sets them.
    pub fn set_vectors(&mut self, vectors: &Vectors) {
        let mut all = (vectors.bytes.len() as u64).to_le_bytes().to_vec();
        all.extend(&vectors.bytes);
        order(&mut self.orders, b'Y', &all);
    }

    /// Reads memory; whether all of it could be read.
    pub fn read(&self, at: u64, to: &mut [u8]) -> bool {
        self.memory.read_exact_at(to, at).is_ok()
    }

    /// Writes memory, also what the program itself may not write to.
    ///
    /// # Panics
    ///
    /// If it does not exist.
    pub fn write(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at).unwrap_or_else(|error| panic!("memory at {at:#x}: {error}"));
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // The program goes with who watches it.
        let _ = self.watcher.kill();
        let _ = self.watcher.wait();
    }
}
