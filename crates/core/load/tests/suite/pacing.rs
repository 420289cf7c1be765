//! Tests what is charged to whom: stalls to the target, lateness of the driver to the driver, and that nothing
//! vanishes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use load::clock::{self, Timer};
use load::driver::Phases;
use load::pacer::{CATCH_UP_NS, Pacer, Start, Tick};
use load::plan::Timeline;
use load::schedule::{Arrival, Schedule, Share, Stage};
use tokio::time::{sleep, timeout};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// An allocator that counts what each thread allocates.
struct Counting;

#[expect(unsafe_code, reason = "an allocator is unsafe to write")]
// SAFETY: the system's allocator does all the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the arguments are passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the arguments are passed on unchanged.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MS: u64 = 1_000_000;
const FOREVER: u64 = u64::MAX;

fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Returns a schedule of 100 operations per second, with `count` of them.
fn hundred_a_second(count: u64) -> Schedule {
    let stage = Stage {
        from: 100.0,
        to: 100.0,
        over: Duration::from_secs(3600),
    };
    Schedule::rate(&[stage], Arrival::Constant, 0, Share::ALL).limited(count)
}

fn ready(tick: Tick) -> Start {
    match tick {
        Tick::Ready(start) => start,
        other => panic!("nothing is ready: {other:?}"),
    }
}

/// Returns the part of a start that decides who is charged, in milliseconds: at, due, lag.
fn charge(start: Start) -> (u64, u64, Option<u64>) {
    (start.at / MS, start.due / MS, start.lag.map(|lag| lag / MS))
}

/// Runs a loop that performs one operation at a time, on a clock of its own: `busy` returns how long an operation
/// keeps it, in milliseconds. The times and the charge of each start are in milliseconds.
fn perform(pacer: &mut Pacer, busy: impl Fn(Start) -> u64) -> Vec<(Start, u64)> {
    let (mut now, mut performed) = (0, Vec::new());
    loop {
        match pacer.poll(now) {
            Tick::Ready(first) => {
                let mut next = Some(first);
                while let Some(start) = next {
                    now += busy(start) * MS;
                    performed.push((start, now));
                    next = pacer.next_of_client(start, now);
                }
            }
            Tick::Wait(due) => now = due,
            Tick::Over => return performed,
        }
    }
}

#[test]
fn a_stalled_target_is_charged_for_every_start_it_delayed() {
    let mut pacer = Pacer::new(0, FOREVER, vec![hundred_a_second(7)]);
    // The target stalls in the first operation, and answers the others at once.
    let performed = perform(&mut pacer, |start| if start.index == 0 { 50 } else { 0 });
    let latencies: Vec<_> = performed
        .iter()
        .map(|(start, end)| (end - start.at) / MS)
        .collect();
    assert_eq!(latencies, [50, 40, 30, 20, 10, 0, 0]);
    let lags: Vec<_> = performed
        .iter()
        .map(|(start, _)| charge(*start).2)
        .collect();
    assert_eq!(lags, [0, 40, 30, 20, 10, 0, 0].map(Some));
}

#[test]
fn workers_of_a_closed_loop_begin_in_the_ramp_and_go_on_as_soon_as_they_can() {
    let schedule = Schedule::closed(4, milliseconds(40), Share { index: 2, of: 4 });
    let mut pacer = Pacer::new(0, 35 * MS, vec![schedule]);
    let performed = perform(&mut pacer, |_| 6);
    let starts: Vec<_> = performed
        .iter()
        .map(|(start, _)| (start.index, charge(*start)))
        .collect();
    assert_eq!(
        starts,
        [
            (2, (20, 20, Some(0))),
            (6, (26, 26, None)),
            (10, (32, 32, None))
        ]
    );
    assert_eq!((pacer.started(), pacer.missed(FOREVER)), (3, 0));
}

