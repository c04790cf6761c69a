//! Follows system programs instruction by instruction: whether each does to the registers what `isa::replay` says, how many registers
//! one would have to write down to know every address, and which instructions lose them.
//!
//!     cargo run --release -p relive-code --example follow_programs [STEPS [PROGRAM ARGUMENT…]]

#[path = "../tests/processor/check.rs"]
mod check;
#[path = "../tests/processor/follow.rs"]
mod follow;

use relive_code::addr::LinkAddr;
use relive_code::isa::{
    Access, AccessKind, EffectsReader, Flow, Gpr, How, Insn, Operand, Operation, Part, RegSet, RegisterClass,
    Segment, Syntax, Term, Verb,
};
use relive_testkit::states::{SEGMENT_BASES, State, Watcher};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// A value that is not known, unless it was written down.
#[derive(Clone)]
struct Lost {
    /// The kind of instruction that lost it, or what it was computed from.
    by: String,
    when: u64,
    /// What has the same number is the same.
    value: u64,
}

/// What one would have to write down to know every address.
#[derive(Default)]
struct Knowledge {
    /// Only the stack pointer is known where straight code begins. Otherwise nothing is ever forgotten.
    forgets: bool,
    /// What whole registers were stored in memory, if that is kept in mind.
    memory: Option<HashMap<u64, Option<Lost>>>,
    registers: [Option<Lost>; 16],
    /// Values that were written down.
    written: HashSet<u64>,
    time: u64,
    /// Where straight code goes on.
    next: Option<LinkAddr>,
    accesses: u64,
    /// How many values had to be written down: by who lost them, within 30 instructions and in all.
    values: HashMap<String, (u64, u64)>,
}

impl Knowledge {
    fn see(&mut self, reader: &mut EffectsReader, insn: &Insn, state: &State) {
        self.time += 1;
        if self.forgets && self.next != Some(insn.addr()) {
            (0..16).filter(|&i| i != Gpr::RSP.number()).for_each(|i| self.lose(i, "entry"));
        }
        self.next = match insn.flow() {
            Flow::Jump(to) => Some(to),
            Flow::Call(_) | Flow::IndirectCall => None,
            _ => Some(insn.next_addr()),
        };
        let accesses = reader.accesses(insn);
        self.accesses += accesses.len() as u64;
        for register in accesses.iter().fold(RegSet::EMPTY, |all, access| all | access.needs()).gprs() {
            self.write(register);
        }
        let loaded = self.through_memory(insn, &accesses, state);
        let replayed = reader.replayed(insn);
        let before = self.registers.clone();
        for set in &replayed.sets {
            let lost = |r: Gpr| before[r.number()].clone().filter(|lost| !self.written.contains(&lost.value));
            let unknown = set.needs().gprs().find_map(lost);
            let copied = matches!(set.operation, Operation::Copy(Term::Register(_, Part::Whole)));
            let value = self.time << 4 | set.to.number() as u64;
            self.registers[set.to.number()] =
                unknown.map(|lost| if copied { lost } else { Lost { value, ..lost } });
        }
        let form = form(insn);
        replayed.loses.gprs().for_each(|register| self.lose(register.number(), &form));
        if let Some((register, value)) = loaded {
            self.registers[register] = value;
        }
    }

    fn lose(&mut self, register: usize, by: &str) {
        let value = self.time << 4 | register as u64;
        self.registers[register] = Some(Lost { by: by.into(), when: self.time, value });
    }

    /// Writes a register down if it is not known.
    fn write(&mut self, register: Gpr) {
        const SOON: u64 = 30;
        let Some(lost) = self.registers[register.number()].take() else { return };
        if self.written.insert(lost.value) {
            let (soon, all) = self.values.entry(lost.by).or_default();
            *all += 1;
            *soon += u64::from(self.time - lost.when <= SOON);
        }
    }

    /// What a load of a whole register brings, if it was stored before.
    fn through_memory(
        &mut self,
        insn: &Insn,
        accesses: &[Access],
        state: &State,
    ) -> Option<(usize, Option<Lost>)> {
        let memory = self.memory.as_mut()?;
        let at = |access: &Access| {
            let base = state.registers[SEGMENT_BASES[usize::from(access.segment == Segment::Gs)]];
            access.address(&state.general(), base)
        };
        for access in accesses.iter().filter(|access| access.kind != AccessKind::Read) {
            let times = if access.how == How::Plain { 1 } else { state.general()[1].min(1 << 16) };
            let len = u64::from(access.size) * times;
            let start = if state.backwards() { at(access).wrapping_sub(len) } else { at(access) };
            (start.wrapping_sub(7)..start.wrapping_add(len)).for_each(|at| drop(memory.remove(&at)));
        }
        let whole = |operand: &Operand| match operand {
            Operand::Register(name) if name.class == RegisterClass::General && name.width == 8 => {
                Some(usize::from(name.number))
            }
            _ => None,
        };
        let operands: Vec<Operand> = insn.operands().collect();
        match (insn.verb(), &operands[..], accesses) {
            (Verb::Mov, [Operand::Memory(_), from], [access]) | (Verb::Push, [from], [access]) => {
                memory.insert(at(access), self.registers[whole(from)?].clone());
                None
            }
            (Verb::Mov, [to, Operand::Memory(_)], [access]) | (Verb::Pop, [to], [access]) => {
                Some((whole(to)?, memory.get(&at(access))?.clone()))
            }
            _ => None,
        }
    }

