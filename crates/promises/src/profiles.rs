//! Profiles to start from: of the programs in [`crate::seeds`], as if they had run.

use crate::dice::Dice;
use crate::seeds;
use relive_abi::rprof::{SlotHeader, SlotLayout, target};
use relive_code::cfg::{BlockId, End};
use relive_image::image::Image;
use relive_image::lines::Lines;
use relive_image::program::{FunctionId, analyze};
use relive_image::watch::Watch;
use relive_probe::describe::{Fate, Measured, Subject, describe};
use relive_probe::frequency::Frequencies;
use relive_probe::graph::{Calls, Comeback, Flow};
use relive_probe::placement::Plan;
use relive_profile::file;
use relive_profile::model::{Confidence, Count, Level, Mode, Origin, Source};
use std::collections::HashMap;

/// A name and a profile for each mode and some of the programs, and as if it had been carried over.
///
/// # Panics
/// If a compiler is missing.
#[must_use]
pub fn profiles() -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for name in ["static", "dwarf", "dynamic"] {
        let file = seeds::program(name);
        for mode in [Mode::Functions, Mode::Blocks, Mode::Edges] {
            found.push((format!("{name}-{}", mode.name()), profile(&file, mode)));
        }
        found.push((format!("{name}-carried"), carried(&profile(&file, Mode::Edges))));
    }
    found
}

/// Nobody knows of any call whether it comes back.
struct Unknown;

impl Calls for Unknown {
    fn comeback(&self, _: BlockId) -> Comeback {
        Comeback::Perhaps
    }

    fn enters_kernel(&self, _: BlockId) -> bool {
        false
    }
}

fn profile(file: &[u8], mode: Mode) -> Vec<u8> {
    let image = Image::parse(file, None).expect("a program");
    let program = analyze(&image);
    let mut layout = SlotLayout { overflows: 4, modules: 1, ..SlotLayout::default() };
    let (mut fates, mut sites) = (Vec::new(), Vec::new());
    for (id, function) in program.numbered() {
        let cfg = &function.cfg;
        if !cfg.is_understood() {
            fates.push(Fate::Left("not understood".into()));
            continue;
        }
        let flow = Flow::new(cfg, &Unknown, &|_| false);
        let plan = match mode {
            Mode::Functions => Plan::functions(&flow),
            Mode::Blocks => Plan::blocks(cfg, &flow),
            Mode::Edges => {
                Plan::edges(cfg, &flow, &Frequencies::estimate(cfg, &image.elf, &flow), &HashMap::new(), None)
            }
        };
        let first_counter = layout.counters;
        layout.counters += plan.counters;
        let mut own: HashMap<BlockId, u32> = HashMap::new();
        for (block, _) in cfg.numbered_blocks().filter(|(_, b)| matches!(b.end, End::IndirectCall(None))) {
            own.insert(block, layout.sites);
            layout.sites += 1;
            sites.push((id, block));
        }
        fates.push(Fate::Measured(Box::new(Measured { flow, plan, first_counter, sites: own })));
    }
    let mut bytes = describe(&Subject {
        image: &image,
        program: &program,
        lines: Some(&Lines::from_bytes(file, None, None)),
        fates: &fates,
        layout,
        sites: &sites,
        path: "/usr/bin/seed",
        mode,
        watch: &Watch::default(),
    });
    bytes.extend(slot(&layout, &sites, program.functions[0].entry.0));
    bytes
}

/// The same profile without counters, its counts of all origins.
fn carried(measured: &[u8]) -> Vec<u8> {
    let mut profile = file::read(measured).expect("a profile");
    let mut origins = Level::ALL
        .map(Origin::Matched)
        .into_iter()
        .chain([Origin::ControlFlow, Origin::Inferred, Origin::Sampled])
        .zip([100, 95, 60, 20].into_iter().cycle())
        .cycle();
    let mut carry = |count: &mut Option<Count>| {
        let (origin, percent) = origins.next().expect("without end");
        *count = count.map(|Count { raw, .. }| Count { raw, origin, confidence: Confidence::new(percent) });
    };
    for module in &mut profile.modules {
        module.counters = Vec::new();
        module.layout = SlotLayout { sites: module.layout.sites, ..SlotLayout::default() };
        module.carried =
            vec![Source { steps: 1, build_id: vec![1; 20], path: "/usr/bin/before".into(), runs: 1 }];
        for function in &mut module.functions {
            for block in &mut function.blocks {
                block.counter = None;
                carry(&mut block.count);
            }
            for edge in &mut function.edges {
                edge.counter = None;
                carry(&mut edge.count);
            }
        }
    }
    file::write(&profile)
}

/// A slot in which small numbers were counted, and calls of one function here and one elsewhere.
fn slot(layout: &SlotLayout, sites: &[(FunctionId, BlockId)], function: u64) -> Vec<u8> {
    let mut dice = Dice::new(sites.len() as u64);
    let mut slot = vec![0; layout.len() as usize];
    let mut put = |at: u64, bytes: &[u8]| slot[at as usize..][..bytes.len()].copy_from_slice(bytes);
    put(core::mem::offset_of!(SlotHeader, runs) as u64, &[1]);
    put(core::mem::offset_of!(SlotHeader, overflows) as u64, &[u8::from(layout.sites > 0)]);
    put(core::mem::offset_of!(SlotHeader, modules) as u64, &[1]);
    for i in 0..u64::from(layout.counters) {
        put(layout.counters_offset() + i * 8, &[dice.roll(8) as u8]);
    }
    for i in 0..u64::from(layout.sites) {
        put(layout.sites_offset() + i * 16, &target::new(target::SELF, function).to_le_bytes());
        put(layout.sites_offset() + i * 16 + 8, &[dice.roll(8) as u8]);
    }
    if layout.sites > 0 {
        put(layout.overflows_offset() + 8, &target::new(1, 0x1234).to_le_bytes());
        put(layout.overflows_offset() + 16, &[3]);
    }
    put(layout.modules_offset(), &[20]);
    put(layout.modules_offset() + 4, &[5]);
    put(layout.modules_offset() + 8 + 32, b"/libx");
    slot
}
