//! Tests a consumer with deliveries that the tests choose.

use std::time::Duration;

use super::super::testing::{ORIGIN, Recorded, at, run, worker};
use super::*;
use crate::settings::ExitWhen;
use crate::shared::Shared;
use amqp_client::stamp::{self, Stamp};

impl Perform for Vec<Action> {
    fn perform(&mut self, action: Action) {
        self.push(action);
    }
}

struct Fixture<'a> {
    state: WorkerState<'a>,
    consumer: Consumer,
    actions: Vec<Action>,
    recorded: Recorded,
}

impl<'a> Fixture<'a> {
    fn new(run: &'a Shared) -> Self {
        let (worker, recorded) = worker();
        let state = WorkerState::new(run, &worker);
        let mut consumer = Consumer::new(0, &run.plan.driver);
        let first = consumer.attach(&state, ORIGIN);
        let expected = if run.plan.driver.polling {
            Action::Get
        } else {
            Action::Consume
        };
        assert_eq!(first, Some(expected));
        Self {
            state,
            consumer,
            actions: Vec::new(),
            recorded,
        }
    }

    /// Delivers message `tag`, and returns the actions.
    fn deliver(&mut self, tag: u64, now: u64) -> Vec<Action> {
        let stamp = Stamp {
            run: self.state.run.stamps().run,
            stream: stamp::stream(0, true),
            sequence: tag,
            start: ORIGIN,
        };
        let received = ReceivedMessage {
            tag,
            redelivered: false,
            stamp: Some(stamp),
            is_intact: true,
        };
        let (state, actions) = (&mut self.state, &mut self.actions);
        self.consumer.on_delivery(state, &received, now, actions);
        std::mem::take(&mut self.actions)
    }

    fn consumed(self) -> u64 {
        self.recorded.end().counted(count::CONSUMED)
    }
}

fn ack(tag: u64, multiple: bool) -> Action {
    Action::Ack { tag, multiple }
}

#[test]
fn deliveries_are_acknowledged_in_groups_and_the_rest_at_the_end() {
    let settings = Settings {
        multi_ack_every: 3,
        ..Settings::default()
    };
    let run = run(settings, Some(100.0), 1);
    let mut fixture = Fixture::new(&run);
    let actions: Vec<_> = (1..=4).map(|tag| fixture.deliver(tag, ORIGIN)).collect();
    assert_eq!(actions, [vec![], vec![], vec![ack(3, true)], vec![]]);
    for _ in 0..2 {
        let (state, actions) = (&fixture.state, &mut fixture.actions);
        fixture.consumer.acknowledge_all(state, actions);
    }
    assert_eq!(fixture.actions, [ack(4, true)]);
    assert_eq!(fixture.consumed(), 4);
}

#[test]
fn a_delivery_is_acknowledged_once_it_is_processed() {
    let settings = Settings {
        consumer_latency: Duration::from_nanos(100),
        ..Settings::default()
    };
    let run = run(settings, Some(100.0), 1);
    let mut fixture = Fixture::new(&run);
    assert_eq!(fixture.deliver(1, ORIGIN), []);
    assert_eq!(fixture.deliver(2, ORIGIN), []);
    let Fixture {
        state,
        consumer,
        actions,
        ..
    } = &mut fixture;
    assert_eq!(consumer.due(), ORIGIN + 100);
    assert_eq!(
        consumer.on_timer(state, ORIGIN + 100, actions),
        ORIGIN + 200
    );
    assert_eq!(*actions, [ack(1, false)]);
    consumer.leave(state);
    assert_eq!(consumer.due(), u64::MAX);
    assert_eq!(run.ledger.in_queues_again(), 1, "the second returns");
}

#[test]
fn a_delivery_that_waits_for_the_rate_counts_once_it_is_processed() {
    let settings = Settings {
        consumer_rate: Some(1.0),
        ..Settings::default()
    };
    let run = run(settings, Some(100.0), 1);
    for (is_over, consumed) in [(false, 1), (true, 3)] {
        let mut fixture = Fixture::new(&run);
        for tag in 1..=3 {
            fixture.deliver(tag, ORIGIN);
        }
        if is_over {
            let (state, actions) = (&fixture.state, &mut fixture.actions);
            fixture.consumer.acknowledge_all(state, actions);
        }
        assert_eq!(fixture.consumed(), consumed);
    }
}

