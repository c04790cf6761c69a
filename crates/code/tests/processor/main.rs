//! What `isa` says of instructions, against the processor.

mod check;
mod follow;

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
