//! Tests a publisher with starts and confirms that the tests choose.

use measure::counters::Counter;

use super::super::testing::{MEASURE_NS, ORIGIN, Recorded, at, run, worker};
use super::*;
use crate::settings::Settings;
use crate::shared::Shared;

/// The end of all starts of a rate.
const UNTIL: u64 = ORIGIN + MEASURE_NS + load::pacer::CATCH_UP_NS;

struct Fixture<'a> {
    state: WorkerState<'a>,
    cx: LoopState<()>,
    publisher: Publisher,
    recorded: Recorded,
}

impl AsMut<Publisher> for Publisher {
    fn as_mut(&mut self) -> &mut Publisher {
        self
    }
}

impl<'a> Fixture<'a> {
    fn new(run: &'a Shared) -> Self {
        let (worker, recorded) = worker();
        Self {
            state: WorkerState::new(run, &worker),
            cx: at(worker, ORIGIN),
            publisher: Publisher::new(0, &run.plan.driver),
            recorded,
        }
    }

    /// Adds `number` messages that are due now.
    fn due(&mut self, number: u64) {
        for index in 0..number {
            let start = Start {
                at: ORIGIN + index,
                due: ORIGIN + index,
                lag: None,
                index,
                group: 0,
            };
            self.publisher.start(start, &self.state);
        }
    }

    /// Publishes one batch of at most `most` messages, and returns their sequence numbers.
    fn publish(&mut self, most: usize, now: u64) -> Vec<u64> {
        let batch = self.publisher.begin_batch(&self.state, &self.cx.pacer, now);
        let mut sequences = Vec::new();
        while sequences.len() < most
            && let Some(message) = self
                .publisher
                .next(&self.state, &mut self.cx.pacer, &batch, now)
        {
            sequences.push(message.stamp.sequence);
        }
        self.publisher.end_batch(&mut self.state, &batch);
        sequences
    }

    fn confirm(&mut self, tag: u64, multiple: bool, accepted: bool) -> Result<(), String> {
        let confirm = Confirm {
            tag,
            multiple,
            accepted,
        };
        self.publisher
            .on_confirm(&mut self.state, confirm, ORIGIN + 5_000)
    }

    fn returned(&mut self, sequence: u64) {
        let stamp = Stamp {
            run: self.state.run.stamps().run,
            stream: stamp::stream(0, true),
            sequence,
            start: 0,
        };
        self.publisher.on_returned(&mut self.state, &stamp);
    }

    /// Returns the named counts at the end, errors among them.
    fn end<const N: usize>(self, names: [impl AsRef<str>; N]) -> [u64; N] {
        let total = self.recorded.end();
        names.map(|name| {
            let errors = total.errors.get(name.as_ref()).copied().unwrap_or(0);
            total.counted(name) + errors
        })
    }
}

fn confirming(window: u32) -> Settings {
    Settings {
        confirms: Some(window),
        ..Settings::default()
    }
}

#[test]
fn nothing_is_published_after_the_end_of_all_starts_and_what_was_due_is_missed() {
    let run = run(confirming(2), Some(100.0), 0);
    let mut fixture = Fixture::new(&run);
    fixture.due(5);
    assert_eq!(fixture.publish(usize::MAX, ORIGIN), [0, 1]);
    fixture.confirm(2, true, true).unwrap();
    assert_eq!(fixture.publish(1, UNTIL - 1), [2]);
    assert!(fixture.publish(usize::MAX, UNTIL).is_empty());
    fixture.cx.now = UNTIL;
    let (state, cx) = (&mut fixture.state, &mut fixture.cx);
    let publishers = std::slice::from_mut(&mut fixture.publisher);
    end_publishing(state, cx, publishers, UNTIL);
    assert!(fixture.state.has_published());
    let names = [count::PUBLISHED, count::CONFIRMED, Counter::MISSED];
    assert_eq!(fixture.end(names), [3, 2, 2]);
}

#[test]
fn a_window_is_filled_again_as_confirms_come_in_any_order() {
    let run = run(confirming(3), Some(100.0), 0);
    let mut fixture = Fixture::new(&run);
    fixture.due(10);
    assert_eq!(fixture.publish(usize::MAX, ORIGIN), [0, 1, 2]);
    assert_eq!(fixture.publisher.ready(), 0);
    fixture.confirm(2, false, true).unwrap();
    assert_eq!(fixture.publisher.ready(), 0, "the first is unconfirmed");
    fixture.confirm(1, false, true).unwrap();
    assert_eq!(fixture.publisher.ready(), 2);
    assert_eq!(fixture.publish(usize::MAX, ORIGIN), [3, 4]);
    fixture.confirm(5, true, true).unwrap();
    assert!(fixture.publisher.is_settled());
    assert_eq!(fixture.end([count::CONFIRMED, count::PROTOCOL]), [5, 0]);
}

#[test]
fn confirms_of_unpublished_or_confirmed_messages_violate_the_protocol() {
    let run = run(confirming(3), Some(100.0), 0);
    let mut fixture = Fixture::new(&run);
    fixture.due(2);
    fixture.publish(usize::MAX, ORIGIN);
    assert!(fixture.confirm(3, false, true).is_err());
    fixture.confirm(1, false, true).unwrap();
    fixture.confirm(1, false, true).unwrap();
    assert_eq!(fixture.end([count::CONFIRMED, count::PROTOCOL]), [1, 1]);
}

#[test]
fn each_message_ends_once_as_confirmed_refused_returned_or_given_up() {
    let run = run(confirming(10), Some(100.0), 0);
    let mut fixture = Fixture::new(&run);
    fixture.due(4);
    fixture.publish(usize::MAX, ORIGIN);
    fixture.confirm(1, false, true).unwrap();
    fixture.confirm(2, false, false).unwrap();
    fixture.returned(2);
    fixture.confirm(3, false, true).unwrap();
    let lost = "the broker closed the connection".into();
    fixture.publisher.give_up(&mut fixture.state, Some(&lost));
    let names = [
        Counter::OK.name(),
        count::CONFIRMED.name(),
        outcome::CONNECTION_LOST,
        count::UNCONFIRMED.name(),
    ];
    assert_eq!(fixture.end(names), [1, 2, 1, 1]);
}

#[test]
fn a_return_that_comes_with_another_confirm_ends_the_oldest_message() {
    let run = run(confirming(10), Some(100.0), 0);
    let mut fixture = Fixture::new(&run);
    fixture.due(2);
    fixture.publish(usize::MAX, ORIGIN);
    let of_the_second = Stamp {
        run: run.stamps().run,
        stream: stamp::stream(0, true),
        sequence: 1,
        start: 0,
    };
    let publisher = &mut fixture.publisher;
    publisher.on_returned_with_oldest(&mut fixture.state, &of_the_second);
    for tag in [1, 2] {
        fixture.confirm(tag, false, true).unwrap();
    }
    let names = [Counter::OK, count::CONFIRMED, count::PROTOCOL];
    assert_eq!(fixture.end(names), [1, 2, 0]);
}

#[test]
fn without_confirms_an_operation_ends_with_the_write() {
    let run = run(Settings::default(), Some(100.0), 0);
    let mut fixture = Fixture::new(&run);
    fixture.due(3);
    fixture.publish(usize::MAX, ORIGIN);
    assert!(!fixture.publisher.is_settled());
    let publisher = &mut fixture.publisher;
    publisher.on_written(&mut fixture.state, || ORIGIN + 10);
    assert!(fixture.publisher.is_settled());
    assert_eq!(fixture.end([Counter::OK, count::WRITTEN]), [3, 3]);
}
