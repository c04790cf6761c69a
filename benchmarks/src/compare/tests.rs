//! One small function, and readings of it that are right or wrong in one way each.

use super::*;
use crate::relive::Function as ReadFunction;
use std::collections::BTreeMap;

// 10: conditional jump to 18, call, return; 18: jump through a table to 10 or 1c; 1c: return
const TEXT: &str = "
    10: 74 06                        \tje\t0x18 <f>
    12: e8 00 00 00 00               \tcallq\t0x40 <g>
    17: c3                           \tretq
    18: 89 c0                        \tmovl\t%eax, %eax
    1a: ff e0                        \tjmpq\t*%rax
    1c: c3                           \tretq
";

fn truth() -> Truth {
    let edge = |from, to, step| Edge { from, to, step };
    let function = Function {
        name: "f".to_owned(),
        entry: 0x10,
        pieces: vec![0x10..0x1d],
        starts: BTreeSet::from([0x10, 0x12, 0x18, 0x1c]),
        required: BTreeMap::from([(0x10, Why::Entry), (0x18, Why::BranchTarget), (0x1c, Why::TableEntry)]),
        table_targets: BTreeSet::from([0x10, 0x1c]),
        edges: vec![
            edge(0x10, 0x18, Step::Taken),
            edge(0x10, 0x12, Step::NotTaken),
            edge(0x12, 0x17, Step::Return),
        ],
    };
    Truth { listing: Listing::parse(TEXT), functions: vec![function] }
}

fn right() -> Vec<(u64, u64, Vec<u64>)> {
    vec![
        (0x10, 2, vec![0x18, 0x12]),
        (0x12, 5, vec![0x17]),
        (0x17, 1, vec![]),
        (0x18, 4, vec![0x10, 0x1c]),
        (0x1c, 1, vec![]),
    ]
}

fn reading(blocks: Vec<(u64, u64, Vec<u64>)>) -> Reading {
    let block = |(address, size, successors)| Block { function: "f".to_owned(), address, size, successors };
    let function = ReadFunction { name: "f".to_owned(), address: 0x10, status: "understood".to_owned() };
    Reading::new(blocks.into_iter().map(block).collect(), vec![function])
}

fn faults(blocks: Vec<(u64, u64, Vec<u64>)>) -> Vec<Fault> {
    compare(&truth(), &reading(blocks)).violations.iter().map(|violation| violation.fault).collect()
}

#[test]
fn a_right_reading_has_no_faults() {
    let findings = compare(&truth(), &reading(right()));
    assert_eq!((findings.functions, findings.understood, findings.blocks, findings.after_call), (1, 1, 5, 1));
    assert!(findings.violations.is_empty(), "{:?}", findings.violations);
}

#[test]
fn a_start_in_straight_code_is_wrong() {
    let mut blocks = right();
    blocks[3] = (0x18, 2, vec![0x1a]);
    blocks.push((0x1a, 2, vec![0x10, 0x1c]));
    assert_eq!(faults(blocks), [Fault::WrongStart]);
}

#[test]
fn a_start_inside_an_instruction_is_wrong() {
    let mut blocks = right();
    blocks.push((0x13, 4, vec![0x17]));
    assert!(faults(blocks).contains(&Fault::WrongStart));
}

#[test]
fn a_table_entry_left_out_is_a_missing_start_and_edge() {
    let mut blocks = right();
    blocks[3].2 = vec![0x10];
    blocks.pop();
    assert_eq!(faults(blocks), [Fault::MissingStart, Fault::MissingEdge]);
}

#[test]
fn edges_left_out_and_invented() {
    let mut blocks = right();
    blocks[0].2 = vec![0x18];
    assert_eq!(faults(blocks), [Fault::MissingEdge]);
    let mut blocks = right();
    blocks[2].2 = vec![0x10];
    assert_eq!(faults(blocks), [Fault::WrongEdge]);
}

#[test]
fn executed_jumps() {
    let truth = truth();
    let mut findings = Findings::default();
    compare_executed(&truth, &reading(right()), &Jumps::from([(0x10, 0x18), (0x1a, 0x1c)]), &mut findings);
    assert_eq!((findings.executed, findings.violations.len()), (2, 0));
    let mut blocks = right();
    blocks[3].2 = vec![0x10];
    compare_executed(&truth, &reading(blocks), &Jumps::from([(0x1a, 0x1c)]), &mut findings);
    assert_eq!(findings.count(Fault::Executed), 1);
}

#[test]
fn what_is_not_understood_is_not_judged() {
    let function = ReadFunction { name: "f".to_owned(), address: 0x10, status: "indirect jump".to_owned() };
    let findings = compare(&truth(), &Reading::new(Vec::new(), vec![function]));
    assert_eq!((findings.found, findings.understood, findings.violations.len()), (1, 0, 0));
}
