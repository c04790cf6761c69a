//! Traces to start from: small pieces of code, and threads that execute them.

use crate::trace::{Case, Chunk, kind};
use relive_abi::engine::{BRANCH, CODE, JUMP, MAPPING, RETURN, TRACED};
use relive_abi::trace::{CALL, RESULT, STATE, stopped};

/// Code of different kinds, each executed as one unit.
const CODES: [&[u8]; 7] = [
    // mov rax, [rdi]; add rdi, 8; dec rcx; jne back
    &[0x48, 0x8b, 0x07, 0x48, 0x83, 0xc7, 8, 0x48, 0xff, 0xc9, 0x75, 0xf4],
    // push rbp; mov rbp, rsp; call on; pop rbp; ret
    &[0x55, 0x48, 0x89, 0xe5, 0xe8, 0, 0, 0, 0, 0x5d, 0xc3],
    // rep movsb; ret
    &[0xf3, 0xa4, 0xc3],
    // lock xadd [rdx], eax; xchg [rdx], eax; jmp on
    &[0xf0, 0x0f, 0xc1, 0x02, 0x87, 0x02, 0xeb, 0],
    // vpgatherdd ymm0, [rax + ymm1*4], ymm2; vmaskmovps [rdi], ymm1, ymm0; ret
    &[0xc4, 0xe2, 0x6d, 0x90, 0x04, 0x88, 0xc4, 0xe2, 0x75, 0x2e, 0x07, 0xc3],
    // xsave [rsp]; fs mov rax, [0x28]; leave; ret
    &[0x0f, 0xae, 0x24, 0x24, 0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0, 0xc9, 0xc3],
    // syscall
    &[0x0f, 0x05],
];

/// A name and a case for each.
#[must_use]
pub fn cases() -> Vec<(String, Case)> {
    let one = |index: usize| (format!("code-{index}"), case(&[CODES[index]], 0));
    let mut all: Vec<_> = (0..CODES.len()).map(one).collect();
    all.push(("all".to_owned(), case(&CODES, 0)));
    all.push(("known".to_owned(), case(&CODES, 0xffef)));
    all
}

/// A trace of a thread that executes units, in which so many registers are known.
fn case(codes: &[&[u8]], known: u32) -> Case {
    let text = |kind: u8, text: &str| Chunk { kind, process: 0, body: text.as_bytes().to_vec() };
    let about = r#"{"version":"","command":["a"],"began":0,"memory":true,"order":true}"#;
    let processes = [r#"{"number":0,"pid":7,"parent":null}"#, r#"{"number":1,"pid":8,"parent":[0,3,1]}"#];
    let mut chunks = vec![text(kind::ABOUT, about)];
    chunks.extend(processes.map(|process| text(kind::PROCESS, process)));
    let (mut code, mut tags) = (mapping(), Vec::new());
    let mut first = 1u32;
    for (bytes, index) in codes.iter().zip(1u64..) {
        code.extend(unit(first, known, 0x1000 * index, bytes));
        tags.push(first);
        first += 2;
    }
    chunks.push(Chunk { kind: kind::CODE, process: 0, body: code });
    let tags: Vec<u32> =
        [&[STATE], &*tags, &*tags, &[CALL, RESULT, stopped(1)]].concat().into_iter().collect();
    for process in [0, 1] {
        // Packed in either way.
        let flags = process << 1;
        chunks.push(Chunk { kind: kind::SEGMENT, process, body: segment(flags, &tags) });
    }
    Case { chunks }
}

fn record(kind: u32, body: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes(), &(body.len() as u32).to_le_bytes(), body].concat()
}

fn mapping() -> Vec<u8> {
    let path = b"/bin/a";
    let mut body = [0u32, path.len() as u32].map(u32::to_le_bytes).concat();
    body.extend([0x1000u64, 0x9000, 0, 5].map(u64::to_le_bytes).concat());
    body.extend(path);
    record(MAPPING, &body)
}

/// A unit of one piece with two exits.
fn unit(first: u32, known: u32, at: u64, code: &[u8]) -> Vec<u8> {
    let mut body = [first, 1 | 2 << 16, known, 0].map(u32::to_le_bytes).concat();
    body.extend([at, at + code.len() as u64].map(u64::to_le_bytes).concat());
    for (to, kind) in [(at, BRANCH), (0, if code.ends_with(&[0xc3]) { RETURN } else { JUMP })] {
        body.extend(u64::to_le_bytes(to));
        body.extend([0, kind << 16].map(u32::to_le_bytes).concat());
    }
    [record(TRACED, &body), record(CODE, code)].concat()
}

/// A segment as [`Case`] has it.
fn segment(flags: u8, tags: &[u32]) -> Vec<u8> {
    let values: Vec<(u16, u64)> = (0..40).map(|slot| (slot, 0x10_0000 + u64::from(slot) * 8)).collect();
    let mut body = vec![flags];
    body.extend((tags.len() as u16).to_le_bytes());
    body.extend((values.len() as u16).to_le_bytes());
    tags.iter().for_each(|tag| body.extend(tag.to_le_bytes()));
    for (slot, value) in values {
        body.extend(slot.to_le_bytes());
        body.extend(value.to_le_bytes());
    }
    // A state, a call, a result and a stop.
    (0..20u64 + 8 + 2).for_each(|word| body.extend((word * 0x100).to_le_bytes()));
    body.extend(0x1003u64.to_le_bytes());
    body.extend([1u32, 0].map(u32::to_le_bytes).concat());
    body.extend(3u64.to_le_bytes());
    body
}