#[test]
fn a_closed_loop_worker_stops_after_its_operations() {
    let schedule = Schedule::closed(1, Duration::ZERO, Share::ALL).limited(5);
    let mut pacer = Pacer::new(0, FOREVER, vec![schedule]);
    let performed = perform(&mut pacer, |_| 1);
    let starts: Vec<_> = performed
        .iter()
        .map(|(start, _)| (start.index, charge(*start)))
        .collect();
    let expected = [0, 1, 2, 3, 4].map(|index| (index, (index, index, None)));
    assert_eq!(starts[1..], expected[1..]);
    assert_eq!((starts.len(), starts[0].0), (5, 0));
    assert!(pacer.over(5 * MS));
}

#[test]
fn a_loop_repeats_the_workers_of_a_closed_group_without_remembering_them() {
    let mut indexes = Vec::new();
    for index in 0..2 {
        let schedule = Schedule::closed(5, Duration::ZERO, Share { index, of: 2 }).limited(3);
        let mut pacer = Pacer::new(0, 100, vec![schedule]);
        while let Tick::Ready(first) = pacer.poll(7) {
            let rest =
                std::iter::successors(Some(first), |previous| pacer.next_of_client(*previous, 9));
            indexes.extend(rest.map(|start| start.index));
        }
        let last = Start {
            at: 0,
            due: 0,
            lag: None,
            index,
            group: 0,
        };
        assert_eq!(
            pacer.next_of_client(last, 100),
            None,
            "nothing starts at the end"
        );
    }
    indexes.sort_unstable();
    assert_eq!(indexes, (0..15).collect::<Vec<_>>());
}

#[test]
fn loads_other_than_a_closed_loop_are_not_repeated() {
    let mut pacer = Pacer::new(
        0,
        FOREVER,
        vec![Schedule::spread(2, Duration::ZERO, Share::ALL)],
    );
    let start = ready(pacer.poll(5));
    assert_eq!(pacer.next_of_client(start, 6), None);
}

#[test]
fn a_loop_is_never_excused() {
    let mut pacer = Pacer::new(1000 * MS, FOREVER, vec![hundred_a_second(2)]);
    assert_eq!(pacer.poll(0), Tick::Wait(1000 * MS));
    assert_eq!(charge(ready(pacer.poll(1000 * MS))), (1000, 1000, Some(0)));
    assert_eq!(pacer.poll(1009 * MS), Tick::Wait(1010 * MS));
    assert_eq!(charge(ready(pacer.poll(1013 * MS))), (1010, 1010, Some(3)));
    assert_eq!(pacer.poll(1013 * MS), Tick::Over);
    assert!(pacer.over(1013 * MS));
}

#[test]
fn a_burst_counts_from_its_starts_since_no_time_was_asked_for() {
    let mut pacer = Pacer::new(
        10,
        FOREVER,
        vec![Schedule::spread(2, Duration::ZERO, Share::ALL)],
    );
    let first = ready(pacer.poll(15));
    let second = ready(pacer.poll(40));
    assert_eq!((first.at, first.due, first.lag), (15, 10, None));
    assert_eq!((second.at, second.due, second.lag), (40, 10, None));
    assert_eq!(pacer.poll(41), Tick::Over);
}

#[test]
fn a_late_beginning_in_a_ramp_is_lag_and_no_latency() {
    let schedule = Schedule::closed(2, milliseconds(20), Share::ALL);
    let mut pacer = Pacer::new(0, FOREVER, vec![schedule]);
    assert_eq!(charge(ready(pacer.poll(0))), (0, 0, Some(0)));
    assert_eq!(charge(ready(pacer.poll(14 * MS))), (14, 10, Some(4)));
}

