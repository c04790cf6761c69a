//! The `relive` command.
use relive_image::image::Image;
use relive_image::program::analyze;
fn main() {
    let path = std::env::args().nth(1).unwrap();
    let mode = std::env::args().nth(2).unwrap_or_default();
    let data = std::fs::read(&path).unwrap();
    let t = std::time::Instant::now();
    let image = Image::parse(&data, None).unwrap();
    eprintln!("parse {:?}", t.elapsed());
    let program = analyze(&image);
    eprintln!("all {:?} {:?}", t.elapsed(), program.timings);
    let (total, und) = program.text_bytes();
    let n = program.functions.len();
    let u = program.functions.iter().filter(|f| f.cfg.is_understood()).count();
    println!(
        "functions {n} understood {u} text {total} understood {und} {:.2}%",
        und as f64 * 100.0 / total as f64
    );
    println!(
        "blocks {} edges {} tables {}",
        program.functions.iter().map(|f| f.cfg.blocks.len()).sum::<usize>(),
        program.functions.iter().map(|f| f.cfg.edges.len()).sum::<usize>(),
        program.functions.iter().map(|f| f.cfg.tables.len()).sum::<usize>()
    );
    for f in &program.functions {
        if mode == "blocks" {
            println!("{} {} {:?}\n{}", f.name(), f.entry, f.cfg.pieces, f.cfg.dump());
        } else if !f.cfg.is_understood() {
            println!(
                "{} {} {} {:?}",
                f.name(),
                f.entry,
                f.size(),
                f.cfg.problems.iter().take(3).collect::<Vec<_>>()
            );
        }
    }
    for s in &program.stretches {
        if s.kind == relive_image::program::StretchKind::Unknown {
            println!("{s:?}");
        }
    }
}
