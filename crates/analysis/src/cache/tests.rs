//! Against a cache that is looked at access by access, with all its sets as plain lists.

use super::*;
use crate::testing::{Program, run_cut};
use proptest::prelude::*;
use relive_code::isa::AccessKind;

/// One level, line by line.
struct Plain {
    geometry: Geometry,
    sets: Vec<Vec<u64>>,
}

impl Plain {
    fn new(geometry: Geometry) -> Self {
        Self { geometry, sets: vec![Vec::new(); geometry.sets() as usize] }
    }

    fn misses(&mut self, address: u64, size: u64) -> bool {
        let lines = address / self.geometry.line..=(address + size - 1) / self.geometry.line;
        lines.fold(false, |missed, line| {
            let set = &mut self.sets[(line % self.geometry.sets()) as usize];
            let at = set.iter().position(|&other| other == line);
            at.map(|at| set.remove(at));
            set.insert(0, line);
            set.truncate(self.geometry.ways as usize);
            missed | at.is_none()
        })
    }
}

fn access(caches: &mut [&mut Plain], address: u64, size: u64, sum: &mut Access) {
    sum.accesses += 1;
    let [first, second, last] = caches else { panic!("three levels") };
    if first.misses(address, size) {
        sum.l1_misses += 1;
        if second.misses(address, size) {
            sum.l2_misses += 1;
            sum.ll_misses += u64::from(last.misses(address, size));
        }
    }
}

proptest! {
    #[test]
    fn as_plain_caches_tell(
        accesses in prop::collection::vec((0u64..40, 0u64..64, 1u32..=16, 0usize..3, 0usize..3), 1..400),
        cut in 1usize..60,
    ) {
        let geometry = |size, ways| Geometry::new(size, ways, 16).expect("a cache");
        let caches = Hierarchy {
            l1i: geometry(64, 2),
            l1d: geometry(128, 2),
            l2: Some(geometry(256, 4)),
            ll: geometry(512, 4),
            sharing: Sharing::Thread,
        };
        // Each unit: mov eax, [rdi] and nops, in and across lines.
        let code: Vec<(u64, &[u8])> =
            vec![(0x100f, &[0x8b, 0x07, 0x90]), (0x1104, &[0x8b, 0x07, 0x90]), (0x1020, &[0x8b, 0x07])];
        let program = Program::new(&code);
        let mut thread = program.thread();
        let [mut code_cache, mut data, mut l2, mut ll] =
            [caches.l1i, caches.l1d, geometry(256, 4), caches.ll].map(Plain::new);
        let mut expected = Counts::default();
        for &(line, offset, size, unit, kind) in &accesses {
            let (start, bytes) = code[unit];
            let kind = [AccessKind::Read, AccessKind::Write, AccessKind::Update][kind];
            let address = line * line + offset;
            thread.run(unit, &[(0, address, size, kind)]);
            let mut fetch = |offset, len, expected: &mut Counts, l2: &mut Plain, ll: &mut Plain| {
                access(&mut [&mut code_cache, l2, ll], start + offset, len, &mut expected.code);
            };
            fetch(0, 2, &mut expected, &mut l2, &mut ll);
            let sum = if kind == AccessKind::Write { &mut expected.writes } else { &mut expected.reads };
            access(&mut [&mut data, &mut l2, &mut ll], address, size.into(), sum);
            if bytes.len() > 2 {
                fetch(2, 1, &mut expected, &mut l2, &mut ll);
            }
        }
        let report = run_cut(Cache::new(caches), &program, &[thread], cut);
        prop_assert_eq!(report.total, expected);
    }
}
