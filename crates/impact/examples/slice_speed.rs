//! `slice_speed BINARY [COUNT]`: how large slices are if one function changes, for functions spread over the program, and
//! how long they take.

#[path = "../tests/slice/build.rs"]
mod build;

use relive_impact::Blocks;
use relive_impact::slice::{Seeds, Slice};
use std::time::Instant;

fn main() {
    let mut words = std::env::args().skip(1);
    let path = words.next().expect("a binary");
    let count: usize = words.next().and_then(|word| word.parse().ok()).unwrap_or(10);
    let module = build::describe(path.as_ref());
    let blocks: usize = module.functions.iter().map(|f| f.blocks.len()).sum();
    println!("{path}: {} functions, {blocks} blocks", module.functions.len());
    let described: Vec<u32> = (0..module.functions.len() as u32)
        .filter(|&f| module.functions[f as usize].edges.len() > 1)
        .collect();
    let step = (described.len() / count.max(1)).max(1);
    let (mut shares, mut seconds) = (Vec::new(), Vec::new());
    for &function in described.iter().step_by(step).take(count) {
        let mut seeds =
            Seeds { blocks: Blocks::none(&module), data: Vec::new(), idle: Blocks::none(&module) };
        seeds.blocks.insert_function(function);
        let start = Instant::now();
        let slice = Slice::forward(&module, &seeds);
        let took = start.elapsed().as_secs_f64();
        let share = |set: &Blocks| 100.0 * set.len() as f64 / blocks as f64;
        let (runs, all) = (share(&slice.runs), share(&slice.all(&module)));
        let name = module.name(&module.functions[function as usize]);
        println!("{name}: runs {runs:.1} %, all {all:.1} %, {took:.2} s");
        shares.push(all);
        seconds.push(took);
    }
    shares.sort_by(f64::total_cmp);
    seconds.sort_by(f64::total_cmp);
    if let (Some(share), Some(took)) = (shares.get(shares.len() / 2), seconds.get(seconds.len() / 2)) {
        println!("median: {share:.1} % of blocks, {took:.2} s");
    }
}
