//! Runs a load on a server without the check before it, and returns its counts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http_load::{Engine, HttpLoad, Settings};
use load::clock;
use load::driver::{Cancellation, Driver as _, Phases, Target, ValidPlan};
use load::plan::{Group, Plan, Timeline};
use load::recorder::{MISSED, OK, STARTED, UNFINISHED};
use load::schedule::Share;
use load::workers::{Threads, WorkerRange};
use measure::tally::{Series, Tally};

/// Longer than any test takes: a load ends when its operations have ended.
const LONG: Duration = Duration::from_secs(300);

/// The two engines.
pub(crate) const ENGINES: [Engine; 2] = [Engine::Wire, Engine::Hyper];

/// Builds a group of clients with this many requests each.
pub(crate) fn users(workers: u64, ops: u64) -> Group {
    Group {
        ops: Some(ops),
        ..Group::new("users", workers)
    }
}

/// Builds a group with this many requests at a rate.
pub(crate) fn rate(rate: f64, ops: u64) -> Group {
    Group {
        rate: Some(rate),
        ..users(0, ops)
    }
}

/// Runs a load with one worker thread until its operations have ended; returns its counts.
pub(crate) fn put(settings: Settings, group: Group, url: &str) -> Tally {
    put_for(settings, group, url, LONG, LONG)
}

/// Does the same for a limited time.
pub(crate) fn put_for(
    settings: Settings,
    group: Group,
    url: &str,
    measure: Duration,
    drain: Duration,
) -> Tally {
    put_share(settings, group, url, (measure, drain), 1)
}

/// Does the same for the share of the first one of several worker threads.
pub(crate) fn put_share(
    settings: Settings,
    group: Group,
    url: &str,
    times: (Duration, Duration),
    workers: u64,
) -> Tally {
    put_watched(settings, group, url, times, workers, |_| {})
}

/// Runs a load with one worker thread until its operations have ended, and shows the counts so far to a function after
/// each second; returns the counts.
pub(crate) fn put_and_watch(
    settings: Settings,
    group: Group,
    url: &str,
    watch: impl FnMut(&Tally),
) -> Tally {
    put_watched(settings, group, url, (LONG, LONG), 1, watch)
}

fn put_watched(
    settings: Settings,
    group: Group,
    url: &str,
    (measure, drain): (Duration, Duration),
    workers: u64,
    watch: impl FnMut(&Tally),
) -> Tally {
    let timeline = Timeline::new(measure, drain);
    let plan = Plan::new("test", timeline, vec![group], settings);
    put_plan(plan, url, workers, watch)
}

/// Runs a load with one worker thread until its operations have ended; returns its counts, with the operations that met
/// these objectives.
pub(crate) fn put_with(settings: Settings, group: Group, url: &str, objectives: &[&str]) -> Tally {
    let mut plan = Plan::new("test", Timeline::new(LONG, LONG), vec![group], settings);
    plan.objectives = objectives.iter().map(|text| (*text).to_owned()).collect();
    put_plan(plan, url, 1, |_| {})
}

fn put_plan(plan: Plan<Settings>, url: &str, workers: u64, mut watch: impl FnMut(&Tally)) -> Tally {
    let timeline = plan.timeline;
    let load = ValidPlan::new::<HttpLoad>(plan).expect("the plan is right");
    let target = Target::of_urls(vec![url.to_owned()]);
    let stop = Arc::new(Cancellation::new().expect("there are descriptors"));
    let (send, mut intervals) = tokio::sync::mpsc::unbounded_channel();
    let crew = WorkerRange {
        first: 0,
        count: 1,
        total: workers,
        shard: Share::ALL,
    };
    let driver = Arc::new(HttpLoad::setup(&load.plan, &target, &crew).expect("it can be prepared"));
    let phases = Phases::new(timeline, clock::now());
    let _threads = Threads::start(&driver, &load, crew, (phases, 0), None, &stop, &send)
        .expect("a thread can be started");
    drop(send);
    let mut total = Tally::new(&HttpLoad::SPEC.series);
    while let Some(interval) = intervals.blocking_recv() {
        total.merge(&interval.tally);
        watch(&total);
        if let Some(ended) = interval.ended {
            ended.expect("the worker ends well");
            break;
        }
    }
    for (place, (name, values)) in total.series().enumerate() {
        let has_memory = driver.uses_series(Series(place));
        assert!(
            values.is_empty() || has_memory,
            "{name} is recorded and was not made ready"
        );
    }
    total
}

/// Returns true if every started operation has one outcome or is counted as unfinished, and none was missed.
pub(crate) fn adds_up(tally: &Tally) -> bool {
    is_accounted_for(tally) && tally.counted(MISSED) == 0
}

/// Does the same for a short run, in which a busy machine may miss some operations.
pub(crate) fn is_accounted_for(tally: &Tally) -> bool {
    let failed: u64 = tally.errors.values().sum();
    tally.counted(STARTED) == tally.counted(OK) + failed + tally.counted(UNFINISHED)
}

/// Returns the failed operations by kind.
pub(crate) fn errors(tally: &Tally) -> BTreeMap<String, u64> {
    let errors = tally.errors.iter();
    errors
        .map(|(name, count)| (name.to_string(), *count))
        .collect()
}

/// Returns the expected errors: this many of one kind, and no other.
pub(crate) fn failed(kind: &str, count: u64) -> BTreeMap<String, u64> {
    BTreeMap::from([(kind.to_owned(), count)])
}

/// Runs twenty operations at a rate, or three clients with seven each, on a server with any behaviour, for 0.4 s. Each
/// operation that was due must have one outcome, be open or be missed.
pub(crate) fn put_whatever_happens(settings: Settings, is_paced: bool, url: &str) {
    let engine = settings.engine;
    let group = if is_paced {
        rate(200.0, 20)
    } else {
        users(3, 7)
    };
    let (measure, drain) = (Duration::from_millis(400), Duration::from_millis(100));
    let tally = put_for(settings, group, url, measure, drain);
    let all = format!("{engine:?}: {:?} {:?}", tally.counts, errors(&tally));
    assert!(is_accounted_for(&tally), "{all}");
    let due = tally.counted(STARTED) + tally.counted(MISSED);
    // Three clients start; not all of them reach their last request.
    let expected = if is_paced { 20..=20 } else { 3..=21 };
    assert!(expected.contains(&due), "{all}");
}
