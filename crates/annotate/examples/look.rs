use relive_annotate::object_file::ObjectFile;
use relive_annotate::placed::Placed;
use relive_image::annotations::describe;
fn main() {
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path).unwrap();
        let t = std::time::Instant::now();
        let object = ObjectFile::parse(&bytes).unwrap();
        let placed = Placed::new(&object).unwrap();
        let t1 = t.elapsed();
        let image = placed.image().unwrap();
        for c in &image.complaints {
            println!("complaint {c:?}");
        }
        let t2 = t.elapsed();
        let program = relive_image::program::analyze(&image);
        let t3 = t.elapsed();
        for f in program.functions.iter().filter(|f| !f.cfg.is_understood()) {
            println!("{}: {:?}", f.name(), f.cfg.problems);
        }
        let pieces: Vec<_> = program.functions.iter().flat_map(describe).collect();
        let blocks: usize = pieces.iter().map(|p| p.blocks.len()).sum();
        println!(
            "{path}: {} functions, {} pieces, {} blocks, {} jumps, {} lost; place {t1:?} image {t2:?} analyze {t3:?} {:?}",
            program.functions.len(),
            pieces.len(),
            blocks,
            pieces.iter().map(|p| p.jumps.len()).sum::<usize>(),
            pieces.iter().map(|p| p.no_return.len()).sum::<usize>(),
            program.timings
        );
    }
}
