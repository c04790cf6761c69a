//! Follows system programs instruction by instruction: whether each does to the registers what `isa::replay` says, and which
//! instructions lose the registers that addresses are made of.
//!
//!     cargo run --release -p relive-code --example follow_programs [STEPS [PROGRAM ARGUMENT…]]

#[path = "../tests/processor/check.rs"]
mod check;
#[path = "../tests/processor/follow.rs"]
mod follow;

use relive_code::isa::{
    EffectsReader, How, Insn, Operand, Operation, Part, RegSet, RegisterClass, Syntax, Term,
};
use relive_testkit::states::Watcher;
use std::collections::HashMap;
use std::path::Path;

/// A register that is not known.
#[derive(Clone)]
struct Lost {
    /// The kind of instruction that lost it, or what it was computed from.
    by: String,
    when: u64,
    /// Registers with the same number hold the same.
    value: u64,
}

/// What one would have to write down to know every address, if it were never forgotten.
#[derive(Default)]
struct Knowledge {
    registers: [Option<Lost>; 16],
    time: u64,
    accesses: u64,
    /// Registers that had to be written down: by who lost them, within 30 instructions and in all.
    values: HashMap<String, (u64, u64)>,
    /// Instructions whose addresses are in vector registers.
    lanes: u64,
}

impl Knowledge {
    fn see(&mut self, reader: &mut EffectsReader, insn: &Insn) {
        const SOON: u64 = 30;
        self.time += 1;
        let accesses = reader.accesses(insn);
        self.accesses += accesses.len() as u64;
        self.lanes += u64::from(accesses.iter().any(|a| matches!(a.how, How::Lanes { .. })));
        for register in accesses.iter().fold(RegSet::EMPTY, |all, access| all | access.needs()).gprs() {
            let Some(lost) = self.registers[register.number()].take() else { continue };
            let (soon, all) = self.values.entry(lost.by).or_default();
            *all += 1;
            *soon += u64::from(self.time - lost.when <= SOON);
            for other in &mut self.registers {
                if other.as_ref().is_some_and(|other| other.value == lost.value) {
                    *other = None;
                }
            }
        }
        let replayed = reader.replayed(insn);
        let before = self.registers.clone();
        for set in &replayed.sets {
            let unknown = set.needs().gprs().find_map(|r| before[r.number()].clone());
            let copied = matches!(set.operation, Operation::Copy(Term::Register(_, Part::Whole)));
            self.registers[set.to.number()] =
                unknown.map(|lost| if copied { lost } else { Lost { value: self.time, ..lost } });
        }
        for register in replayed.loses.gprs() {
            let value = self.time << 4 | register.number() as u64;
            self.registers[register.number()] = Some(Lost { by: form(insn), when: self.time, value });
        }
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
    let mut total = [0; 4];
    let mut wrong = 0;
    println!(
        "{:>12} {:>12} {:>12} {:>8} {:>6}  program",
        "instructions", "accesses", "values", "lanes", "wrong"
    );
    for line in programs {
        let mut program = watcher.start(Path::new(line[0]), &line[1..]);
        program.run_to_entry();
        let mut knowledge = Knowledge::default();
        let followed = follow::follow(&mut program, steps, |reader, insn, _| knowledge.see(reader, insn));
        let written: u64 = knowledge.values.values().map(|(_, all)| all).sum();
        let row = [followed.compared, knowledge.accesses, written, knowledge.lanes];
        println!(
            "{:>12} {:>12} {:>12} {:>8} {:>6}  {}",
            row[0],
            row[1],
            row[2],
            row[3],
            followed.wrong.len(),
            line.join(" ")
        );
        for message in followed.wrong.iter().take(20) {
            println!("    {message}");
        }
        wrong += followed.wrong.len();
        total.iter_mut().zip(row).for_each(|(sum, one)| *sum += one);
        for (form, (soon, all)) in knowledge.values {
            let sum = values.entry(form).or_default();
            *sum = (sum.0 + soon, sum.1 + all);
        }
    }
    println!("{:>12} {:>12} {:>12} {:>8} {wrong:>6}  all\n", total[0], total[1], total[2], total[3]);
    let mut values: Vec<_> = values.into_iter().collect();
    values.sort_by_key(|(form, (soon, _))| (std::cmp::Reverse(*soon), form.clone()));
    let sums = values.iter().fold((0, 0), |sum, (_, (soon, all))| (sum.0 + soon, sum.1 + all));
    println!("lost by, of registers that addresses are made of: within 30 instructions, at any time");
    for (form, (soon, all)) in values.iter().take(40) {
        let share = |part: u64, sum: u64| 100.0 * part as f64 / sum.max(1) as f64;
        println!("{soon:>9} {:>6.2} % {all:>9} {:>6.2} %  {form}", share(*soon, sums.0), share(*all, sums.1));
    }
    assert!(wrong == 0, "{wrong} instructions did something else than was said");
}
