//! What speaks against a broker that took and gave every message: it gave some twice, or in another order.

use harness::plan::Plan;
use measure::tally::Tally;
use measure::warning::{Kind, Severity, Warning};

use crate::outcome::{self, count};
use crate::settings::{self, Settings};

/// The argument that makes a queue a priority queue (RabbitMQ, "Priority Queue Support").
const PRIORITIES: &str = "x-max-priority";

/// Doubts about a run with these counts. What the plan asks for, or a lost connection leads to, is worth a note.
pub(crate) fn of(plan: &Plan<Settings>, total: &Tally) -> Vec<Warning> {
    let lost_connections = total.counted(count::DISCONNECTS) > 0;
    let gives_back = total.counted(count::GIVEN_BACK) > 0;
    let copies = copies(plan);
    let reorders = gives_back || plan.driver.queue_args.contains_key(PRIORITIES);
    let lost = total.errors.get(outcome::LOST).copied().unwrap_or(0);
    let lost_of_warmup = total.counted(count::LOST) - lost;
    let damaged = total.errors.get(outcome::DAMAGED).copied().unwrap_or(0);
    let channels_closed = total.counted(count::CHANNELS_CLOSED) > 0;
    let found = [
        doubt(
            Kind::Duplicated,
            total.counted(count::DUPLICATED),
            "messages came again without being marked as redelivered",
            &[
                (copies, "several queues of the plan have a copy of each"),
                (
                    lost_connections,
                    "connections were lost, after which a broker delivers at least once",
                ),
            ],
            "a broker delivers again only what was not acknowledged, and marks it (basic.deliver, redelivered)",
        ),
        doubt(
            Kind::Duplicated,
            total.counted(count::REDELIVERED_AFTER_ACK),
            "messages came again, marked as redelivered, though they had been acknowledged or needed no acknowledgement",
            &[
                (copies, "several queues of the plan have a copy of each"),
                (
                    lost_connections || channels_closed,
                    "connections or channels were lost, and acknowledgements on their way with them",
                ),
            ],
            "a message that was acknowledged is gone from its queue (AMQP 0-9-1, basic.ack): the broker forgets acknowledgements",
        ),
        doubt(
            Kind::CountsDisagree,
            total.counted(count::DAMAGED).saturating_sub(damaged),
            "messages that fail no operation came with another body than they were sent with",
            &[],
            "they are of the warm-up, or their own number is what is damaged",
        ),
        doubt(
            Kind::OutOfOrder,
            total.counted(count::OUT_OF_ORDER),
            "messages came to a consumer after a later one of the same producer",
            &[
                (reorders, "the plan gives messages back, or a priority"),
                (copies, "several queues of the plan have a copy of each"),
                (
                    lost_connections,
                    "connections were lost, after which a broker delivers again",
                ),
            ],
            "a queue keeps the order in which one channel publishes to it (AMQP 0-9-1, 4.7)",
        ),
        doubt(
            Kind::CountsDisagree,
            lost_of_warmup,
            "messages of the warm-up never arrived and lie in no queue",
            &[(
                lost_connections,
                "connections were lost: what was not confirmed then may never have come",
            )],
            "what is lost in the warm-up is no failed operation, and no less lost",
        ),
        doubt(
            Kind::CountsDisagree,
            total.counted(count::PROTOCOL),
            "answers were against the protocol: confirms that came twice or of nothing, returns after them, frames that can't be read",
            &[],
            "what it confirms is no longer known: see its log",
        ),
    ];
    found.into_iter().flatten().collect()
}

/// A doubt where there are such messages: a note where one of the excuses holds.
fn doubt(
    kind: Kind,
    messages: u64,
    what: &str,
    excuses: &[(bool, &str)],
    rule: &str,
) -> Option<Warning> {
    let excuse = excuses.iter().find(|(holds, _)| *holds);
    (messages > 0).then(|| Warning {
        kind,
        severity: excuse.map_or(Severity::Suspect, |_| Severity::Note),
        message: format!("{messages} {what}"),
        hint: excuse.map_or(rule, |(_, excuse)| excuse).to_owned(),
    })
}

/// Whether a message may be in several queues, or each consumer of a queue be given all of it.
fn copies(plan: &Plan<Settings>) -> bool {
    let settings = &plan.driver;
    let queues = settings.queues().len() as u64;
    let by_exchange = !settings.exchange.is_empty() && (settings.predeclared || queues > 1);
    let is_stream = settings.queue_type.as_deref() == Some("stream");
    by_exchange || (is_stream && settings::consumers(plan) > queues)
}

#[cfg(test)]
mod tests {
    use harness::plan::Timeline;

    use super::*;
    use crate::series;

    fn severities(settings: Settings, counts: &[(&'static str, u64)]) -> Vec<Severity> {
        let timeline = Timeline {
            warmup: std::time::Duration::ZERO,
            measure: std::time::Duration::from_secs(1),
            drain: std::time::Duration::ZERO,
        };
        let plan = Plan::new("doubts", timeline, Vec::new(), settings);
        let mut total = Tally::new(series::NAMES);
        for (name, number) in counts {
            total.count(name, *number);
        }
        let found = of(&plan, &total);
        found.iter().map(|warning| warning.severity).collect()
    }

    #[test]
    fn what_nothing_excuses_is_suspect_and_anything_else_a_note() {
        let again = [(count::REDELIVERED_AFTER_ACK, 1)];
        assert_eq!(severities(Settings::default(), &again), [Severity::Suspect]);
        for excuse in [count::DISCONNECTS, count::CHANNELS_CLOSED] {
            let excused = [again[0], (excuse, 1)];
            assert_eq!(severities(Settings::default(), &excused), [Severity::Note]);
        }
        let both = [(count::DUPLICATED, 2), (count::OUT_OF_ORDER, 1)];
        let with = |more: (&'static str, u64)| [&both[..], &[more]].concat();
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
