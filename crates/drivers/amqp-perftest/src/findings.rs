//! Findings in the totals of a run: messages delivered twice or out of order, and how far the broker's counts may
//! differ.

use load::driver::{Bounds, Findings};
use load::plan::Plan;
use load::recorder;
use measure::tally::Tally;
use measure::warning::{Kind, Severity, Warning};

use crate::outcome::{self, count};
use crate::settings::{self, Settings};

/// The argument that makes a queue a priority queue (RabbitMQ, "Priority Queue Support").
const PRIORITIES: &str = "x-max-priority";

pub(crate) fn findings(plan: &Plan<Settings>, total: &Tally) -> Findings {
    let (written, delivered) = bounds(plan, total);
    Findings {
        warnings: warnings(plan, total),
        bounds: [
            (count::WRITTEN.name(), written),
            (count::DELIVERED.name(), delivered),
        ]
        .into(),
    }
}

/// Returns the tolerances between the counts of messages written and delivered and the broker's counts. A lost
/// connection drops data that the broker or the driver had not read yet. So does the end of a run, if the broker is
/// behind: messages under way then are in either direction.
fn bounds(plan: &Plan<Settings>, total: &Tally) -> (Bounds, Bounds) {
    let lost = total.counted(count::DISCONNECTS) + total.counted(count::CHANNELS_CLOSED) > 0;
    let unfinished = total.counted(recorder::UNFINISHED) > 0;
    let unread = [count::FOREIGN, count::GIVEN_BACK, count::DUPLICATED];
    let unread = unread.iter().any(|name| total.counted(name) > 0);
    let settings = &plan.driver;
    let leaves_some = settings::producers(plan) == 0
        || settings.cmessages.is_some()
        || settings.exit_when.is_some();
    let written = Bounds {
        daemon_less: lost || unfinished,
        daemon_more: false,
    };
    let delivered = Bounds {
        daemon_less: false,
        daemon_more: lost || unfinished || unread || leaves_some,
    };
    (written, delivered)
}

/// Returns the warnings for a run with these counts. An effect that the plan asks for, or that a lost connection
/// explains, is only a note.
fn warnings(plan: &Plan<Settings>, total: &Tally) -> Vec<Warning> {
    let lost_connections = total.counted(count::DISCONNECTS) > 0;
    let gives_back = total.counted(count::GIVEN_BACK) > 0;
    let copies = (
        copies(plan),
        "several queues of the plan hold a copy of each message",
    );
    let reorders = gives_back || plan.driver.queue_args.contains_key(PRIORITIES);
    let lost = total.errors.get(outcome::LOST).copied().unwrap_or(0);
    let lost_of_warmup = total.counted(count::LOST) - lost;
    let damaged = total.errors.get(outcome::DAMAGED).copied().unwrap_or(0);
    let channels_closed = total.counted(count::CHANNELS_CLOSED) > 0;
    let dropping = plan.driver.dropping_argument().map(|name| {
        format!("`{name}` of the plan permits the queue to drop them: without it, they would count as lost")
    });
    let found = [
        Warning::of_events(
            Kind::CountsDisagree,
            total.counted(count::DROPPED),
            "messages never arrived and are in no queue, which may drop messages",
            &[(true, dropping.as_deref().unwrap_or_default())],
            "",
        ),
        Warning::of_events(
            Kind::Duplicated,
            total.counted(count::DUPLICATED),
            "messages were delivered again without the redelivered flag",
            &[
                copies,
                (
                    lost_connections,
                    "connections were lost, and a broker then delivers at least once",
                ),
            ],
            "a broker must redeliver only unacknowledged messages, and mark them (basic.deliver, redelivered)",
        ),
        Warning::of_events(
            Kind::Duplicated,
            total.counted(count::REDELIVERED_AFTER_ACK),
            "messages were redelivered although they had been acknowledged or needed no acknowledgement",
            &[
                copies,
                (
                    lost_connections || channels_closed,
                    "connections or channels were lost, and with them acknowledgements under way",
                ),
            ],
            "an acknowledged message is removed from its queue (AMQP 0-9-1, basic.ack): the broker loses acknowledgements",
        ),
        Warning::of_events(
            Kind::CountsDisagree,
            total.counted(count::DAMAGED).saturating_sub(damaged),
            "messages outside the measured operations arrived with a corrupted body",
            &[],
            "they belong to the warm-up, or their sequence number itself is corrupted",
        ),
        Warning::of_events(
            Kind::OutOfOrder,
            total.counted(count::OUT_OF_ORDER),
            "messages reached a consumer after a later one of the same producer",
            &[
                (reorders, "the plan requeues messages, or uses priorities"),
                copies,
                (
                    lost_connections,
                    "connections were lost, and a broker then redelivers messages",
                ),
            ],
            "a queue must keep the order in which one channel publishes to it (AMQP 0-9-1, 4.7)",
        ),
        Warning::of_events(
            Kind::CountsDisagree,
            lost_of_warmup,
            "messages of the warm-up never arrived and are in no queue",
            &[(
                lost_connections,
                "connections were lost: messages unconfirmed at that time may never have arrived",
            )],
            "a message lost in the warm-up is no failed operation, but it is lost all the same",
        ),
        Warning::of_events(
            Kind::CountsDisagree,
            total.counted(count::PROTOCOL),
            "protocol violations: duplicate or unknown confirms, returns after their confirm, unreadable frames",
            &[],
            "confirms of this broker cannot be relied on: see its log",
        ),
    ];
    found.into_iter().flatten().chain(blocked(total)).collect()
}

