//! Compares a ledger that is divided over processes with the ledger of one process.

use std::collections::BTreeMap;

use measure::counters::Counter;
use proptest::prelude::*;

use super::super::{Arrival, Ledger, LedgerLine};
use super::*;
use crate::outcome;
use crate::roles::testing::worker;

/// Processes that a ledger is divided over.
const PROCESSES: usize = 3;
/// Kinds of failures, by name.
const KINDS: [&str; 2] = [outcome::CONNECTION_LOST, outcome::NACKED];

/// The events of one message.
#[derive(Debug, Clone)]
struct History {
    /// Each delivery: the process, the redelivered flag and the latency.
    deliveries: Vec<(usize, bool, u64)>,
    /// Failures: the process and the kind.
    failures: Vec<(usize, usize)>,
}

fn histories() -> impl Strategy<Value = Vec<History>> {
    let delivery = (0..PROCESSES, any::<bool>(), 1_000_u64..1_000_000);
    let failures = prop::collection::vec((0..PROCESSES, 0..KINDS.len()), 0..3);
    let history = (prop::collection::vec(delivery, 0..4), failures);
    let history = history.prop_map(|(deliveries, mut failures)| {
        failures.sort_by_key(|(_, kind)| *kind);
        History {
            deliveries,
            failures,
        }
    });
    prop::collection::vec(history, 1..60)
}

/// A message of the warm-up or of the measured time.
fn message(index: usize) -> (u32, u64) {
    (stamp::stream(0, index.is_multiple_of(2)), index as u64 / 2)
}

/// Records the events of some processes in one ledger: failures last, and arrivals first that the broker marks as
/// redelivered, or that it does not.
fn record(
    ledger: &Ledger,
    histories: &[History],
    given_back: [u64; PROCESSES],
    marked_first: bool,
    is_here: impl Fn(usize) -> bool,
) -> Tally {
    let (worker, recorded) = worker();
    for marked in [marked_first, !marked_first] {
        for (index, history) in histories.iter().enumerate() {
            let (stream, sequence) = message(index);
            let deliveries = history.deliveries.iter();
            let mut arrivals: Vec<Arrival> = deliveries
                .filter(|(process, redelivered, _)| is_here(*process) && *redelivered == marked)
                .map(|(process, redelivered, latency)| Arrival {
                    stream,
                    consumer: *process as u32,
                    sequence,
                    latency: Some(*latency),
                    redelivered: *redelivered,
                })
                .collect();
            // The first of several is the earliest.
            arrivals.sort_by_key(|arrival| arrival.latency);
            ledger.take(&mut arrivals, &worker.record);
        }
    }
    for (index, history) in histories.iter().enumerate() {
        let (stream, sequence) = message(index);
        for (process, kind) in &history.failures {
            if is_here(*process) {
                ledger.fail(stream, sequence, KINDS[*kind], &worker.record);
            }
        }
    }
    if is_here(0) {
        let counts = |counts: bool| {
            histories.len().div_ceil(2) as u64 - u64::from(!counts && histories.len() % 2 == 1)
        };
        let published = [true, false].map(|counted| (stamp::stream(0, counted), counts(counted)));
        ledger.published(histories.len() as u64);
        ledger.producers_done(published.into_iter());
        worker.record.begin_many(counts(true));
    }
    for (process, messages) in given_back.into_iter().enumerate() {
        if is_here(process) {
            ledger.given_back(messages);
        }
    }
    recorded.end()
}

/// Returns the outcomes that must not depend on the number of processes.
fn outcomes(total: &Tally) -> BTreeMap<&str, u64> {
    let counts = [
        Counter::STARTED,
        Counter::OK,
        Counter::UNFINISHED,
        count::LOST,
        count::DROPPED,
        count::DUPLICATED,
        count::REDELIVERED_AFTER_ACK,
        count::ARRIVED_LATE,
    ];
    let errors = total
        .errors
        .iter()
        .map(|(kind, number)| (kind.as_str(), *number));
    counts
        .map(|counter| (counter.name(), total.counted(counter)))
        .into_iter()
        .chain(errors.filter(|(_, number)| *number > 0))
        .collect()
}

