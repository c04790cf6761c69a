//! What `isa` says of instructions, against the processor.

mod arena;
mod check;
mod draw;
mod follow;

use arena::Arena;
use follow::follow;
use relive_testkit::states::Watcher;
use std::path::Path;

#[test]
fn registers_of_system_programs() {
    let programs: [(&str, &[&str]); 3] = [
        ("/bin/true", &[]),
        ("/usr/bin/perl", &["-e", "print join ' ', sort map { $_ * 7 % 13 } 1..50"]),
        ("/bin/ls", &["-l", "/"]),
    ];
    let watcher = Watcher::default();
    for (program, args) in programs {
        let mut watched = watcher.start(Path::new(program), args);
        let followed = follow(&mut watched, 50_000, |_, _, _| {});
        assert!(followed.wrong.is_empty(), "{program}\n{}", followed.wrong.join("\n"));
        assert!(followed.compared > 30_000, "{program}: only {}", followed.compared);
    }
}

#[test]
fn registers_and_memory_of_instructions_drawn_at_random() {
    let findings = Arena::new().draw(1, 8_000);
    assert!(findings.wrong.is_empty(), "{}", findings.wrong.join("\n"));
    // What is said to be read makes a difference, unless it happens not to: a comparison with something else.
    let [read, mattered] = [1, 2].map(|i| findings.mnemonics.values().map(|counts| counts[i]).sum::<u64>());
    assert!(read > 2_000 && mattered > read * 3 / 4, "{mattered} of {read}");
}
