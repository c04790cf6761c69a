use super::check::{Flaw, check};
use super::{Arc, balance};
use proptest::prelude::*;

/// An arc that is trusted equally in both directions.
fn arc(from: u32, to: u32, evidence: u64) -> Arc {
    Arc { from, to, evidence, more: 10, less: 10 }
}

/// One nothing is known of.
fn unknown(from: u32, to: u32) -> Arc {
    Arc { from, to, evidence: 0, more: 1, less: 0 }
}

#[track_caller]
fn balanced(nodes: u32, arcs: &[Arc]) -> Vec<u64> {
    let flows = balance(nodes, arcs);
    assert_eq!(check(nodes, arcs, &flows), Ok(()), "{arcs:?} -> {flows:?}");
    flows
}

#[test]
fn one_wrong_side_of_a_diamond() {
    let arcs = [arc(0, 1, 100), arc(1, 2, 30), arc(1, 3, 10), arc(2, 4, 30), arc(3, 4, 70), arc(4, 0, 100)];
    assert_eq!(balanced(5, &arcs), [100, 30, 70, 30, 70, 100]);
}

#[test]
fn a_back_edge_nobody_counted() {
    let arcs = [arc(0, 1, 5), arc(1, 2, 1000), unknown(2, 1), arc(2, 0, 5)];
    assert_eq!(balanced(3, &arcs), [5, 1000, 995, 5]);
}

#[test]
fn what_leads_into_a_dead_end_is_lost() {
    let arcs = [Arc { less: 30, ..arc(0, 1, 10) }, arc(1, 0, 7), arc(1, 2, 3)];
    assert_eq!(balanced(3, &arcs), [10, 10, 0]);
    assert_eq!(balanced(2, &[arc(0, 1, u64::MAX)]), [0]);
}

#[test]
fn what_comes_from_nowhere_is_lost() {
    let arcs = [arc(0, 1, 10), arc(2, 1, 5), arc(1, 0, 10)];
    assert_eq!(balanced(3, &arcs), [10, 0, 10]);
}

#[test]
fn a_loop_without_end_keeps_its_count() {
    // Entered once, never left: the entry is not believed, the rounds are.
    let arcs = [arc(0, 1, 1), arc(1, 2, 1_000_001), arc(2, 1, 1_000_000)];
    assert_eq!(balanced(3, &arcs)[0], 0);
    // An unknown way out is.
    let arcs = [arc(0, 1, 1), arc(1, 2, 1_000_001), arc(2, 1, 1_000_000), unknown(2, 0)];
    assert_eq!(balanced(3, &arcs), [1, 1_000_001, 1_000_000, 1]);
}

#[test]
fn a_self_loop_says_nothing_of_others() {
    let arcs = [arc(0, 0, 77), arc(0, 1, 3), arc(1, 0, 3), arc(1, 1, u64::MAX)];
    assert_eq!(balanced(2, &arcs), [77, 3, 3, u64::MAX]);
}

#[test]
fn of_parallel_arcs_the_less_certain_gives_way() {
    let dear = Arc { more: 20, less: 20, ..arc(0, 1, 50) };
    assert_eq!(balanced(2, &[dear, arc(0, 1, 10), arc(1, 0, 100)]), [50, 50, 100]);
    assert_eq!(balanced(2, &[dear, arc(0, 1, 80), arc(1, 0, 100)]), [50, 50, 100]);
    // Once it has nothing left to give, the other one does.
    let surer = Arc { more: 90, less: 90, ..arc(1, 0, 20) };
    assert_eq!(balanced(2, &[dear, arc(0, 1, 10), surer]), [20, 0, 20]);
}

#[test]
fn the_price_above_and_the_price_below_differ() {
    let low = Arc { more: 1, less: 100, ..arc(0, 1, 40) };
    let high = Arc { more: 100, less: 2, ..arc(1, 0, 60) };
    assert_eq!(balanced(2, &[low, high]), [60, 60]);
    let high = Arc { less: 1, ..high };
    let low = Arc { more: 2, ..low };
    assert_eq!(balanced(2, &[low, high]), [40, 40]);
}

#[test]
fn nothing_is_balanced() {
    assert!(balanced(0, &[]).is_empty());
    assert!(balanced(3, &[]).is_empty());
}

#[test]
fn flows_stay_within_64_bits() {
    let sure = |from, to| Arc { more: u32::MAX, less: u32::MAX, ..arc(from, to, u64::MAX) };
    let arcs = [sure(0, 1), sure(0, 1), sure(0, 1), unknown(1, 0)];
    let flows = balanced(2, &arcs);
    assert_eq!(flows[3], u64::MAX);
    let free = Arc { more: 0, less: 0, ..arc(1, 0, 5) };
    balanced(2, &[sure(0, 1), sure(0, 1), free, free]);
}

#[test]
fn the_checker_sees_what_is_wrong() {
    let arcs = [arc(0, 1, 5), arc(1, 0, 5), arc(1, 0, 0)];
    assert_eq!(check(2, &arcs, &[5, 5]), Err(Flaw::Length));
    assert_eq!(check(2, &arcs, &[5, 5, 1]), Err(Flaw::Imbalance(0)));
    assert_eq!(check(2, &arcs, &[5, 4, 1]), Err(Flaw::Dear));
    assert_eq!(check(2, &arcs, &[6, 6, 0]), Err(Flaw::Dear));
    assert_eq!(check(2, &arcs, &[5, 5, 0]), Ok(()));
}

/// Any graph of a few nodes. Evidence and prices are drawn from few values as well as from many, so that
/// there are ties.
fn graphs() -> impl Strategy<Value = (u32, Vec<Arc>)> {
    let evidence = prop_oneof![3 => 0u64..4, 3 => 0u64..1000, 1 => any::<u64>(), 1 => Just(u64::MAX)];
    let price = || prop_oneof![4 => 0u32..4, 2 => 0u32..1000, 1 => any::<u32>()];
    (1u32..12).prop_flat_map(move |nodes| {
        let arc = (0..nodes, 0..nodes, evidence.clone(), price(), price());
        let arc = arc.prop_map(|(from, to, evidence, more, less)| Arc { from, to, evidence, more, less });
        (Just(nodes), proptest::collection::vec(arc, 0..40))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn any_graph_is_balanced_at_the_least_price((nodes, arcs) in graphs()) {
        let flows = balance(nodes, &arcs);
        prop_assert_eq!(check(nodes, &arcs, &flows), Ok(()));
        prop_assert_eq!(flows, balance(nodes, &arcs));
    }

    #[test]
    fn what_adds_up_comes_back_unchanged((nodes, mut arcs) in graphs()) {
        let flows = balance(nodes, &arcs);
        arcs.iter_mut().zip(&flows).for_each(|(arc, &flow)| arc.evidence = flow);
        prop_assert_eq!(balance(nodes, &arcs), flows);
    }
}
