//! Describes a plan in a sentence.

use load::duration;
use load::plan::Plan;

use super::{Churn, Engine, ExitWhen, PRODUCERS, Settings, consumers, group, producers};

impl Settings {
    /// Describes the driver's part of a plan in a sentence.
    pub(crate) fn sentence(plan: &Plan<Self>) -> String {
        let settings = &plan.driver;
        let (producers, consumers) = (producers(plan), consumers(plan));
        let load = load(plan, producers);
        let over = duration::format(plan.timeline.measure);
        if let Some(churn) = settings.churn {
            let clients = counted(producers, "client");
            let load = load.replace("messages", "operations");
            return format!("{clients}, each {}{load}; for {over}.", churn.phrase());
        }
        let confirms = settings.confirms.map_or_else(String::new, |window| {
            format!(", at most {window} of each unconfirmed")
        });
        let kind = if settings.is_persistent() {
            "persistent"
        } else {
            "transient"
        };
        let clock = if settings.wall_clock {
            "; latencies by wall-clock time"
        } else {
            ""
        };
        let tls = if settings.tls_insecure {
            "; TLS certificates are not verified"
        } else {
            ""
        };
        format!(
            "{}, {kind} messages of {} bytes{load}{confirms}; {} on {}, {}; for {over}{}; {}{clock}{tls}.",
            counted(producers, "producer"),
            settings.size,
            counted(consumers, "consumer"),
            counted(settings.queues().len() as u64, "queue"),
            settings.acknowledging(),
            settings.early_end(),
            settings.engine.phrase(),
        )
    }

    fn acknowledging(&self) -> String {
        let (polling, prefetch) = if self.polling {
            ("which poll with basic.get, ", String::new())
        } else {
            ("", format!(", prefetch {}", self.prefetch))
        };
        let latency = if self.consumer_latency.is_zero() {
            String::new()
        } else {
            format!(" after {}", duration::format(self.consumer_latency))
        };
        match (self.auto_ack, self.multi_ack_every) {
            (true, _) => format!("{polling}without acknowledgements"),
            (_, 1) => format!("{polling}acknowledging each{latency}{prefetch}"),
            (_, every) => format!("{polling}acknowledging every {every}{latency}{prefetch}"),
        }
    }

    fn early_end(&self) -> String {
        let each = self
            .cmessages
            .map(|each| format!(", or until each consumer has received {each}"));
        let when = self.exit_when.map(|when| match when {
            ExitWhen::Empty => ", or until the queues are empty".to_owned(),
            ExitWhen::Idle => format!(
                ", or until nothing comes for {}",
                duration::format(self.exit_idle_after)
            ),
        });
        each.into_iter().chain(when).collect()
    }
}

/// Describes the rate and the number of the messages.
fn load(plan: &Plan<Settings>, producers: u64) -> String {
    let Some(group) = group(plan, PRODUCERS) else {
        return String::new();
    };
    match (group.rate, group.ops) {
        (Some(rate), ops) => {
            let number = ops.map_or_else(String::new, |ops| format!(", {ops} of them"));
            let each = match producers {
                0 | 1 => String::new(),
                several => format!(", {} each", thousandths(rate / several as f64)),
            };
            format!(
                " at {rate} messages per second in all{each} ({}){number}",
                group.arrival
            )
        }
        (None, _) if !group.stages.is_empty() => " at a varying rate".to_owned(),
        (None, Some(ops)) => format!(", {ops} messages each"),
        (None, None) => " as fast as they can".to_owned(),
    }
}

/// Returns a number of things, such as `2 queues`.
fn counted(number: u64, thing: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{s}")
}

fn thousandths(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

impl Engine {
    /// Describes the engine and the reason for its choice.
    fn phrase(self) -> &'static str {
        match self {
            Self::Auto | Self::Wire => {
                "engine wire, which uses less CPU: nothing in this plan needs lapin"
            }
            Self::Lapin => "engine lapin, the Rust client library",
        }
    }
}

impl Churn {
    fn phrase(self) -> &'static str {
        match self {
            Self::Connection => "opening and closing connections",
            Self::Channel => "opening and closing channels",
            Self::Queue => "declaring and deleting queues",
            Self::Binding => "binding and unbinding queues",
        }
    }
}