/// Notes how long the broker let publishers wait.
fn blocked(total: &Tally) -> Option<Warning> {
    let times = match total.counted(count::BLOCKED) {
        0 => return None,
        1 => "once".to_owned(),
        times => format!("{times} times"),
    };
    let seconds = total.counted(count::BLOCKED_MS) as f64 / 1e3;
    Some(Warning {
        kind: Kind::Blocked,
        severity: Severity::Note,
        message: format!(
            "the broker blocked publishers {times}, for {seconds:.1} s summed over connections (connection.blocked)"
        ),
        hint: "check its alarms of memory and disk".to_owned(),
    })
}

/// Returns true if a message may be in several queues, or if each consumer of a queue receives all of its messages.
fn copies(plan: &Plan<Settings>) -> bool {
    let settings = &plan.driver;
    let queues = settings.queues().len() as u64;
    let by_exchange = !settings.exchange.is_empty() && (settings.predeclared || queues > 1);
    by_exchange || (settings.is_of_type("stream") && settings::consumers(plan) > queues)
}

#[cfg(test)]
mod tests {
    use measure::counters::Counter;

    use super::*;
    use crate::roles::testing::TIMELINE;
    use crate::spec::SPEC;

    fn severities(settings: Settings, counts: &[(Counter, u64)]) -> Vec<Severity> {
        let plan = Plan::new("findings", TIMELINE, Vec::new(), settings);
        let mut total = Tally::new(&SPEC.series);
        for (counter, number) in counts {
            total.count(counter, *number);
        }
        let found = warnings(&plan, &total);
        found.iter().map(|warning| warning.severity).collect()
    }

    #[test]
    fn the_broker_may_not_have_read_messages_of_unfinished_operations() {
        let plan = Plan::new("findings", TIMELINE, Vec::new(), Settings::default());
        let mut total = Tally::new(&SPEC.series);
        assert!(!bounds(&plan, &total).0.daemon_less);
        total.count(recorder::UNFINISHED, 1);
        assert!(bounds(&plan, &total).0.daemon_less);
    }

    #[test]
    fn findings_without_an_excuse_are_suspect_and_the_others_are_notes() {
        let again = [(count::REDELIVERED_AFTER_ACK, 1)];
        assert_eq!(severities(Settings::default(), &again), [Severity::Suspect]);
        for excuse in [count::DISCONNECTS, count::CHANNELS_CLOSED] {
            let excused = [again[0], (excuse, 1)];
            assert_eq!(severities(Settings::default(), &excused), [Severity::Note]);
        }
        let both = [(count::DUPLICATED, 2), (count::OUT_OF_ORDER, 1)];
        let with = |more: (Counter, u64)| [&both[..], &[more]].concat();
        let (suspect, note) = (Severity::Suspect, Severity::Note);
        let plain = Settings::default;
        assert_eq!(severities(plain(), &[]), []);
        assert_eq!(severities(plain(), &both), [suspect, suspect]);
        let given_back = with((count::GIVEN_BACK, 1));
        assert_eq!(severities(plain(), &given_back), [suspect, note]);
        let cut = with((count::DISCONNECTS, 1));
        assert_eq!(severities(plain(), &cut), [note, note]);
        let fanned_out = Settings {
            exchange: "everywhere".to_owned(),
            queue_pattern: Some("q-%d".to_owned()),
            queue_to: 3,
            ..plain()
        };
        assert_eq!(severities(fanned_out, &both), [note, note]);
        let mut prioritised = plain();
        let most = toml::Value::Integer(5);
        prioritised.queue_args.insert(PRIORITIES.to_owned(), most);
        assert_eq!(severities(prioritised, &both), [suspect, note]);
    }
}
