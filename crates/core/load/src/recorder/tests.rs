//! Tests one recorder with times that the tests choose.

use measure::disturbance::Stalls;
use measure::spec::CounterRole::Detail;
use measure::spec::{CounterSpec, SeriesRole, SeriesSpec};

use super::stalls::HEARTBEAT_NS;
use super::*;

const MS: u64 = 1_000_000;
const SERIES: &[SeriesSpec] = &[
    SeriesSpec::new("one", SeriesRole::Main),
    SeriesSpec::new("two", SeriesRole::Main),
];

measure::counters! {
    APPLES = CounterSpec::new("apples", "apples", Detail);
    PEARS = CounterSpec::new("pears", "pears", Detail);
    PLUMS = CounterSpec::new("plums", "plums", Detail);
}

/// Returns the phases of a load that is measured from its start and has no end.
fn endless(origin: u64) -> Phases {
    Phases {
        origin,
        begin: origin,
        measure: origin,
        end: u64::MAX,
        drained: u64::MAX,
    }
}

#[test]
fn a_thread_whose_seconds_are_not_read_waits_before_it_takes_all_memory() {
    let (send, mut sent) = tokio::sync::mpsc::unbounded_channel();
    let (give, take) = std::sync::mpsc::channel();
    give.send(Tally::new(&SERIES[..1])).unwrap();
    let seconds = 3 * TALLIES as u64;
    let thread = std::thread::spawn(move || {
        let record = Recorder::new(0, 0, Tally::new(&SERIES[..1]), &[], send, take);
        (1..=seconds).for_each(|second| {
            record.tick(second * SECOND_NS);
        });
    });
    while sent.len() < TALLIES - 1 {
        std::thread::yield_now();
    }
    for second in 0..seconds {
        // Time for one more second, which must not come.
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(sent.len() < TALLIES, "{}", sent.len());
        let worker_second = sent.blocking_recv().unwrap();
        assert_eq!(worker_second.second, second);
        // The thread needs no tally after its last second.
        let _ = give.send(worker_second.tally);
    }
    thread.join().unwrap();
}

/// Returns the stalls of a loop with these turns, in milliseconds: the beginning of each, and the time until which it
/// said to wait.
fn stalls(turns: &[(u64, u64)]) -> Vec<(u64, Stalls)> {
    let (send, mut sent) = tokio::sync::mpsc::unbounded_channel();
    let (_give, take) = std::sync::mpsc::channel();
    let record = Recorder::new(0, 0, Tally::new(&SERIES[..1]), &[], send, take);
    for (now, until) in turns {
        record.tick(now * MS);
        assert!(record.wait_until(until * MS, now * MS, false) <= now * MS + HEARTBEAT_NS);
    }
    record.finish(Ok(()));
    let mut found = Vec::new();
    while let Ok(worker_second) = sent.try_recv() {
        found.extend(
            worker_second
                .stalls
                .found()
                .map(|stalls| (worker_second.second, stalls)),
        );
    }
    found
}

#[test]
fn operations_begun_in_a_long_turn_may_have_begun_at_its_end() {
    let (send, mut sent) = tokio::sync::mpsc::unbounded_channel();
    let (_give, take) = std::sync::mpsc::channel();
    let record = Recorder::new(0, 0, Tally::new(&SERIES[..1]), &[], send, take);
    record.tick(MS);
    record.begin_many(100);
    record.tick(401 * MS);
    record.ok_many(60);
    record.tick(402 * MS);
    record.finish(Ok(()));
    assert_eq!(sent.try_recv().unwrap().active.slack_ns, 100 * 400 * MS);
}

#[test]
fn a_loop_that_turns_later_than_it_said_has_stalled() {
    assert_eq!(
        stalls(&[(0, 1_000), (10, 11), (20, 25), (35, 35), (45, 60)]),
        []
    );
    // It waits for events of a closed loop, and stalls for half a second.
    let found = stalls(&[
        (0, 1_000),
        (500, 1_000),
        (510, 510),
        (541, 600),
        (1_700, 1_701),
    ]);
    let of = |(second, stalls): &(u64, Stalls)| {
        // CPU time of the test itself is not part of the stalls.
        let ms = |ns: u64| (ns + MS).div_euclid(MS);
        (
            *second,
            stalls.count,
            ms(stalls.longest_ns),
            ms(stalls.total_ns),
        )
    };
    let found: Vec<_> = found.iter().map(of).collect();
    assert_eq!(found, [(0, 2, 490, 521), (1, 1, 1_149, 1_149)]);
}

/// Uses the thread's own clock: the thread works for as long as the loop is late.
#[test]
fn a_turn_that_works_for_long_is_no_stall() {
    let (send, mut sent) = tokio::sync::mpsc::unbounded_channel();
    let (_give, take) = std::sync::mpsc::channel();
    let record = Recorder::new(0, 0, Tally::new(&SERIES[..1]), &[], send, take);
    record.tick(MS);
    record.wait_until(MS, MS, false);
    let begun = clock::thread_cpu_ns();
    while clock::thread_cpu_ns() < begun + 30 * MS {}
    record.tick(32 * MS);
    record.finish(Ok(()));
    assert_eq!(sent.try_recv().unwrap().stalls, Stalls::default());
}

