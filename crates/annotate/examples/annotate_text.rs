//! Annotates assembler text: `annotate_text IN.s OUT.s`, and says how long that took.

fn main() -> Result<(), std::io::Error> {
    let args: Vec<String> = std::env::args().collect();
    let [_, from, to] = &args[..] else {
        eprintln!("usage: annotate_text IN.s OUT.s");
        std::process::exit(2);
    };
    let text = std::fs::read(from)?;
    let start = std::time::Instant::now();
    let out = relive_annotate::text::annotate(&text, from);
    eprintln!("{from}: {} bytes, {:?}", text.len(), start.elapsed());
    std::fs::write(to, out.unwrap_or(text))
}
