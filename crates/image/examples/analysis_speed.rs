//! How long the data-flow analyses of `relive-code` take on all functions of a file, on one core.
//!
//!     cargo run --release -p relive-image --example analysis_speed -- $(gcc -print-prog-name=cc1)

use relive_code::isa::RegSet;
use relive_code::liveness::{Convention, Liveness};
use relive_code::stack_height::StackHeights;
use relive_image::image::Image;
use relive_image::program;
use std::time::Instant;

fn main() {
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path).expect("a readable file");
        let image = Image::parse(&bytes, None).expect("an ELF file");
        let program = program::analyze(&image);
        let cfgs: Vec<_> = program.functions.iter().map(|f| &f.cfg).collect();
        let blocks: usize = cfgs.iter().map(|cfg| cfg.blocks.len()).sum();
        let insns: u64 = cfgs.iter().flat_map(|cfg| &cfg.blocks).map(|block| u64::from(block.insns)).sum();
        println!("{path}: {} functions, {blocks} blocks, {insns} instructions", cfgs.len());

        for (name, convention) in [("cautious", Convention::cautious()), ("system_v", Convention::system_v())]
        {
            let start = Instant::now();
            let mut flags = 0;
            for cfg in &cfgs {
                let liveness = Liveness::new(cfg, &image.elf, &convention);
                flags += cfg
                    .numbered_blocks()
                    .filter(|(id, _)| liveness.live_in(*id).intersects(RegSet::ARITHMETIC_FLAGS))
                    .count();
            }
            println!("liveness, {name}: {:.3?}; flags live into {flags} blocks", start.elapsed());
        }

        let start = Instant::now();
        let (mut known, mut conflicts) = (0, 0);
        for cfg in &cfgs {
            let heights = StackHeights::new(cfg, &image.elf);
            known += cfg.numbered_blocks().filter(|(id, _)| heights.at_block(*id).is_some()).count();
            conflicts += heights.conflicts().len();
        }
        println!("stack heights: {:.3?}; known at {known} blocks, {conflicts} conflicts", start.elapsed());
    }
}
