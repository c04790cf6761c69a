use super::{Arc, Counts, estimate};
use proptest::prelude::*;

fn arc(from: u32, to: u32, likelihood: f32) -> Arc {
    Arc { from, to, count: None, likelihood }
}

fn known(from: u32, to: u32, count: u64) -> Arc {
    Arc { count: Some(count), ..arc(from, to, 1.0) }
}

#[track_caller]
fn assert_near(found: &[u64], expected: &[u64]) {
    let near = |(&a, &b): (&u64, &u64)| a.abs_diff(b) * 100 <= a.max(b) + 100;
    assert!(
        found.len() == expected.len() && found.iter().zip(expected).all(near),
        "{found:?}, not {expected:?}"
    );
}

#[test]
fn what_is_known_stays() {
    let arcs = [known(0, 1, 7), known(1, 0, 9)];
    assert_eq!(estimate(&[Some(3), None], &arcs), Counts { nodes: vec![3, 9], arcs: vec![7, 9] });
    assert_eq!(estimate(&[], &[]), Counts::default());
}

#[test]
fn a_choice_put_into_a_known_path() {
    // 0 outside, 1 and 5 known, 2 the new choice between 3 and 4.
    let arcs = [
        known(0, 1, 100),
        arc(1, 2, 1.0),
        arc(2, 3, 0.7),
        arc(2, 4, 0.3),
        arc(3, 5, 1.0),
        arc(4, 5, 1.0),
        known(5, 0, 100),
    ];
    let counts = estimate(&[Some(100), Some(100), None, None, None, Some(100)], &arcs);
    assert_eq!(counts.nodes, [100, 100, 100, 70, 30, 100]);
    assert_eq!(counts.arcs, [100, 100, 70, 30, 70, 30, 100]);
}

#[test]
fn a_new_loop_goes_round_as_is_likely() {
    let nodes = [Some(100), None, None, Some(100)];
    let tested_below = [arc(0, 1, 1.0), arc(1, 2, 1.0), arc(2, 1, 0.9), arc(2, 3, 0.1), known(3, 0, 100)];
    assert_near(&estimate(&nodes, &tested_below).arcs, &[100, 1000, 900, 100, 100]);
    let tested_above = [arc(0, 1, 1.0), arc(1, 2, 0.9), arc(2, 1, 1.0), arc(1, 3, 0.1), known(3, 0, 100)];
    assert_near(&estimate(&nodes, &tested_above).arcs, &[100, 900, 900, 100, 100]);
}

#[test]
fn loops_within_loops_are_found_in_closed_form() {
    let arcs = [
        arc(0, 1, 1.0),
        arc(1, 2, 1.0),
        arc(2, 3, 1.0),
        arc(3, 3, 0.98),
        arc(3, 4, 0.02),
        arc(4, 2, 0.98),
        arc(4, 5, 0.02),
        arc(5, 1, 0.98),
        arc(5, 0, 0.02),
    ];
    let counts = estimate(&[Some(10), None, None, None, None, None], &arcs);
    assert_near(&counts.nodes, &[10, 500, 25_000, 1_250_000, 25_000, 500]);
}

#[test]
fn a_loop_without_end_has_one() {
    let counts = estimate(&[Some(10), None], &[arc(0, 1, 1.0), arc(1, 1, 1.0)]);
    assert!(counts.nodes[1] >= 10 && counts.nodes[1] <= 10_000_000, "{counts:?}");
}

#[test]
fn a_known_block_in_a_new_loop_tells_its_rounds() {
    // The loop's head is new, its body was there before.
    let arcs = [known(0, 1, 5), arc(1, 2, 0.5), arc(2, 1, 1.0), arc(1, 0, 0.5)];
    let counts = estimate(&[Some(5), None, Some(1000)], &arcs);
    assert_near(&counts.nodes, &[5, 1005, 1000]);
    assert_near(&counts.arcs, &[5, 1000, 1000, 5]);
}