#[test]
fn groups_are_merged_by_due_time_and_the_first_group_wins_a_tie() {
    let every =
        |gap: u64, count: u64| Schedule::spread(count, milliseconds(gap * count), Share::ALL);
    let mut pacer = Pacer::new(0, FOREVER, vec![every(20, 3), every(15, 5), every(60, 1)]);
    let mut order = Vec::new();
    let mut now = 0;
    loop {
        match pacer.poll(now) {
            Tick::Ready(start) => order.push((start.due / MS, start.group, start.index)),
            Tick::Wait(due) => now = due,
            Tick::Over => break,
        }
    }
    let expected = [
        (0, 0, 0),
        (0, 1, 0),
        (0, 2, 0),
        (15, 1, 1),
        (20, 0, 1),
        (30, 1, 2),
        (40, 0, 2),
        (45, 1, 3),
        (60, 1, 4),
    ];
    assert_eq!(order, expected);
}

/// Returns all starts that a loop gets at one time.
fn all_at(pacer: &mut Pacer, now: u64) -> Vec<Start> {
    let ready = || match pacer.poll(now) {
        Tick::Ready(start) => Some(start),
        Tick::Wait(_) | Tick::Over => None,
    };
    std::iter::from_fn(ready).collect()
}

#[test]
fn starts_due_before_the_end_are_made_if_the_loop_wakes_after_it() {
    let mut pacer = Pacer::new(0, 100 * MS, vec![hundred_a_second(1000)]);
    assert_eq!(all_at(&mut pacer, 45 * MS).len(), 5);
    // It sleeps past the end: 50, 60, … 90 ms are due before it, 100 ms is not.
    assert!(!pacer.over(103 * MS));
    let late = all_at(&mut pacer, 103 * MS);
    let charged: Vec<_> = late.into_iter().map(charge).collect();
    let expected = [50, 60, 70, 80, 90].map(|due| (due, due, Some(103 - due)));
    assert_eq!(charged, expected);
    assert!(pacer.over(103 * MS));
    assert_eq!((pacer.overrun(), pacer.missed(FOREVER)), (3 * MS, 0));
}

#[test]
fn a_rate_catches_up_for_a_stated_time_and_misses_the_rest() {
    let rate = || {
        let stage = Stage {
            from: 100.0,
            to: 100.0,
            over: Duration::from_secs(3600),
        };
        Schedule::rate(&[stage], Arrival::Constant, 0, Share::ALL)
    };
    let last = 100 * MS + CATCH_UP_NS - 1;
    let mut pacer = Pacer::new(0, 100 * MS, vec![rate()]);
    assert_eq!(pacer.starts_until(), last + 1);
    assert_eq!(all_at(&mut pacer, last).len(), 10);
    assert_eq!(pacer.missed(FOREVER), 0);

    let mut pacer = Pacer::new(0, 100 * MS, vec![rate()]);
    assert_eq!(all_at(&mut pacer, 45 * MS).len(), 5);
    assert!(!pacer.over(last) && pacer.over(last + 1));
    assert_eq!(pacer.poll(last + 1), Tick::Over);
    assert_eq!((pacer.started(), pacer.missed(FOREVER)), (5, 5));
    assert_eq!(pacer.missed(FOREVER), 5, "asking again changes nothing");
}

#[test]
fn a_fixed_number_starts_in_full_however_late() {
    let second = Duration::from_secs(2);
    let ramp = Schedule::spread(100, second, Share::ALL);
    let limited = hundred_a_second(200);
    for (schedule, number) in [(ramp, 100), (limited, 200)] {
        let mut pacer = Pacer::new(0, 2_000 * MS, vec![schedule]);
        let early = all_at(&mut pacer, 1_600 * MS).len();
        assert!(early < number && !pacer.over(3_600_000 * MS));
        let late = all_at(&mut pacer, 3_600_000 * MS);
        assert_eq!(early + late.len(), number);
        assert!(late.iter().all(|start| start.at == start.due));
        assert!(pacer.over(3_600_000 * MS));
        assert_eq!(pacer.missed(FOREVER), 0);
        assert_eq!(pacer.overrun(), 3_598_000 * MS);
    }
}