#[test]
fn deliveries_beyond_its_number_return_to_the_queue() {
    let settings = Settings {
        cmessages: Some(1),
        ..Settings::default()
    };
    let run = run(settings, Some(100.0), 1);
    let mut fixture = Fixture::new(&run);
    assert_eq!(fixture.deliver(1, ORIGIN), [Action::Cancel, ack(1, false)]);
    assert!(fixture.consumer.is_subscribed(), "until the broker agrees");
    let (tag, requeue) = (2, true);
    assert_eq!(
        fixture.deliver(tag, ORIGIN),
        [Action::Nack { tag, requeue }]
    );
    let Fixture {
        state,
        consumer,
        actions,
        ..
    } = &mut fixture;
    consumer.on_cancelled(state);
    consumer.check_for_end(state, ORIGIN, actions);
    assert!(run.ending.has_come(ORIGIN));
    assert_eq!(consumer.attach(state, ORIGIN), None, "it has had its one");
    assert_eq!(fixture.consumed(), 1);
}

#[test]
fn the_next_request_follows_the_answer_and_its_interval() {
    let settings = Settings {
        polling: true,
        polling_interval: Duration::from_nanos(50),
        ..Settings::default()
    };
    let run = run(settings, Some(100.0), 1);
    let mut fixture = Fixture::new(&run);
    assert_eq!(fixture.consumer.due(), u64::MAX, "one is pending");
    assert_eq!(fixture.deliver(1, ORIGIN + 10), [ack(1, false)]);
    assert_eq!(fixture.consumer.due(), ORIGIN + 50);
    let Fixture {
        state,
        consumer,
        actions,
        ..
    } = &mut fixture;
    consumer.on_timer(state, ORIGIN + 50, actions);
    assert_eq!(*actions, [Action::Get]);
    consumer.on_empty(state, ORIGIN + 120, actions);
    assert_eq!(*actions, [Action::Get, Action::Get]);
    state.stage = Stage::Cancelling;
    consumer.on_empty(state, ORIGIN + 200, actions);
    assert_eq!(actions.len(), 2, "nothing is requested at the end");
    assert_eq!(fixture.recorded.end().counted(count::EMPTY_GETS), 2);
}

#[test]
fn an_empty_queue_is_asked_for_its_depth_and_ends_the_run() {
    let settings = Settings {
        exit_when: Some(ExitWhen::Empty),
        ..Settings::default()
    };
    let run = run(settings, Some(100.0), 1);
    let mut fixture = Fixture::new(&run);
    let later = ORIGIN + 100_000_000;
    assert_eq!(fixture.deliver(1, ORIGIN), [ack(1, false)]);
    let Fixture {
        state,
        consumer,
        actions,
        ..
    } = &mut fixture;
    consumer.check_for_end(state, later, actions);
    assert_eq!(*actions, [Action::QueryDepth]);
    consumer.on_depth(state, 0, actions);
    let (worker, _) = worker();
    assert!(state.ends_now(&mut at(worker, later)));
    assert!(state.is_consumed());
}

#[test]
fn deliveries_that_can_no_longer_be_acknowledged_have_not_arrived() {
    let run = run(Settings::default(), Some(100.0), 1);
    let mut fixture = Fixture::new(&run);
    fixture.state.stage = Stage::Cancelling;
    assert_eq!(fixture.deliver(1, ORIGIN), [ack(1, false)]);
    fixture.state.stage = Stage::Closing;
    assert_eq!(fixture.deliver(2, ORIGIN), []);
    assert_eq!(fixture.consumed(), 1);
}

#[test]
fn only_a_subscription_that_the_broker_ends_counts_as_cancelled() {
    let run = run(Settings::default(), Some(100.0), 1);
    for (cancels, cancelled) in [(true, 0), (false, 1)] {
        let mut fixture = Fixture::new(&run);
        if cancels {
            fixture.consumer.cancel(&mut fixture.actions);
            assert_eq!(fixture.actions, [Action::Cancel]);
        }
        fixture.consumer.on_cancelled(&fixture.state);
        assert!(!fixture.consumer.is_subscribed());
        let counted = fixture.recorded.end().counted(count::CANCELLED);
        assert_eq!(counted, cancelled);
    }
}