#[test]
fn a_block_split_in_two_ran_as_often_in_both() {
    let arcs = [known(0, 1, 60), known(0, 1, 40), arc(1, 2, 1.0), arc(2, 3, 1.0), known(3, 0, 100)];
    assert_eq!(estimate(&[Some(100), Some(100), None, Some(100)], &arcs).nodes, [100; 4]);
}

#[test]
fn a_new_early_return_takes_what_is_missing_behind_it() {
    let arcs = [known(0, 1, 100), arc(1, 2, 1.0), arc(2, 0, 0.5), arc(2, 3, 0.5), known(3, 0, 90)];
    let counts = estimate(&[Some(100), Some(100), None, Some(90)], &arcs);
    assert_near(&counts.arcs, &[100, 100, 10, 90, 90]);
}

#[test]
fn of_several_ways_into_a_known_block_known_ones_come_first() {
    // 60 of the 100 in block 4 are known to come from 3, so 2, likely or not, leads there 40 times.
    let arcs = [known(0, 1, 50), arc(1, 2, 1.0), known(3, 4, 60), arc(2, 4, 0.1), arc(2, 5, 0.9)];
    let counts = estimate(&[None, Some(50), None, Some(60), Some(100), None], &arcs);
    assert_near(&counts.arcs, &[50, 50, 60, 40, 10]);
}

#[test]
fn what_lies_before_the_known_is_known_by_it() {
    let arcs = [arc(0, 1, 1.0), arc(1, 2, 1.0), arc(2, 3, 1.0), known(3, 0, 30)];
    assert_eq!(estimate(&[None, None, None, Some(30)], &arcs).nodes, [30; 4]);
}

#[test]
fn what_never_ran_leads_nowhere() {
    let arcs = [arc(0, 1, 1.0), arc(1, 2, 1.0), arc(2, 0, 1.0), arc(0, 3, 1.0), arc(3, 0, 1.0)];
    assert_eq!(estimate(&[Some(8), Some(0), None, None], &arcs).arcs, [0, 0, 0, 8, 8]);
}

fn count() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![2 => Just(None), 2 => (0u64..1000).prop_map(Some), 1 => any::<u64>().prop_map(Some)]
}

proptest! {
    #[test]
    fn whatever_the_graph_known_counts_stay_and_the_answer_is_the_same(
        nodes in proptest::collection::vec(count(), 1..10),
        ends in proptest::collection::vec((any::<u32>(), any::<u32>(), count(), any::<f32>()), 0..30),
    ) {
        let node = |any: u32| any % nodes.len() as u32;
        let arc = |&(from, to, count, likelihood)| Arc { from: node(from), to: node(to), count, likelihood };
        let arcs: Vec<Arc> = ends.iter().map(arc).collect();
        let counts = estimate(&nodes, &arcs);
        prop_assert!(nodes.iter().zip(&counts.nodes).all(|(known, &count)| known.unwrap_or(count) == count));
        prop_assert!(arcs.iter().zip(&counts.arcs).all(|(arc, &count)| arc.count.unwrap_or(count) == count));
        prop_assert_eq!(&counts, &estimate(&nodes, &arcs));
    }

    /// Where the known counts come from likelihoods, all else does too.
    #[test]
    fn a_function_of_which_only_calls_are_known_follows_likelihoods(choices in proptest::collection::vec(1u32..100, 1..40)) {
        // Diamonds in a row.
        let mut arcs = vec![arc(0, 1, 1.0)];
        let mut expected = vec![1_000_000];
        let mut at = 1;
        for &choice in &choices {
            let some = 10_000 * u64::from(choice);
            arcs.extend([arc(at, at + 1, choice as f32), arc(at, at + 2, (100 - choice) as f32)]);
            arcs.extend([arc(at + 1, at + 3, 1.0), arc(at + 2, at + 3, 1.0)]);
            expected.extend([some, 1_000_000 - some, some, 1_000_000 - some]);
            at += 3;
        }
        arcs.push(arc(at, 0, 1.0));
        expected.push(1_000_000);
        let mut nodes = vec![None; at as usize + 1];
        nodes[0] = Some(1_000_000);
        prop_assert_eq!(estimate(&nodes, &arcs).arcs, expected);
    }
}
