//! Modules made by hand: what no real program shows on purpose.

use relive_matching::{Fingerprint, Matching, match_builds};
use relive_profile::model::{
    Block, DataBlock, DataKind, Edge, EdgeKind, Function, Module, Node, Piece, Pointer, State,
};

const TEXT: u64 = 0x1000;
const DATA: u64 = 0x4000_0000;

/// A module of functions of one block each.
#[derive(Default)]
struct Maker {
    module: Module,
}

impl Maker {
    fn next(&self) -> u64 {
        self.module.functions.last().map_or(TEXT, |f| (f.address + f.size).next_multiple_of(16))
    }

    /// A nameless function of that code. Returns its index.
    fn function(&mut self, code: &[u8]) -> usize {
        let (address, size) = (self.next(), code.len() as u64);
        let name = self.module.texts.intern(&format!("fn_{address:x}"));
        let mut function = Function::new(name, address, size, State::Measured);
        function.pieces = vec![Piece { start: address, len: size }];
        function.code = code.to_vec();
        function.blocks = vec![Block {
            address,
            size: size as u32,
            insns: 1,
            line: None,
            is_entry: true,
            is_landing_pad: false,
            counter: None,
            count: None,
        }];
        function.edges = [
            (Node::OUTSIDE, Node::block(0), EdgeKind::Enter),
            (Node::block(0), Node::OUTSIDE, EdgeKind::Return),
        ]
        .map(|(from, to, kind)| Edge { from, to, kind, counter: None, count: None })
        .to_vec();
        self.module.functions.push(function);
        self.module.functions.len() - 1
    }

    /// A function of that code and name.
    fn named(&mut self, name: &str, code: &[u8]) -> usize {
        let i = self.function(code);
        self.module.functions[i].name = self.module.texts.intern(name);
        i
    }

    /// Data that holds pointers to functions.
    fn table(&mut self, hash: u64, functions: &[usize]) {
        let address = self.module.data.last().map_or(DATA, |d| d.address + d.size);
        let to = functions.iter().map(|&f| self.module.functions[f].address);
        let pointers: Vec<Pointer> = to.zip(0..).map(|(to, i)| Pointer { at: address + 8 * i, to }).collect();
        self.module.pointers.extend(pointers);
        let size = 8 * functions.len() as u64;
        self.module.data.push(DataBlock { address, size, name: None, kind: DataKind::Constant, hash });
    }
}

/// Code of so many different instructions: `mov eax, N` each, then `ret`.
fn large(seed: u32, insns: u32) -> Vec<u8> {
    let mut code = Vec::new();
    for i in 0..insns {
        code.push(0xb8);
        code.extend((seed * 1000 + i).to_le_bytes());
    }
    code.push(0xc3);
    code
}

/// Code that is the same in many functions.
fn small() -> Vec<u8> {
    vec![0x31, 0xc0, 0x31, 0xd2, 0x31, 0xc9, 0x31, 0xf6, 0xc3]
}

fn matched(old: &Maker, new: &Maker) -> Matching {
    let (old, new) = (Fingerprint::new(&old.module), Fingerprint::new(&new.module));
    match_builds(&old.expect("has code"), &new.expect("has code"))
}

/// The old partner of a new function.
fn partner(matching: &Matching, new: usize) -> Option<usize> {
    let found = matching.procedures.iter().find(|p| p.pair.new as usize == new);
    found.map(|p| p.pair.old as usize)
}

/// Would take hours if equal functions were compared with one another.
#[test]
fn many_equal_functions() {
    const MANY: usize = 50_000;
    let make = |extra: usize| {
        let mut maker = Maker::default();
        for i in 0..MANY + extra {
            maker.function(&if i % 2 == 0 { small() } else { large(7, 20) });
        }
        maker.function(&large(1, 30));
        maker
    };
    let (old, new) = (make(0), make(3));
    let matching = matched(&old, &new);
    assert_eq!(partner(&matching, MANY + 3), Some(MANY));
    // As many as in the old build: in their order.
    let same = matched(&old, &make(0));
    assert!((0..=MANY).all(|i| partner(&same, i).is_none_or(|old| old == i)));
}

/// Equal functions that changed places belong to whoever points to them, even if they are all called the same.
#[test]
fn equal_code_goes_by_references() {
    for name in [None, Some("copy")] {
        let function = |maker: &mut Maker| match name {
            Some(name) => maker.named(name, &small()),
            None => maker.function(&small()),
        };
        let mut old = Maker::default();
        old.function(&large(1, 30));
        let (a, b) = (function(&mut old), function(&mut old));
        old.function(&large(2, 30));
        old.table(77, &[a]);
        old.table(88, &[b]);
        let mut new = Maker::default();
        new.function(&large(1, 30));
        let (d, c) = (function(&mut new), function(&mut new));
        new.function(&large(2, 30));
        new.table(77, &[c]);
        new.table(88, &[d]);
        let matching = matched(&old, &new);
        assert_eq!((partner(&matching, c), partner(&matching, d)), (Some(a), Some(b)), "{name:?}");
    }
}

/// Of several that are called the same, one may have gone and an entirely different one come.
#[test]
fn a_name_that_many_have_is_not_enough() {
    // `imul eax, eax, N`
    let other: Vec<u8> = (0..30).flat_map(|i| [0x69, 0xc0, i, 0, 0, 0]).chain([0xc3]).collect();
    let mut changed = large(1, 30);
    changed[1] = 0xff;
    let make = |codes: [&[u8]; 2]| {
        let mut maker = Maker::default();
        let all = codes.map(|code| maker.named("copy", code));
        (maker, all)
    };
    let zeroed: Vec<u8> = [0x31, 0xc0].repeat(40);
    let (old, [gone, kept]) = make([&zeroed, &large(1, 30)]);
    let (new, [still, come]) = make([&changed, &other]);
    let matching = matched(&old, &new);
    assert_eq!((partner(&matching, still), partner(&matching, come)), (Some(kept), None), "not {gone}");
}

/// A table that has grown says as much as its ends agree.
#[test]
fn tables_that_have_grown() {
    let functions = |maker: &mut Maker, order: &[u32]| -> Vec<usize> {
        order.iter().map(|&i| maker.function(&if i < 10 { large(i, 30) } else { small() })).collect()
    };
    let mut old = Maker::default();
    let at = functions(&mut old, &[1, 10, 2, 11, 3]);
    old.table(77, &at);
    let mut new = Maker::default();
    // In the file the small ones changed places; in the table one function was added.
    let file = functions(&mut new, &[1, 11, 2, 10, 3, 4]);
    new.table(77, &[file[0], file[3], file[2], file[5], file[1], file[4]]);
    let matching = matched(&old, &new);
    assert_eq!((partner(&matching, file[3]), partner(&matching, file[1])), (Some(at[1]), Some(at[3])));
}
