//! Shows the facts in an object file that annotated text was made into: `facts FILE.o`.

use relive_annotate::{facts, object_file::ObjectFile};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for file in std::env::args().skip(1) {
        let data = std::fs::read(file)?;
        println!("{:#x?}", facts::read(&ObjectFile::parse(&data)?)?);
    }
    Ok(())
}