    fn count(&self) -> u64 {
        self.values.values().map(|(_, all)| all).sum()
    }
}

/// An instruction without its particulars: `mov r8, m8`.
fn form(insn: &Insn) -> String {
    let text = insn.text(Syntax::Intel).to_string();
    let name = text.split(' ').next().unwrap_or_default();
    let operands: Vec<String> = insn
        .operands()
        .map(|operand| match operand {
            Operand::Register(name) => match name.class {
                RegisterClass::General => format!("r{}", 8 * u32::from(name.width)),
                RegisterClass::Vector => "vector".into(),
                RegisterClass::Other => "other".into(),
            },
            Operand::Immediate(_) => "number".into(),
            Operand::Memory(memory) => format!("m{}", 8 * u32::from(memory.width)),
            Operand::Target(_) => "target".into(),
        })
        .collect();
    format!("{name} {}", operands.join(", "))
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let steps: u64 = args.first().map_or(300_000, |steps| steps.parse().expect("a number of steps"));
    let usual: [&[&str]; 8] = [
        &["/bin/true"],
        &["/bin/ls", "-l", "/usr/bin"],
        &["/bin/gzip", "-c", "/bin/true"],
        &["/usr/bin/perl", "-e", "print join ' ', sort map { $_ * 7 % 1301 } 1..50000"],
        &["/usr/bin/python3", "-c", "print(sum(i * i for i in range(10000)))"],
        &["/usr/bin/sort", "/etc/services", "/etc/passwd"],
        &["/usr/bin/awk", "{ n[$1]++ } END { for (i in n) print i, n[i] }", "/etc/services"],
        &["/usr/bin/openssl", "dgst", "-sha256", "/bin/true"],
    ];
    let own: Vec<&str> = args.iter().skip(1).map(String::as_str).collect();
    let programs = if own.is_empty() { usual.to_vec() } else { vec![&own[..]] };
    let watcher = Watcher::default();
    let mut values: HashMap<String, (u64, u64)> = HashMap::new();
    let mut total = [0; 6];
    println!(
        "values to write down: if registers are forgotten where straight code begins; if not; if stores are kept in mind, too"
    );
    println!("instructions   accesses forgetting     values with memory  wrong  program");
    let show = |row: [u64; 6], what: &str| {
        println!(
            "{:>12} {:>10} {:>10} {:>10} {:>11} {:>6}  {what}",
            row[0], row[1], row[2], row[3], row[4], row[5]
        );
    };
    for line in programs {
        let mut program = watcher.start(Path::new(line[0]), &line[1..]);
        program.run_to_entry();
        let mut forgetting = Knowledge { forgets: true, ..Knowledge::default() };
        let mut knowledge = Knowledge::default();
        let mut remembering = Knowledge { memory: Some(HashMap::new()), ..Knowledge::default() };
        let followed = follow::follow(&mut program, steps, |reader, insn, state| {
            for one in [&mut forgetting, &mut knowledge, &mut remembering] {
                one.see(reader, insn, state);
            }
        });
        let counts = [forgetting.count(), knowledge.count(), remembering.count()];
        let wrong = followed.wrong.len() as u64;
        let row = [followed.compared, knowledge.accesses, counts[0], counts[1], counts[2], wrong];
        show(row, &line.join(" "));
        followed.wrong.iter().take(20).for_each(|message| println!("    {message}"));
        total.iter_mut().zip(row).for_each(|(sum, one)| *sum += one);
        for (form, (soon, all)) in knowledge.values {
            let sum = values.entry(form).or_default();
            *sum = (sum.0 + soon, sum.1 + all);
        }
    }
    show(total, "all\n");
    let mut values: Vec<_> = values.into_iter().collect();
    values.sort_by_key(|(form, (soon, _))| (std::cmp::Reverse(*soon), form.clone()));
    let sums = values.iter().fold((0, 0), |sum, (_, (soon, all))| (sum.0 + soon, sum.1 + all));
    println!("lost by, of registers that addresses are made of: within 30 instructions, at any time");
    for (form, (soon, all)) in values.iter().take(40) {
        let share = |part: u64, sum: u64| 100.0 * part as f64 / sum.max(1) as f64;
        println!("{soon:>9} {:>6.2} % {all:>9} {:>6.2} %  {form}", share(*soon, sums.0), share(*all, sums.1));
    }
    assert!(total[5] == 0, "{} instructions did something else than was said", total[5]);
}
