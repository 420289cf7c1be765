//! Tests users whose number follows stages: when each begins and leaves, and the validity of such plans.

use std::collections::BTreeSet;
use std::time::Duration;

use load::pacer::{Pacer, Start, Tick};
use load::plan::{Group, Plan, PlannedStage, Timeline};
use load::schedule::{Due, Schedule, Share, UserStage};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;
const MILLISECOND: u64 = 1_000_000;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn stage(users: u64, over: Duration) -> UserStage {
    UserStage { users, over }
}

/// Returns the stages of k6-style users: up to 5,000 and down again.
fn pyramid() -> Vec<UserStage> {
    [(100, 30), (1000, 60), (5000, 120), (1000, 60), (0, 30)]
        .map(|(users, over)| stage(users, seconds(over)))
        .to_vec()
}

fn lasts(stages: &[UserStage]) -> u64 {
    let over: Duration = stages.iter().map(|stage| stage.over).sum();
    over.as_nanos() as u64
}

/// Returns the value of the curve just after `at`.
fn curve(stages: &[UserStage], at: u64) -> f64 {
    let (mut begin, mut from) = (0, 0);
    for stage in stages {
        let over = stage.over.as_nanos() as u64;
        if at < begin + over {
            let part = (at - begin) as f64 / over as f64;
            return from as f64 + (stage.users as f64 - from as f64) * part;
        }
        begin += over;
        from = stage.users;
    }
    0.0
}

/// A time in which a user is active.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stint {
    first: u64,
    begin: u64,
    end: u64,
}

/// Returns when users come and go, as the pacer alone reports it: it is asked in ever smaller steps until when each
/// goes on.
fn stints(stages: &[UserStage], share: Share) -> Vec<Stint> {
    let end = lasts(stages);
    let mut pacer = Pacer::new(0, end + 1, vec![Schedule::users(stages, share)]);
    Schedule::users(stages, share)
        .map(|Due { at: begin, index }| {
            let start = Start {
                at: begin,
                due: begin,
                lag: None,
                index,
                group: 0,
            };
            let (mut there, mut gone) = (begin, end + 1);
            while gone - there > 1 {
                let middle = there + (gone - there) / 2;
                match pacer.next_of_client(start, middle) {
                    Some(_) => there = middle,
                    None => gone = middle,
                }
            }
            Stint {
                first: index,
                begin,
                end: gone,
            }
        })
        .collect()
}

fn there(stints: &[Stint], at: u64) -> usize {
    stints
        .iter()
        .filter(|stint| (stint.begin..stint.end).contains(&at))
        .count()
}

#[test]
fn users_begin_when_the_curve_reaches_them_and_leave_when_it_falls_below() {
    let stages = [
        stage(2, seconds(2)),
        stage(2, seconds(3)),
        stage(0, seconds(4)),
    ];
    let found = stints(&stages, Share::ALL);
    let expected = [
        Stint {
            first: 0,
            begin: SECOND,
            end: 7 * SECOND,
        },
        Stint {
            first: 1,
            begin: 2 * SECOND,
            end: 5 * SECOND,
        },
    ];
    // The user who leaves at the tip of a fall does so at its first nanosecond.
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!((found.first, found.begin), (expected.first, expected.begin));
        assert!(found.end.abs_diff(expected.end) <= 1, "{found:?}");
    }
    assert_eq!(found.len(), 2);
}

#[test]
fn a_stage_of_no_time_lets_all_come_or_go_at_once() {
    let stages = [
        stage(3, Duration::ZERO),
        stage(3, seconds(1)),
        stage(1, Duration::ZERO),
        stage(1, seconds(1)),
        stage(3, Duration::ZERO),
        stage(3, seconds(1)),
    ];
    let found = stints(&stages, Share::ALL);
    assert_eq!(
        found
            .iter()
            .map(|stint| stint.begin / SECOND)
            .collect::<Vec<_>>(),
        [0, 0, 0, 2, 2]
    );
    assert_eq!(
        [500, 1500, 2500].map(|ms| there(&found, ms * MILLISECOND)),
        [3, 1, 3]
    );
}

