//! Random histories: histories of an atomic register are accepted, and small ones are judged as by trying every order.

use std::collections::HashSet;

use linearizability::Kind::{Read, Write};
use linearizability::{Kind, Operation, Outcome, check_register_within, membership_reads};
use proptest::prelude::*;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use test_kit::assert_contains;
use test_kit::{scaled, seed};

/// Checks by search alone: a last write of the initial value changes nothing before it, but is one more of its value.
fn search(history: &[Operation<u32>], max_steps: u64) -> Outcome {
    let last = operation(0, u64::MAX - 1, Some(u64::MAX), Write(0));
    check_register_within(0, &[history, &[last]].concat(), max_steps)
}

fn operation(client: u32, invoked: u64, returned: Option<u64>, kind: Kind<u32>) -> Operation<u32> {
    Operation {
        client,
        invoked_ns: invoked,
        returned_ns: returned,
        kind,
    }
}

/// Tries every order of the operations that respects their times.
fn oracle(value: u32, rest: &[Operation<u32>]) -> bool {
    if rest.iter().all(|operation| operation.returned_ns.is_none()) {
        return true;
    }
    let first_return = rest
        .iter()
        .filter_map(|operation| operation.returned_ns)
        .min();
    (0..rest.len()).any(|index| {
        let operation = rest[index];
        let is_next = first_return.is_none_or(|returned| operation.invoked_ns <= returned);
        let mut others = rest.to_vec();
        others.remove(index);
        is_next
            && match operation.kind {
                Read(_) if operation.returned_ns.is_none() => oracle(value, &others),
                Read(read) => read == value && oracle(value, &others),
                Write(written) => oracle(written, &others),
            }
    })
}

/// Simulates an atomic register whose operations take effect one after the other, in intervals that are widened at
/// random around that instant; a client has one operation at a time. One write in `lost` has no answer.
fn simulate(seed: u64, count: u32, clients: u32, values: u32, lost: u32) -> Vec<Operation<u32>> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut free_from = vec![0_u64; clients as usize];
    let mut value = 0;
    let mut history = Vec::new();
    for number in 1..=count {
        let now = u64::from(number) * 100;
        let client = random.random_range(0..clients);
        let free = &mut free_from[client as usize];
        if *free > now {
            continue;
        }
        let invoked = random.random_range((*free).max(now.saturating_sub(800))..=now);
        let returned = now + random.random_range(0..800);
        *free = returned + 1;
        if random.random_bool(0.5) {
            history.push(operation(client, invoked, Some(returned), Read(value)));
            continue;
        }
        value = if values == 0 {
            number
        } else {
            random.random_range(0..values)
        };
        let is_lost = lost > 0 && random.random_range(0..lost) == 0;
        history.push(operation(
            client,
            invoked,
            (!is_lost).then_some(returned),
            Write(value),
        ));
    }
    history
}

fn kind() -> impl Strategy<Value = Kind<u32>> {
    prop_oneof![(0..4_u32).prop_map(Write), (0..4_u32).prop_map(Read)]
}

/// Up to 7 operations with few different times, so that many touch.
fn small_history() -> impl Strategy<Value = Vec<Operation<u32>>> {
    let one = (
        0..12_u64,
        proptest::option::weighted(0.85, 0..8_u64),
        kind(),
    )
        .prop_map(|(invoked, length, kind)| {
            operation(0, invoked, length.map(|length| invoked + length), kind)
        });
    prop::collection::vec(one, 0..8)
}

/// Gives each write its own value, and each read the value of some write, or the initial one.
fn with_unique_values(history: &[Operation<u32>]) -> Vec<Operation<u32>> {
    let writes = history
        .iter()
        .filter(|operation| matches!(operation.kind, Write(_)))
        .count();
    let mut written = 0;
    let mut history = history.to_vec();
    for operation in &mut history {
        operation.kind = match operation.kind {
            Write(_) => {
                written += 1;
                Write(written)
            }
            Read(value) => Read(value % (u32::try_from(writes).expect("few writes") + 1)),
        };
    }
    history
}