#[test]
fn a_fixed_number_beside_a_rate_starts_in_full_when_the_rate_has_caught_up() {
    let stage = Stage {
        from: 10.0,
        to: 10.0,
        over: Duration::from_secs(3600),
    };
    let rate = Schedule::rate(&[stage], Arrival::Constant, 0, Share::ALL);
    let ramp = Schedule::spread(10, Duration::from_secs(1), Share::ALL);
    let mut pacer = Pacer::new(0, 1_000 * MS, vec![rate, ramp]);
    let late = all_at(&mut pacer, 2_000 * MS);
    assert!(late.iter().all(|start| start.group == 1));
    assert_eq!((late.len(), pacer.missed(FOREVER)), (10, 10));
}

#[test]
fn a_burst_needs_no_time_and_all_of_it_counts() {
    let timeline = Timeline::new(Duration::ZERO, Duration::from_secs(1));
    let phases = Phases::new(timeline, 7);
    let burst = Schedule::spread(50, Duration::ZERO, Share::ALL);
    let mut pacer = Pacer::new(phases.origin, phases.end, vec![burst]);
    assert!(!pacer.is_in_burst(6) && pacer.is_in_burst(7));
    let starts = all_at(&mut pacer, 9);
    assert!(!pacer.is_in_burst(9) && pacer.over(9));
    assert_eq!(starts.len(), 50);
    assert!(starts.iter().all(|start| phases.counts(start.at)));
}

#[test]
fn nothing_catches_up_after_an_interruption() {
    let ramp = Schedule::spread(10, milliseconds(100), Share::ALL);
    let mut pacer = Pacer::new(0, 100 * MS, vec![hundred_a_second(10), ramp]);
    assert_eq!(all_at(&mut pacer, 45 * MS).len(), 10);
    pacer.stop_at(75 * MS);
    assert_eq!(pacer.starts_until(), 75 * MS);
    assert!(pacer.over(75 * MS));
    assert_eq!(all_at(&mut pacer, 80 * MS), []);
    assert_eq!(pacer.missed(FOREVER), 6);
}

#[test]
fn a_load_that_begins_at_another_time_has_the_same_schedule() {
    let mut pacer = Pacer::new(500 * MS, 600 * MS, vec![hundred_a_second(1000)]);
    assert_eq!(pacer.poll(200 * MS), Tick::Wait(500 * MS));
    pacer.move_to(300 * MS, 400 * MS);
    assert_eq!(pacer.poll(299 * MS), Tick::Wait(300 * MS));
    assert_eq!(charge(ready(pacer.poll(301 * MS))), (300, 300, Some(1)));
    pacer.move_to(0, 100 * MS);
    assert_eq!(charge(ready(pacer.poll(311 * MS))).1, 310, "it has begun");
    assert_eq!(all_at(&mut pacer, 500 * MS).len(), 8);
    assert_eq!(pacer.missed(FOREVER), 0);
}

#[test]
fn an_interruption_misses_only_what_was_due_by_then() {
    let mut pacer = Pacer::new(0, 1000 * MS, vec![hundred_a_second(1000)]);
    ready(pacer.poll(0));
    pacer.stop_at(35 * MS);
    pacer.stop_at(900 * MS);
    assert!(pacer.over(35 * MS) && !pacer.over(34 * MS));
    assert_eq!(pacer.poll(35 * MS), Tick::Over);
    assert_eq!(pacer.missed(36 * MS), 3);
}

#[test]
fn nothing_is_due_at_the_end_or_after_it() {
    let mut pacer = Pacer::new(0, 20 * MS, vec![hundred_a_second(1000)]);
    ready(pacer.poll(10 * MS));
    ready(pacer.poll(10 * MS));
    assert_eq!(
        pacer.poll(10 * MS),
        Tick::Over,
        "the next one is due at the end: no need to wait for it"
    );
    assert_eq!(pacer.missed(FOREVER), 0);
}

