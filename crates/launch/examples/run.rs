//! Runs a command under the engine.
fn main() {
    let mut args: Vec<_> = std::env::args_os().skip(1).collect();
    let count = args[0] == "-c";
    if count {
        args.remove(0);
    }
    match relive_launch::run(relive_launch::Options {
        command: args,
        count,
        time: std::env::var_os("T").is_some(),
    }) {
        Ok((ended, arena)) => {
            if std::env::var_os("V").is_some() {
                eprintln!("{ended:?}");
                for p in arena.processes() {
                    eprintln!(
                        "process {} pid {} records {} {:?}",
                        p.number,
                        p.pid,
                        arena.records(&p).len(),
                        p.statistics
                    );
                }
            }
            std::process::exit(match ended {
                relive_launch::Ended::Exit(n) => n,
                relive_launch::Ended::Signal(n) => 128 + n,
            });
        }
        Err(e) => {
            eprintln!("{e}");
            std::process::exit(2)
        }
    }
}
