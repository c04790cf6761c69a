use relive_code::stack_height::StackHeights;
use relive_image::image::Image;
use relive_image::program;

fn main() {
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path).expect("a readable file");
        let image = Image::parse(&bytes, None).expect("an ELF file");
        let program = program::analyze(&image);
        let (mut agree, mut unknown, mut disagree, mut badcfg, mut conf) = (0, 0, 0, 0, 0);
        for f in &program.functions {
            if let Err(why) = relive_code::verify::cfg::check(&f.cfg, &image.elf) {
                badcfg += 1;
                if badcfg < 10 {
                    println!("CFG {} {}: {why}", f.name(), f.entry);
                }
            }
            if !f.cfg.is_understood() {
                continue;
            }
            let heights = StackHeights::new(&f.cfg, &image.elf);
            if !heights.conflicts().is_empty() {
                conf += 1;
                if conf < 20 {
                    println!(
                        "CONFLICT {} {} {:?}",
                        f.name(),
                        f.entry,
                        heights.conflicts().iter().map(|b| f.cfg.block(*b).start).collect::<Vec<_>>()
                    );
                }
            }
            let mut cache: Option<(relive_image::unwind::Frame, Vec<_>)> = None;
            for (id, block) in f.cfg.numbered_blocks() {
                if !block.reached {
                    continue;
                }
                let Some(frame) = image.unwind.frame_holding(block.start) else { continue };
                if cache.as_ref().is_none_or(|c| c.0 != *frame) {
                    cache = Some((*frame, image.unwind.stack_depths(frame).unwrap_or_default()));
                }
                if !frame.starts_like_a_function {
                    continue;
                }
                let rows = &cache.as_ref().unwrap().1;
                let Some(Some(cfa)) = rows.iter().find(|(r, _)| r.contains(block.start)).map(|r| r.1) else {
                    continue;
                };
                match heights.at_block(id) {
                    None => {
                        unknown += 1;
                        if unknown < 15 {
                            println!("UNKNOWN {} {} {} cfa {cfa}", f.name(), f.entry, block.start);
                        }
                    }
                    Some(h) if 8 - h == cfa => agree += 1,
                    Some(h) => {
                        disagree += 1;
                        if disagree < 30 {
                            println!(
                                "DISAGREE {} {} {id} {} height {h} cfa {cfa}",
                                f.name(),
                                f.entry,
                                block.start
                            );
                        }
                    }
                }
            }
        }
        println!(
            "{path}: agree {agree} unknown {unknown} disagree {disagree} badcfg {badcfg} conflicts {conf}"
        );
    }
}
