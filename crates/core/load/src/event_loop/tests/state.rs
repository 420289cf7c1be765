//! Tests the rules of both loops with times that the tests choose.

use measure::counters::Counter;

use super::*;
use crate::opening_phase::OpeningPhase;
use crate::pacer::CATCH_UP_NS;

/// Returns the state of a run of 100 operations per second from time 0, and what it records.
fn state(measure_ms: u64) -> (LoopState<()>, Run) {
    let (worker, run) = hundred_a_second(Timeline::new(
        Duration::from_millis(measure_ms),
        Duration::from_secs(1),
    ));
    (LoopState::new(worker, Options::default()), run)
}

fn hundred_a_second(timeline: Timeline) -> (Worker, Run) {
    let rate = [Stage {
        from: 100.0,
        to: 100.0,
        over: Duration::from_secs(3_600),
    }];
    let schedule = Schedule::rate(&rate, Arrival::Constant, 1, Share::ALL);
    Run::with_phases(schedule, Phases::new(timeline, 0))
}

/// Returns the state of such a run with a warm-up of 100 ms, whose operations are missed 30 ms after they are due.
fn with_deadline() -> (LoopState<()>, Run) {
    let timeline = Timeline {
        warmup: Duration::from_millis(100),
        ..Timeline::new(Duration::from_secs(1), Duration::from_secs(1))
    };
    let (mut worker, run) = hundred_a_second(timeline);
    worker.deadline_ns = 30 * MS;
    (LoopState::new(worker, Options::default()), run)
}

fn starts(state: &mut LoopState<()>, now: u64) -> Vec<Start> {
    state.begin_turn(now);
    std::iter::from_fn(|| state.next_start().ok()).collect()
}

fn recorded(run: Run) -> Recorded {
    run.record.finish(Ok(()));
    Recorded::read(run.worker_seconds)
}

#[test]
fn a_late_turn_starts_what_was_due_and_its_lateness_is_lag() {
    let (mut state, run) = state(1_000);
    let late: Vec<u64> = starts(&mut state, 50 * MS)
        .iter()
        .map(|start| start.lag.unwrap() / MS)
        .collect();
    assert_eq!(late, [50, 40, 30, 20, 10, 0]);
    assert_eq!(state.next_start(), Err(60 * MS));
    let recorded = recorded(run);
    assert_eq!(recorded.counts(), [6, 0, 0, 0]);
    assert_eq!(recorded.0.lag.len(), 6);
}

#[test]
fn every_operation_of_the_schedule_is_started_or_missed_once() {
    let (mut state, run) = state(1_000);
    assert_eq!(starts(&mut state, 200 * MS).len(), 21);
    // The loop stands still until nothing may be caught up with any more.
    assert_eq!(starts(&mut state, 1_000 * MS + CATCH_UP_NS).len(), 0);
    assert!(state.has_ended(true, u64::MAX));
    assert!(!state.has_ended(false, u64::MAX));
    // The handler took three and did not begin them; the loop counts again at its end.
    state.count_missed(3);
    state.count_missed(0);
    let recorded = recorded(run);
    assert_eq!(recorded.counts(), [21, 0, 79 + 3, 0]);
    assert_eq!(recorded.count(crate::recorder::MISSED_WAITING), 3);
}

#[test]
fn late_starts_extend_the_drain_phase_and_a_cancellation_ends_it() {
    let (mut state, run) = state(100);
    assert_eq!(starts(&mut state, 400 * MS).len(), 10);
    let drained = state.drained();
    assert_eq!(drained, (100 + 1_000 + 300) * MS);
    assert_eq!(state.deadline(drained), drained);
    run.cancellation.request(0);
    let now = clock::now();
    assert_eq!(
        state.deadline(u64::MAX),
        run.cancellation.deadline().unwrap()
    );
    assert!(state.deadline(u64::MAX) <= now);
}

#[test]
fn nothing_starts_after_a_cancellation() {
    let (mut state, run) = state(1_000);
    assert_eq!(starts(&mut state, 100 * MS).len(), 11);
    run.cancellation.request(0);
    assert_eq!(starts(&mut state, 200 * MS).len(), 0);
    assert_eq!(state.phases.end, 200 * MS);
    assert_eq!(state.next_start(), Err(u64::MAX));
    state.count_missed(0);
    // Those due at 110 to 190 ms; the one at 200 ms was not due before the end.
    assert_eq!(recorded(run).counts(), [11, 0, 9, 0]);
}

#[test]
fn a_client_goes_on_until_the_end_and_each_operation_begins() {
    let schedule = Schedule::closed(1, Duration::ZERO, Share::ALL).limited(3);
    let (worker, run) = Run::new(schedule, 0, 1_000, 0);
    let mut state = LoopState::<()>::new(worker, Options::default());
    state.begin_turn(0);
    let mut start = state.next_start().unwrap();
    for ms in 1..3 {
        start = state.next_of_client(start, ms * MS).unwrap();
        assert_eq!((start.at, start.lag), (ms * MS, None));
    }
    assert_eq!(state.next_of_client(start, 3 * MS), None);
    assert_eq!(recorded(run).counts(), [3, 0, 0, 0]);
}

