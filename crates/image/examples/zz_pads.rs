use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindContext, UnwindSection as _};
use object::{Object as _, ObjectSection as _};
use relive_code::cfg::{EdgeKind, Target};
use relive_code::stack_height::StackHeights;
use relive_image::image::Image;
use relive_image::program;
use std::collections::{BTreeMap, BTreeSet};

fn main() {
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path).expect("a readable file");
        let elf = object::File::parse(&*bytes).unwrap();
        let sec = elf.section_by_name(".eh_frame").unwrap();
        let eh = EhFrame::new(sec.data().unwrap(), LittleEndian);
        let mut bases = BaseAddresses::default().set_eh_frame(sec.address());
        if let Some(t) = elf.section_by_name(".text") {
            bases = bases.set_text(t.address());
        }
        let mut rows: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        let mut ctx = UnwindContext::new();
        let mut entries = eh.entries(&bases);
        while let Ok(Some(e)) = entries.next() {
            let CieOrFde::Fde(p) = e else { continue };
            let Ok(fde) = p.parse(EhFrame::cie_from_offset) else { continue };
            let Ok(mut t) = fde.rows(&eh, &bases, &mut ctx) else { continue };
            while let Ok(Some(r)) = t.next_row() {
                rows.insert(r.start_address(), (r.end_address(), r.saved_args_size()));
            }
        }
        let image = Image::parse(&bytes, None).expect("an ELF file");
        let program = program::analyze(&image);
        let (mut edges, mut with_args, mut a_ok, mut a_wrong, mut a_none, mut b_ok, mut b_wrong) =
            (0, 0, 0, 0, 0, 0, 0);
        let mut inconsistent = 0;
        let (mut cc, mut dd, mut ee) = ([0; 3], [0; 3], [0; 3]);
        for f in &program.functions {
            if !f.cfg.is_understood() {
                continue;
            }
            let heights = StackHeights::new(&f.cfg, &image.elf);
            let mut throws = vec![];
            for e in &f.cfg.edges {
                let (EdgeKind::LandingPad, Target::Block(pad)) = (e.kind, e.to) else { continue };
                let call = f.cfg.block(e.from).last_insn();
                let Some(h) = heights.per_insn(e.from).last().unwrap().1 else { continue };
                let args =
                    rows.range(..=call.0).next_back().filter(|r| call.0 < r.1.0).map_or(0, |r| r.1.1) as i64;
                throws.push((pad, h, args, call));
            }
            let rest = f
                .cfg
                .numbered_blocks()
                .filter(|(_, b)| b.reached && b.end.is_call())
                .filter_map(|(id, _)| heights.per_insn(id).last().unwrap().1)
                .max();
            for &(pad, h, args, call) in &throws {
                let b = f.cfg.block_holding(call).unwrap();
                let per = heights.per_insn(b);
                let lowered = b.0 != 0 && per.windows(2).any(|w| w[1].1 < w[0].1);
                let t = h + args;
                let c = Some(h) == rest;
                let d = c && !lowered;
                cc[if !c {
                    2
                } else if t == h {
                    0
                } else {
                    1
                }] += 1;
                dd[if !d {
                    2
                } else if t == h {
                    0
                } else {
                    1
                }] += 1;
                let e = !lowered;
                ee[if !e {
                    2
                } else if t == h {
                    0
                } else {
                    1
                }] += 1;
                if d && t != h {
                    println!("D wrong {} {call} {h} {args}", f.entry);
                }
                let _ = pad;
            }
            let max = throws.iter().map(|t| t.1).max();
            let truths: BTreeSet<i64> = throws.iter().map(|t| t.1 + t.2).collect();
            if truths.len() > 1 {
                inconsistent += 1;
                println!("INCONSISTENT {} {} {truths:?}", f.name(), f.entry);
            }
            for &(pad, h, args, call) in &throws {
                edges += 1;
                if args > 0 {
                    with_args += 1;
                }
                let truth = h + args;
                match heights.at_block(pad) {
                    None => a_none += 1,
                    Some(x) if x == truth => a_ok += 1,
                    Some(x) => {
                        a_wrong += 1;
                        if a_wrong < 5 {
                            println!(
                                "A wrong: {} pad {} says {x}, truth {truth} call {call}",
                                f.entry,
                                f.cfg.block(pad).start
                            );
                        }
                    }
                }
                if max == Some(truth) {
                    b_ok += 1
                } else {
                    b_wrong += 1;
                    if b_wrong < 5 {
                        println!(
                            "B wrong: {} pad {} says {max:?}, truth {truth} call {call}",
                            f.entry,
                            f.cfg.block(pad).start
                        );
                    }
                }
            }
        }
        println!("C ok/wrong/none {cc:?} D {dd:?} E {ee:?}");
        println!(
            "{path}: {edges} edges, {with_args} with args; A ok {a_ok} wrong {a_wrong} none {a_none}; B ok {b_ok} wrong {b_wrong}; inconsistent functions {inconsistent}"
        );
    }
}