/// Integrates open operations from one turn of the loop to the next.
#[test]
fn open_operations_are_integrated_over_the_seconds_in_which_they_were_open() {
    let (send, mut sent) = tokio::sync::mpsc::unbounded_channel();
    let (_give, take) = std::sync::mpsc::channel();
    let record = Recorder::new(0, 0, Tally::new(&SERIES[..1]), &[], send, take);
    record.begin();
    record.tick(100 * MS);
    record.begin_many(2);
    record.tick(500 * MS);
    // The turn is late: operations open until the end of the second belong to that second.
    record.tick(1_250 * MS);
    record.ok_many(2);
    record.tick(1_500 * MS);
    record.finish(Ok(()));
    let mut rows = Vec::new();
    while let Ok(worker_second) = sent.try_recv() {
        rows.push((
            worker_second.second,
            worker_second.active.integral_ns / MS as i64,
            worker_second.active.at_end,
        ));
    }
    // One for 0.4 s, three for 0.5 s; three for 0.5 s, and one that is left open for the rest.
    assert_eq!(rows, [(0, 1_900, 3), (1, 2_000, 1)]);
}

/// Returns the reports of one thread with a measured time from 1.5 s to 2.5 s after now.
fn measured(work: impl FnOnce(&Recorder, u64)) -> Vec<(u64, u64, u64)> {
    let (send, mut sent) = tokio::sync::mpsc::unbounded_channel();
    let (_give, take) = std::sync::mpsc::channel();
    let origin = clock::now();
    let phases = Phases {
        origin,
        begin: origin,
        measure: origin + 1_500 * MS,
        end: origin + 2_500 * MS,
        drained: origin + 9_000 * MS,
    };
    let cancellation = Arc::new(Cancellation::new().unwrap());
    let record = Recorder::new(0, origin, Tally::new(&SERIES[..1]), &[], send, take).measuring(
        phases,
        &cancellation,
        Series(0),
    );
    work(&record, origin);
    record.finish(Ok(()));
    let mut rows = Vec::new();
    while let Ok(worker_second) = sent.try_recv() {
        let measured = &worker_second.tally.measured;
        let of = |name| measured.counts.get(name).copied().unwrap_or(0);
        rows.push((worker_second.second, of(OK), measured.failed));
    }
    rows
}

#[test]
fn a_counter_is_in_the_second_in_which_it_was_counted_and_absent_from_the_others() {
    let (send, mut sent) = tokio::sync::mpsc::unbounded_channel();
    let (_give, take) = std::sync::mpsc::channel();
    let record = Recorder::new(0, 0, Tally::new(SERIES), COUNTERS, send, take);
    record.count(APPLES, 2);
    record.count(APPLES, 3);
    record.count(PEARS, 0);
    record.add(PLUMS, 0);
    record.count_by_name("plums at run time", 1);
    record.tick(SECOND_NS);
    record.count(PLUMS, 4);
    record.count_by_name(PLUMS.name(), 1);
    record.finish(Ok(()));
    let mut rows = std::iter::from_fn(|| sent.try_recv().ok()).map(|second| second.tally.counts);
    let first = [("apples", 5), ("pears", 0), ("plums at run time", 1)];
    for counts in [&first[..], &[("plums", 5)]] {
        let expected = counts
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count));
        assert_eq!(rows.next().unwrap(), expected.collect());
    }
}

#[test]
fn operations_that_end_in_the_measured_time_are_counted_apart_wherever_rows_begin() {
    let rows = measured(|record, origin| {
        // (at, ended well before it, of the warm-up, failed)
        for (at_ms, ok, of_warmup, failed) in [
            (900, 10_000, 10_000, 10_000),
            (1_200, 1_000, 1_000, 1_000),
            (1_600, 1_000, 1_000, 1_000),
            (1_900, 1, 2, 0),
            (2_100, 4, 8, 1),
            (2_400, 16, 0, 2),
            (2_600, 32, 64, 0),
            (2_900, 1_000, 1_000, 1_000),
            (3_500, 1_000, 1_000, 1_000),
        ] {
            record.ok_many(ok);
            record.ok_of_warmup(of_warmup);
            (0..failed).for_each(|_| record.error("status"));
            record.tick(origin + at_ms * MS);
        }
    });
    let measured: Vec<_> = rows
        .into_iter()
        .filter(|(_, ok, failed)| ok + failed > 0)
        .collect();
    // Events of the turn that ends the second belong to that second, at both edges.
    assert_eq!(measured, [(1, 15, 1), (2, 112, 2)]);
}