#[test]
fn an_operation_that_begins_later_is_not_counted_at_its_start() {
    let schedule = Schedule::spread(4, Duration::ZERO, Share::ALL);
    let (worker, run) = Run::new(schedule, 0, 10, 0);
    let options = Options {
        begins_at_start: false,
        ..Options::default()
    };
    let mut state = LoopState::<()>::new(worker, options);
    assert_eq!(starts(&mut state, 0).len(), 4);
    assert_eq!(recorded(run).counts(), [0; 4]);
}

#[test]
fn a_load_that_is_brought_forward_moves_the_phases_of_the_loop() {
    let schedule = Schedule::spread(2, Duration::from_millis(10), Share::ALL);
    let timeline = Timeline::new(Duration::from_millis(10), Duration::ZERO);
    let phases = Phases::after_opening(timeline, 0, Duration::from_secs(60));
    let (mut worker, _run) = Run::with_phases(schedule, phases);
    let opening = Arc::new(OpeningPhase::new(1));
    worker.opening = WorkerOpening::new(Some(Arc::clone(&opening)));
    let mut state = LoopState::<()>::new(worker, Options::default());
    assert_eq!(starts(&mut state, 10 * MS), []);
    opening.begin_at(20 * MS);
    assert_eq!(starts(&mut state, 20 * MS).len(), 1);
    assert_eq!((state.phases.begin, state.phases.end), (20 * MS, 30 * MS));
    assert_eq!(state.next_start(), Err(25 * MS));
}

#[test]
fn a_loop_wakes_when_its_pacing_says() {
    let wakes = |pacing, tick_ns| {
        let schedule = Schedule::spread(3, Duration::from_millis(1), Share::ALL);
        let (worker, _run) = Run::new(schedule, 0, 1, 0);
        let options = Options {
            pacing,
            tick_ns,
            ..Options::default()
        };
        let mut state = LoopState::<()>::new(worker, options);
        starts(&mut state, 0);
        state.next_start()
    };
    let usual = Options::default().tick_ns;
    assert_eq!(wakes(Pacing::Precise, usual), Err(333_333));
    assert_eq!(wakes(Pacing::Quantum, usual), Err(500_000));
    assert_eq!(wakes(Pacing::Quantum, 5 * MS), Err(5 * MS));
    assert_eq!(wakes(Pacing::Spin, usual), Err(0));
}

#[test]
fn a_stall_sheds_exactly_the_operations_that_are_due_too_long_ago() {
    let (mut state, run) = with_deadline();
    assert_eq!(starts(&mut state, 40 * MS).len(), 4, "10 to 40 ms");
    // A stall of the driver from 40 to 200 ms, and none until 260 ms.
    let due =
        |starts: Vec<Start>| -> Vec<u64> { starts.iter().map(|start| start.due / MS).collect() };
    assert_eq!(due(starts(&mut state, 200 * MS)), [170, 180, 190, 200]);
    assert_eq!(due(starts(&mut state, 240 * MS)), [210, 220, 230, 240]);
    assert_eq!(due(starts(&mut state, 260 * MS)), [250, 260]);
    // Of those in the measured time, which begins at 100 ms, 100 to 160 ms are missed, and the driver is to blame.
    let recorded = recorded(run);
    assert_eq!(recorded.counts(), [10, 0, 7, 0]);
    assert_eq!(recorded.count(crate::recorder::MISSED_WAITING), 0);
    assert_eq!(recorded.0.lag.len(), 10);
}

#[test]
fn operations_that_a_handler_could_not_start_in_time_have_waited_for_the_daemon() {
    let (mut state, run) = with_deadline();
    starts(&mut state, 100 * MS);
    state.hold();
    assert_eq!(starts(&mut state, 200 * MS).len(), 4);
    let shed = |recorded: &Recorder| recorded.counters().get(Counter::MISSED_WAITING);
    assert_eq!(shed(&run.record), 6, "110 to 160 ms");
    // The handler is held no longer: the next ones are late because of the driver.
    starts(&mut state, 300 * MS);
    assert_eq!(shed(&run.record), 6);
    // What a handler took is shed the same way, and so is what is left at the end.
    assert!(!state.sheds(270 * MS, 300 * MS) && state.sheds(269 * MS, 300 * MS));
    assert!(state.sheds(99 * MS, 300 * MS), "of the warm-up");
    state.hold();
    state.count_missed(0);
    let recorded = recorded(run);
    assert_eq!(recorded.count(crate::recorder::MISSED_WAITING), 6 + 1 + 79);
    assert_eq!(recorded.counts(), [1 + 4 + 4, 0, 6 + 6 + 1 + 79, 0]);
}