fn is_linearizable(history: &[Operation<u32>]) -> bool {
    check_register_within(0, history, u64::MAX) == Outcome::Linearizable
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scaled(20_000) as u32, ..ProptestConfig::default() })]

    #[test]
    fn small_histories_are_judged_as_by_trying_every_order(history in small_history()) {
        prop_assert_eq!(is_linearizable(&history), oracle(0, &history));
    }

    #[test]
    fn zones_and_search_agree_with_every_order(history in small_history()) {
        let history = with_unique_values(&history);
        let expected = oracle(0, &history);
        prop_assert_eq!(is_linearizable(&history), expected);
        let found = search(&history, u64::MAX);
        prop_assert_eq!(found == Outcome::Linearizable, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn an_atomic_register_is_accepted(seed: u64, clients in 1..40_u32, values in 0..4_u32, lost in 0..8_u32) {
        let history = simulate(seed, 300, clients, values, lost);
        prop_assert!(is_linearizable(&history));
        prop_assert_eq!(search(&history, u64::MAX), Outcome::Linearizable);
    }

    #[test]
    fn a_changed_read_is_judged_as_by_trying_every_order(seed: u64, changed: prop::sample::Index, value in 0..9_u32) {
        let mut history = simulate(seed, 14, 4, 0, 5);
        history.truncate(9);
        if !history.is_empty() {
            let operation = changed.get(&history);
            let index = history.iter().position(|other| other == operation).unwrap();
            if let Read(read) = &mut history[index].kind {
                *read = value;
            }
        }
        prop_assert_eq!(is_linearizable(&history), oracle(0, &history));
    }

    #[test]
    fn both_algorithms_find_the_same_changed_reads(seed: u64, changed: prop::sample::Index, clients in 2..12_u32) {
        let mut history = simulate(seed, 200, clients, 0, 10);
        let reads: Vec<usize> = (0..history.len()).filter(|index| matches!(history[*index].kind, Read(_))).collect();
        let read = reads[changed.index(reads.len())];
        let other = history[changed.index(history.len())];
        if let Write(value) = other.kind {
            history[read].kind = Read(value);
        }
        let searched = search(&history, u64::MAX);
        prop_assert_eq!(is_linearizable(&history), searched == Outcome::Linearizable);
    }
}

/// Returns the explanation and the named operations of a history that is not linearizable, from both algorithms.
fn violations(history: &[Operation<u32>]) -> [(String, Vec<usize>); 2] {
    let zones = check_register_within(0, history, u64::MAX);
    let search = search(history, u64::MAX);
    [zones, search].map(|outcome| match outcome {
        Outcome::Violated(violation) => (violation.to_string(), violation.operations().to_vec()),
        other => panic!("{other:?}"),
    })
}

#[test]
fn a_stale_read_is_explained() {
    let history = [
        operation(1, 0, Some(10), Write(1)),
        operation(2, 20, Some(30), Write(2)),
        operation(3, 40, Some(50), Read(1)),
    ];
    for (text, operations) in violations(&history) {
        assert_contains(&text, &["client 3's read of 1 (from 40 to 50 ns)"]);
        assert!(operations.contains(&2), "{operations:?}");
    }
}

#[test]
fn a_lost_write_is_explained() {
    let history = [
        operation(1, 0, Some(10), Write(1)),
        operation(2, 20, Some(30), Read(0)),
    ];
    for (text, _) in violations(&history) {
        assert_contains(&text, &["client 2's read of 0 (from 20 to 30 ns)"]);
    }
    // Without an answer to the write, it may just not have happened.
    let mut unanswered = history;
    unanswered[0].returned_ns = None;
    assert!(is_linearizable(&unanswered));
}

#[test]
fn a_write_without_an_answer_may_happen_late_but_not_twice() {
    let late = [
        operation(1, 0, None, Write(1)),
        operation(2, 10, Some(20), Read(0)),
        operation(2, 30, Some(40), Read(1)),
    ];
    assert!(is_linearizable(&late));
    let twice = [
        operation(1, 0, None, Write(1)),
        operation(2, 10, Some(20), Read(1)),
        operation(2, 30, Some(40), Write(2)),
        operation(2, 50, Some(60), Read(1)),
    ];
    assert_eq!(violations(&twice).len(), 2);
}

#[test]
fn a_value_from_the_future_and_an_unwritten_one_are_explained() {
    let future = [
        operation(1, 0, Some(10), Read(1)),
        operation(2, 20, Some(30), Write(1)),
    ];
    let [(text, operations), _] = violations(&future);
    assert!(text.contains("from the future"), "{text}");
    assert_eq!(operations, [0, 1]);
    let [(text, _), _] = violations(&[operation(1, 0, Some(10), Read(9))]);
    assert!(text.contains("nobody wrote"), "{text}");
}

#[test]
fn a_return_before_its_start_is_reported() {
    for (text, _) in violations(&[operation(1, 10, Some(5), Write(1))]) {
        assert!(text.contains("clock"), "{text}");
    }
}

#[test]
fn a_bounded_search_says_that_it_does_not_know() {
    let history = simulate(3, 1_000, 8, 2, 0);
    assert_eq!(check_register_within(0, &history, 10), Outcome::Unknown);
    assert_eq!(
        check_register_within(0, &history, 1_000_000),
        Outcome::Linearizable
    );
}

#[test]
fn a_hundred_thousand_operations_take_few_steps_each() {
    let (seed, count) = (seed(), scaled(125_000) as u32);
    for values in [0, 2] {
        let history = simulate(seed, count, 16, values, 0);
        // A client that is still busy leaves its turn out.
        assert!(history.len() > count as usize * 4 / 5);
        let limit = 20 * history.len() as u64;
        assert_eq!(search(&history, limit), Outcome::Linearizable);
        if values == 0 {
            assert!(is_linearizable(&history));
        }
    }
}

#[test]
fn an_answer_that_lists_an_object_too_late_is_found() {
    let answer = HashSet::from(["a", "b"]);
    let reads: Vec<_> = membership_reads(2, 20, 30, &["a", "c"], &answer).collect();
    assert_eq!(reads[0].1.kind, Read(true));
    assert_eq!(reads[1].1.kind, Read(false));
    let closed = Operation {
        client: 1,
        invoked_ns: 0,
        returned_ns: Some(10),
        kind: Write(false),
    };
    let check = |read| check_register_within(true, &[closed, read], u64::MAX);
    assert!(matches!(check(reads[0].1), Outcome::Violated(_)));
    assert_eq!(check(reads[1].1), Outcome::Linearizable);
}
