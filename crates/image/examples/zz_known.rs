use relive_code::stack_height::StackHeights;
use relive_image::image::Image;
use relive_image::program;
fn main() {
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path).expect("a readable file");
        let image = Image::parse(&bytes, None).expect("an ELF file");
        let program = program::analyze(&image);
        let (mut all, mut known, mut pads, mut kpads) = (0, 0, 0, 0);
        for f in program.functions.iter().filter(|f| f.cfg.is_understood()) {
            let heights = StackHeights::new(&f.cfg, &image.elf);
            for (id, b) in f.cfg.numbered_blocks().filter(|b| b.1.reached) {
                let _ = b;
                let k = usize::from(heights.at_block(id).is_some());
                all += 1; known += k;
                if f.cfg.landing_pads.contains(&id) { pads += 1; kpads += k; }
            }
        }
        println!("{path}: {known} of {all} known ({:.2}%), pads {kpads} of {pads}", known as f64 * 100.0 / all as f64);
    }
}