#[test]
fn the_pyramid_of_the_methodology_has_1965_users_on_average() {
    let stages = pyramid();
    // The area under the curve: trapezoids of 50, 550, 3,000, 3,000 and 500 users on average.
    let area = 30 * 50 + 60 * 550 + 120 * 3000 + 60 * 3000 + 30 * 500;
    assert_eq!(area, 1965 * 300);
    for of in [1, 7] {
        let stints: Vec<Stint> = (0..of)
            .flat_map(|index| stints(&stages, Share { index, of }))
            .collect();
        assert_eq!(stints.len(), 5000, "each comes once");
        let there: u64 = stints.iter().map(|stint| stint.end - stint.begin).sum();
        let mean = there as f64 / lasts(&stages) as f64;
        // Users are whole: between two numbers, the lower one counts.
        assert!((1964.0..=1965.0).contains(&mean), "{mean}");
    }
}

#[test]
fn a_user_who_comes_back_begins_anew_and_no_index_is_there_twice() {
    let wave = [
        stage(4, seconds(1)),
        stage(1, seconds(1)),
        stage(4, seconds(1)),
        stage(0, seconds(1)),
    ];
    let mut seen = BTreeSet::new();
    for index in 0..3 {
        let schedule = Schedule::users(&wave, Share { index, of: 3 });
        let mut pacer = Pacer::new(0, 4 * SECOND, vec![schedule]);
        let mut users: Vec<Start> = Vec::new();
        for at in (0..4 * SECOND).step_by(10 * MILLISECOND as usize) {
            users = users
                .into_iter()
                .filter_map(|user| pacer.next_of_client(user, at))
                .collect();
            while let Tick::Ready(start) = pacer.poll(at) {
                users.push(start);
            }
            assert!(users.iter().all(|start| start.index % 4 % 3 == index));
            for start in &users {
                assert!(seen.insert(start.index), "{} twice", start.index);
            }
        }
        assert!(pacer.over(4 * SECOND));
    }
    // 100 samples per second, in seconds that have 1.5, 2, 2 and 1.5 whole users on average.
    assert!((690..=710).contains(&seen.len()), "{}", seen.len());
}

#[test]
fn a_worker_that_does_one_thing_at_a_time_rests_between_its_stints() {
    let at_once = |users| stage(users, Duration::ZERO);
    let held = |users| stage(users, seconds(1));
    let wave = [
        at_once(1),
        held(1),
        at_once(0),
        held(0),
        at_once(1),
        held(1),
    ];
    let mut pacer = Pacer::new(0, 3 * SECOND, vec![Schedule::users(&wave, Share::ALL)]);
    let mut starts = Vec::new();
    let mut now = 0;
    loop {
        match pacer.poll(now) {
            Tick::Ready(first) => {
                let mut next = Some(first);
                while let Some(start) = next {
                    starts.push((start.index, start.at / MILLISECOND));
                    now += 400 * MILLISECOND;
                    next = pacer.next_of_client(start, now);
                }
            }
            Tick::Wait(due) => now = due,
            Tick::Over => break,
        }
    }
    // Two stints share the indices of one user.
    let expected = [(0, 0), (2, 400), (4, 800), (1, 2000), (3, 2400), (5, 2800)];
    assert_eq!(starts, expected);
}

prop_compose! {
    fn stages()(drawn in prop::collection::vec((0u64..60, 0u64..2000), 1..7)) -> Vec<UserStage> {
        drawn.into_iter().map(|(users, ms)| stage(users, Duration::from_millis(ms))).collect()
    }
}

proptest! {
    #[test]
    fn as_many_users_are_there_as_the_curve_says(stages in stages(), n in 1u64..6, looks in prop::collection::vec(0.0..1.0f64, 20)) {
        // A plan without any time is refused before it is scheduled.
        prop_assume!(lasts(&stages) > 0);
        let whole = stints(&stages, Share::ALL);
        let shares: Vec<Stint> = (0..n).flat_map(|index| stints(&stages, Share { index, of: n })).collect();
        for look in looks {
            let at = (look * lasts(&stages) as f64) as u64;
            let planned = curve(&stages, at);
            for found in [&whole, &shares] {
                let count = there(found, at) as f64;
                prop_assert!((count - planned).abs() <= 1.0, "{count} of {planned} at {at}");
            }
        }
    }

    #[test]
    fn n_machines_have_exactly_the_users_of_one(stages in stages(), n in 1u64..6) {
        let sorted = |mut stints: Vec<Stint>| {
            stints.sort_by_key(|stint| stint.first);
            stints
        };
        let shares = (0..n).flat_map(|index| stints(&stages, Share { index, of: n })).collect();
        prop_assert_eq!(sorted(shares), sorted(stints(&stages, Share::ALL)));
    }

    #[test]
    fn beginnings_come_in_order(stages in stages(), n in 1u64..4) {
        for index in 0..n {
            let begins: Vec<u64> = Schedule::users(&stages, Share { index, of: n }).map(|due| due.at).collect();
            prop_assert!(begins.is_sorted());
        }
    }
}