#[test]
fn failures_of_the_warm_up_are_counted_by_kind_in_their_second() {
    let (send, mut sent) = tokio::sync::mpsc::unbounded_channel();
    let (_give, take) = std::sync::mpsc::channel();
    let record = Recorder::new(0, 0, Tally::new(SERIES), COUNTERS, send, take);
    for kind in ["timeout", "status", "timeout"] {
        record.error_of_warmup(kind);
    }
    record.tick(SECOND_NS);
    record.error_of_warmup("reset");
    record.finish(Ok(()));
    for counts in [
        &[
            ("warmup_failed", 3),
            ("warmup_failed.status", 1),
            ("warmup_failed.timeout", 2),
        ][..],
        &[("warmup_failed", 1), ("warmup_failed.reset", 1)],
    ] {
        let second = sent.try_recv().unwrap().tally;
        let counted = second.counts.iter();
        let counted: Vec<_> = counted.map(|(name, count)| (&**name, *count)).collect();
        assert_eq!(counted, counts);
        assert!(second.errors.is_empty(), "they are in no total");
    }
}

#[test]
fn the_measured_time_ends_where_the_run_is_asked_to() {
    let (send, mut sent) = tokio::sync::mpsc::unbounded_channel();
    let (_give, take) = std::sync::mpsc::channel();
    let origin = clock::now();
    let phases = endless(origin);
    let cancellation = Arc::new(Cancellation::new().unwrap());
    let record = Recorder::new(0, origin, Tally::new(&SERIES[..1]), &[], send, take).measuring(
        phases,
        &cancellation,
        Series(0),
    );
    record.tick(origin);
    record.ok_many(3);
    cancellation.request(5_000 * MS);
    let asked = cancellation.requested_at();
    cancellation.request(0);
    assert_eq!(cancellation.requested_at(), asked, "it was asked once");
    record.tick(asked);
    record.ok_many(100);
    record.finish(Ok(()));
    let worker_second = sent.try_recv().unwrap();
    assert_eq!(worker_second.tally.counted(OK), 103);
    assert_eq!(worker_second.tally.measured.counts.get(OK), Some(&3));
}

#[test]
fn response_times_are_held_against_the_times_that_they_were_due() {
    let (send, mut sent) = tokio::sync::mpsc::unbounded_channel();
    let (_give, take) = std::sync::mpsc::channel();
    let now = clock::now();
    let origin = now - 10 * SECOND_NS;
    let phases = endless(origin);
    let cancellation = Arc::new(Cancellation::new().unwrap());
    let record = Recorder::new(0, origin, Tally::new(SERIES), &[], send, take).measuring(
        phases,
        &cancellation,
        Series(1),
    );
    // All of them end at one time: an operation due a second later took a second less.
    for response_s in 1..=9 {
        record.value(Series(1), response_s * SECOND_NS);
        record.value(Series(0), 1);
    }
    record.finish(Ok(()));
    let worker_second = sent.try_recv().unwrap();
    let line = worker_second.tally.measured.responses.line().unwrap();
    assert_eq!(line.points, 9);
    assert!((line.slope + 1.0).abs() < 1e-6, "{line:?}");
}

/// Records operations with times of two series, and returns the goodput of all seconds and of the measured time.
fn goodput(objectives: &[(usize, u64)], times: &[(bool, u64, u64)]) -> (Option<u64>, u64) {
    let (send, mut sent) = tokio::sync::mpsc::unbounded_channel();
    let (_give, take) = std::sync::mpsc::channel();
    let cancellation = Arc::new(Cancellation::new().unwrap());
    let objectives: Vec<Objective> = objectives
        .iter()
        .map(|(series, limit_ns)| Objective {
            series: Series(*series),
            limit_ns: *limit_ns,
        })
        .collect();
    let record = Recorder::new(0, 0, Tally::new(SERIES), &[], send, take)
        .measuring(endless(0), &cancellation, Series(0))
        .with_objectives(&objectives);
    record.tick(1);
    for (is_counted, one, two) in times {
        record.ok_with(*is_counted, [(Series(0), *one), (Series(1), *two)]);
    }
    record.error("failed");
    record.unfinished();
    record.finish(Ok(()));
    let tally = sent.try_recv().unwrap().tally;
    let counted = times.iter().filter(|(is_counted, ..)| *is_counted).count() as u64;
    assert_eq!(tally.counted(OK), counted);
    assert_eq!(tally.distribution(Series(1)).len(), counted);
    let measured = tally.measured.counts.get(GOODPUT).copied();
    (tally.counts.get(GOODPUT).copied(), measured.unwrap_or(0))
}

#[test]
fn an_operation_that_meets_all_objectives_is_goodput() {
    let times = [
        (true, 99, 49),
        (true, 100, 49),
        (true, 99, 50),
        (true, 1, u64::MAX - 1),
        // Of the warm-up: in no total, and in the rate of the measured time.
        (false, 99, 49),
        (false, 100, 1),
    ];
    assert_eq!(goodput(&[(0, 100), (1, 50)], &times), (Some(1), 2));
    assert_eq!(goodput(&[(0, 100)], &times), (Some(3), 4));
    // The lower of two limits holds.
    assert_eq!(goodput(&[(1, 50), (1, 1_000)], &times), (Some(2), 4));
    assert_eq!(goodput(&[(0, 1)], &times), (Some(0), 0), "shown as 0");
    assert_eq!(goodput(&[], &times), (None, 0));
}
