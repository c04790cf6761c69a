//! Annotates an object file: `annotate_object IN.o OUT.o`, and says how long that took.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, from, to] = &args[..] else {
        eprintln!("usage: annotate_object IN.o OUT.o");
        std::process::exit(2);
    };
    let file = std::fs::read(from)?;
    let start = std::time::Instant::now();
    let out = relive_annotate::object::annotate(&file, "", false, &|| None)?;
    eprintln!("{from}: {} bytes, {:?}", file.len(), start.elapsed());
    Ok(std::fs::write(to, out.unwrap_or(file))?)
}