proptest! {
    #[test]
    fn a_divided_ledger_is_the_ledger_of_one_process(
        histories in histories(),
        given_back in [0_u64..30, 0..30, 0..30],
        marked_first in any::<[bool; PROCESSES]>(),
        queued in prop::option::of(0_u64..20),
        written in 0_u64..40,
        may_drop: bool,
        order in Just([0, 1, 2]).prop_shuffle(),
    ) {
        let one = Ledger::new(false, false);
        let mut expected = record(&one, &histories, given_back, false, |_| true);
        // The producer's channel was closed after so many messages of the measured time.
        let written = written.min(histories.len() as u64 / 2);
        one.refused(stamp::stream(0, true), written);
        let (worker, closed) = worker();
        one.close(queued, may_drop, &worker.record);
        worker.record.count(count::REDELIVERED_AFTER_ACK, one.redelivered_unasked());
        expected.merge(&closed.end());

        let mut total = Tally::new(&SPEC.series);
        let mut lines = Vec::new();
        for process in 0..PROCESSES {
            let part = Ledger::new(false, true);
            let marked_first = marked_first[process];
            let is_here = |other| other == process;
            total.merge(&record(&part, &histories, given_back, marked_first, is_here));
            if is_here(0) {
                part.refused(stamp::stream(0, true), written);
            }
            lines.push(serde_json::to_string(&LedgerLine::Part(part.part(1, false))).unwrap());
        }
        let mut merged = MergedLedger::default();
        merged.add_queues(QueueDepth { messages: queued });
        for process in order {
            match serde_json::from_str(&lines[process]).unwrap() {
                LedgerLine::Part(part) => merged.add(part),
                LedgerLine::Queues(_) => unreachable!("it is a part"),
            }
        }
        let reconciliation = merged.reconcile(false, true, may_drop, &total);
        reconciliation.apply(&mut total, &mut []).unwrap();
        prop_assert_eq!(outcomes(&total), outcomes(&expected));
        let failed: u64 = total.errors.values().sum();
        let ended = total.counted(OK) + failed + total.counted(recorder::UNFINISHED);
        prop_assert_eq!(total.counted(STARTED), ended);

        // A duplicate of another process has been recorded as an arrival.
        let is_duplicated = histories.iter().any(|history| {
            history.deliveries.iter().filter(|(_, marked, _)| !marked).count() > 1
        });
        if !is_duplicated {
            let values = |tally: &Tally| tally.distribution(END_TO_END).encode();
            prop_assert_eq!(values(&total), values(&expected));
        }
    }
}

/// Returns the line of a process that has published three messages and received these, all in one stream.
fn part(published: Option<u64>, arrived: &[u64]) -> LedgerPart {
    let (worker, _) = worker();
    let ledger = Ledger::new(false, true);
    let stream = stamp::stream(0, true);
    let arrivals = arrived.iter().map(|sequence| Arrival {
        stream,
        consumer: 0,
        sequence: *sequence,
        latency: Some(1),
        redelivered: false,
    });
    ledger.take(&mut arrivals.collect(), &worker.record);
    ledger.producers_done(published.into_iter().map(|number| (stream, number)));
    ledger.part(1, false)
}

fn merged(parts: impl IntoIterator<Item = LedgerPart>, queued: Option<u64>) -> MergedLedger {
    let mut merged = MergedLedger::default();
    parts.into_iter().for_each(|part| merged.add(part));
    merged.add_queues(QueueDepth { messages: queued });
    merged
}

#[test]
fn a_message_is_lost_only_if_all_ledgers_and_the_queue_depths_are_there() {
    let mut total = Tally::new(&SPEC.series);
    total.count(STARTED, 3);
    total.count(OK, 1);
    let lost = |merged: &MergedLedger, is_complete: bool| {
        let settled = merged.reconcile(false, is_complete, false, &total).added;
        [Counter::UNFINISHED, count::LOST].map(|counter| settled.counted(counter))
    };
    let all = || [part(Some(3), &[]), part(None, &[1])];
    assert_eq!(lost(&merged(all(), Some(1)), true), [1, 1]);
    assert_eq!(lost(&merged(all(), None), true), [2, 0]);
    assert_eq!(
        lost(&merged(all().into_iter().skip(1), Some(0)), false),
        [2, 0]
    );
    assert_eq!(merged(all(), Some(1)).why_unknown(true), None);
    assert!(merged(all(), None).why_unknown(true).is_some());
    assert!(merged(all(), Some(1)).why_unknown(false).is_some());
}

#[test]
fn a_duplicate_is_found_although_each_process_saw_the_message_once() {
    let merged = merged([part(Some(3), &[0, 1, 2]), part(None, &[1])], Some(0));
    let reconciliation = merged.reconcile(false, true, false, &Tally::new(&SPEC.series));
    assert_eq!(reconciliation.added.counted(count::DUPLICATED), 1);
    assert_eq!(reconciliation.withdrawn.counted(OK), 1);
    assert_eq!(reconciliation.added.counted(count::LOST), 0);
}

#[test]
fn messages_of_two_runs_are_not_duplicates_of_each_other() {
    let mut total = Tally::new(&SPEC.series);
    total.count(STARTED, 4);
    total.count(OK, 4);
    let duplicated = |run: u32| {
        let other = LedgerPart {
            run,
            ..part(None, &[0, 1])
        };
        let reconciliation =
            merged([part(None, &[0, 1]), other], None).reconcile(true, true, false, &total);
        reconciliation.added.counted(count::DUPLICATED)
    };
    // A run without producers, each of whose processes accepts the messages of one run.
    assert_eq!([duplicated(1), duplicated(2)], [2, 0]);
}
