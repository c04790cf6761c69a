//! Temporary.
use relive_image::{image::Image, program::analyze};
fn main() {
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path).unwrap();
        let image = Image::parse(&bytes, None).unwrap();
        let start = std::time::Instant::now();
        let p = analyze(&image);
        let t = start.elapsed();
        let u = p.functions.iter().filter(|f| f.cfg.is_understood()).count();
        let mut bounds = std::collections::BTreeMap::new();
        for t in p.functions.iter().flat_map(|f| &f.cfg.tables) { *bounds.entry(t.bound.name()).or_insert(0) += 1; }
        let e: usize = p.functions.iter().map(|f| f.cfg.edges.len()).sum();
        println!("{path}: {} functions {u} understood {e} edges {bounds:?} text {:?}", p.functions.len(), p.text_bytes());
        eprintln!("{path} {t:?}");
    }
}