#[test]
fn started_and_missed_add_up_to_what_was_offered() {
    let mut pacer = Pacer::new(0, 1000 * MS, vec![hundred_a_second(1000)]);
    ready(pacer.poll(0));
    assert_eq!(all_at(&mut pacer, 58 * MS).len(), 5);
    assert_eq!(pacer.poll(58 * MS), Tick::Wait(60 * MS));
    let missed = pacer.missed(1000 * MS);
    assert_eq!((pacer.started(), missed), (6, 94));
}

#[test]
fn no_start_allocates() {
    let curve = [
        Stage {
            from: 0.0,
            to: 1e5,
            over: milliseconds(100),
        },
        Stage {
            from: 1e5,
            to: 1e5,
            over: milliseconds(100),
        },
    ];
    let rate = |arrival| Schedule::rate(&curve, arrival, 1, Share::ALL);
    let spread = Schedule::spread(1000, milliseconds(200), Share::ALL);
    let mut pacer = Pacer::new(
        0,
        FOREVER,
        vec![rate(Arrival::Constant), rate(Arrival::Poisson), spread],
    );
    let before = ALLOCATIONS.get();
    let mut now = 0;
    while !pacer.over(now) {
        if let Tick::Wait(due) = pacer.poll(now) {
            now = due;
        }
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
    assert!(pacer.started() > 30_000, "{} starts", pacer.started());
    drop(vec![0u8; 10]);
    assert!(ALLOCATIONS.get() > before, "the count works");
}

#[tokio::test]
async fn the_real_clock_never_wakes_early() {
    let timer = Timer::new().unwrap();
    let mut lateness: Vec<u64> = Vec::new();
    for round in 0..60 {
        let at = clock::now() + 100_000 + round * 37_000;
        timer.sleep_until(at).await;
        let woken = clock::now();
        assert!(woken >= at, "round {round}: woke {} ns early", at - woken);
        lateness.push(woken - at);
    }
    lateness.sort_unstable();
    // 0.03–0.1 ms on an idle machine; the limit is for a machine that is building at the same time.
    assert!(
        lateness[30] < 50 * MS,
        "half of the waits end {} ns late",
        lateness[30]
    );
}

#[tokio::test]
async fn the_real_clock_forgets_a_wait_that_was_dropped() {
    let timer = Timer::new().unwrap();
    for _ in 0..10 {
        // The timer fires while nothing waits for it, or is replaced before it fires.
        for pause in [milliseconds(4), Duration::ZERO] {
            let at = clock::now() + 2 * MS;
            let waited = timeout(Duration::ZERO, timer.sleep_until(at)).await;
            assert!(waited.is_err() || clock::now() >= at);
            // The timer says nothing when it fires unheard.
            sleep(pause).await;
            let later = clock::now() + 3 * MS;
            timer.sleep_until(later).await;
            assert!(clock::now() >= later);
        }
    }
    timer.sleep_until(0).await;
}

#[tokio::test]
async fn a_thousand_a_second_are_all_started_none_before_its_time() {
    let timer = Timer::new().unwrap();
    let origin = clock::now() + 5 * MS;
    let schedule = Schedule::spread(200, milliseconds(200), Share::ALL);
    let mut pacer = Pacer::new(origin, FOREVER, vec![schedule]);
    let mut index = 0;
    loop {
        match pacer.poll(clock::now()) {
            Tick::Ready(start) => {
                assert_eq!((start.index, start.due), (index, origin + index * MS));
                assert!(clock::now() >= start.at && start.at == start.due);
                index += 1;
            }
            Tick::Wait(due) => timer.sleep_until(due).await,
            Tick::Over => break,
        }
    }
    assert_eq!(index, 200);
}

#[test]
fn the_clocks_agree_with_the_standard_library() {
    let wall = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    assert!(clock::unix_ns().abs_diff(wall.as_nanos() as u64) < 60_000 * MS);
    let (time, cpu) = (clock::now(), clock::thread_cpu_ns());
    while clock::thread_cpu_ns() < cpu + MS {
        std::hint::spin_loop();
    }
    assert!(clock::now() - time >= MS, "1 ms of CPU took less than 1 ms");
}