fn group(stages: Vec<PlannedStage>) -> Group {
    Group {
        name: "users".to_owned(),
        clients: 0,
        ramp: Duration::ZERO,
        rate: None,
        arrival: load::schedule::Arrival::Constant,
        stages,
        ops: None,
    }
}

fn plan(measure: Duration, group: Group) -> Plan<()> {
    let timeline = Timeline {
        warmup: seconds(2),
        measure,
        drain: seconds(1),
    };
    Plan::new("any", timeline, vec![group], ())
}

#[test]
fn a_plan_measures_until_its_stages_are_over() {
    let stages = vec![
        PlannedStage::to_users(10, seconds(8)),
        PlannedStage::to_users(0, seconds(4)),
    ];
    let mut plan = plan(Duration::ZERO, group(stages));
    plan.measure_the_stages();
    plan.validate().unwrap();
    assert_eq!(plan.timeline.measure, seconds(10));
    assert_eq!(
        (plan.groups[0].most_clients(), plan.groups[0].is_closed()),
        (10, true)
    );
    assert_eq!(
        plan.load_sentence(),
        "users going to 10 within 8s, to 0 within 4s"
    );
}

#[test]
fn stages_are_read_and_written_as_they_are_typed() {
    let text = "stages = [{ users = 10, over = \"8s\" }, { rate = 5.0, over = \"4s\" }]";
    #[derive(Debug, serde::Serialize, serde::Deserialize)]
    struct Stages {
        stages: Vec<PlannedStage>,
    }
    let read: Stages = toml::from_str(text).unwrap();
    let expected = [
        PlannedStage::to_users(10, seconds(8)),
        PlannedStage::to_rate(5.0, seconds(4)),
    ];
    assert_eq!(read.stages, expected);
    let again: Stages = toml::from_str(&toml::to_string(&read).unwrap()).unwrap();
    assert_eq!(again.stages, expected);
    for (wrong, part) in [
        ("stages = [{ over = \"8s\" }]", "neither `rate` nor `users`"),
        (
            "stages = [{ rate = 1.0, users = 1, over = \"8s\" }]",
            "one of the two",
        ),
        ("stages = [{ vus = 1, over = \"8s\" }]", "vus"),
    ] {
        let error = toml::from_str::<Stages>(wrong).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn stages_that_do_not_fit_say_which_field_and_what_to_write() {
    let users = |users, s| PlannedStage::to_users(users, seconds(s));
    let good = || group(vec![users(10, 12)]);
    plan(seconds(10), good()).validate().unwrap();
    for (measure, group, parts) in [
        (11, good(), ["groups[0].stages", "12s", "13s"]),
        (
            10,
            group(vec![users(10, 2), PlannedStage::to_rate(5.0, seconds(10))]),
            ["groups[0].stages[1].rate", "one kind", "users"],
        ),
        (
            10,
            group(vec![users(0, 12)]),
            ["groups[0].stages", "at least 1 user", ""],
        ),
        (
            10,
            Group {
                clients: 3,
                ..good()
            },
            ["groups[0].clients", "leave", ""],
        ),
        (
            10,
            Group {
                ops: Some(3),
                ..good()
            },
            ["groups[0].ops", "leave", ""],
        ),
        (
            10,
            Group {
                ramp: seconds(1),
                ..good()
            },
            ["groups[0].ramp", "leave", ""],
        ),
        (
            10,
            Group {
                rate: Some(3.0),
                ..good()
            },
            ["groups[0].stages", "one of the two", ""],
        ),
    ] {
        let error = plan(seconds(measure), group)
            .validate()
            .unwrap_err()
            .to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
}
