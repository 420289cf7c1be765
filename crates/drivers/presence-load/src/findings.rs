//! Findings in the totals of a run: events that were lost, duplicated, reordered or wrong, and how far the daemon's
//! counts may differ.

use load::driver::{Bounds, Findings};
use load::plan::Plan;
use measure::counters::Counter;
use measure::tally::Tally;
use measure::warning::{Kind, Warning};

use crate::outcome::{self, count};
use crate::settings::Settings;

/// Returns true if the plan disturbs neither the daemon nor connections.
pub(crate) fn is_undisturbed(plan: &Plan<Settings>) -> bool {
    let settings = &plan.driver;
    plan.faults.is_empty()
        && settings.churn.is_none()
        && settings.slow_consumers + settings.half_open == 0
}

pub(crate) fn findings(plan: &Plan<Settings>, total: &Tally) -> Findings {
    let bounds = bounds(plan, total);
    let names = [
        count::EVENTS,
        count::HEARTBEATS,
        count::JOINS,
        count::LEAVES,
    ]
    .map(Counter::name);
    Findings {
        warnings: warnings(plan, total),
        bounds: names.into_iter().zip(bounds).collect(),
    }
}

/// Returns the tolerances between the driver's counts of events, heartbeats, joins and leaves, and the daemon's.
/// What is under way when a connection ends may have reached the other side or not, and a connection that ends is a
/// leave.
fn bounds(plan: &Plan<Settings>, total: &Tally) -> [Bounds; 4] {
    let cuts = [
        count::CONNECTIONS_LOST,
        count::CUT,
        count::DROPPED,
        count::RETRIES,
        count::NOT_BACK,
        Counter::UNFINISHED,
    ];
    let failures = [
        outcome::HEARTBEAT_TIMEOUT,
        outcome::JOIN_TIMEOUT,
        outcome::LEAVE_TIMEOUT,
        outcome::CONNECTION_LOST,
    ];
    let failed = |kind: &&str| total.errors.get(*kind).copied().unwrap_or(0) > 0;
    let has_cuts = cuts.iter().any(|name| total.counted(name) > 0)
        || failures.iter().any(failed)
        || !is_undisturbed(plan);
    let both = Bounds {
        daemon_less: has_cuts,
        daemon_more: has_cuts,
    };
    let more = Bounds {
        daemon_less: false,
        ..both
    };
    let less = Bounds {
        daemon_more: false,
        ..both
    };
    [more, less, both, both]
}

fn warnings(plan: &Plan<Settings>, total: &Tally) -> Vec<Warning> {
    let faults = (
        !plan.faults.is_empty(),
        "the plan injects faults; compare with a run without",
    );
    if plan.driver.conversation.is_some() {
        return wrong_pushes(total, faults).flatten().collect();
    }
    let expired = total.counted(count::EXPIRED);
    // First: they are the cause of others.
    let expiries = Warning::of_events(
        Kind::CountsDisagree,
        expired,
        "memberships had ended on the server although their users were connected (expired)",
        &[faults],
        "set --keep-alive below the time after which the server removes a silent member (presence-daemon: --ttl-ms)",
    );
    expiries
        .into_iter()
        .chain(missing_events(total, faults))
        .chain(wrong_events(total, faults))
        .chain(wrong_answers(total, faults, expired > 0))
        .collect()
}

/// Returns the findings in the pushes of a conversation.
fn wrong_pushes(total: &Tally, faults: (bool, &str)) -> impl Iterator<Item = Option<Warning>> {
    let rule = "the rule is driver.conversation.fan_out of the plan; see the daemon's log";
    let counted = [
        (
            Kind::CountsDisagree,
            count::LOST,
            "pushes of messages never reached a user that must receive them (lost)",
            rule,
        ),
        (
            Kind::Duplicated,
            count::DUPLICATED,
            "pushes reached a user twice (duplicated)",
            "each user must get each message once: several nodes may deliver the same one",
        ),
        (
            Kind::OutOfOrder,
            count::REORDERED,
            "pushes reached a user after a later one of the same sender (reordered)",
            "messages of one sender have an order, which the server or its nodes change",
        ),
        (
            Kind::CountsDisagree,
            count::WRONG_ROOM,
            "pushes reached a user that must not receive them (wrong_room)",
            rule,
        ),
        (
            Kind::CountsDisagree,
            count::WRONG_STATE,
            "pushes had a number that their sender never sent (wrong_state)",
            "the server changes the number, or users of another run have the same names",
        ),
        (
            Kind::CountsDisagree,
            count::UNKNOWN_ACKS,
            "acknowledgements were of messages that were never sent (unknown_acks)",
            "a server must answer each message once, with its id",
        ),
        (
            Kind::CountsDisagree,
            count::DUPLICATE_ACKS,
            "acknowledgements were of messages that were acknowledged before (duplicate_acks)",
            "a server must answer each message once, with its id",
        ),
        (
            Kind::CountsDisagree,
            count::NOT_BACK,
            "users had not come back when the run ended (not_back)",
            "lengthen timeline.drain, or see why they can't connect (--debug)",
        ),
    ];
    counted
        .into_iter()
        .map(move |(kind, counter, text, remedy)| {
            Warning::of_events(kind, total.counted(counter), text, &[faults], remedy)
        })
}

fn missing_events(total: &Tally, faults: (bool, &str)) -> impl Iterator<Item = Warning> {
    let lost = total.counted(count::LOST);
    let unannounced = total.counted(count::LOST_JOINS) + total.counted(count::LOST_LEAVES);
    let gaps = total.counted(count::SEQUENCE_GAPS);
    let other_gaps = gaps.saturating_sub(lost + unannounced);
    [
        Warning::of_events(
            Kind::CountsDisagree,
            lost,
            "events of heartbeats that were acknowledged never reached a member of the room (lost)",
            &[faults],
            "each member must get each event (PROTOCOL.md, Events): see the daemon's log, and --debug",
        ),
        Warning::of_events(
            Kind::CountsDisagree,
            unannounced,
            "events of joins or leaves that were acknowledged never reached a member of the room (lost_joins, lost_leaves)",
            &[faults],
            "each member must get each event (PROTOCOL.md, Events): see the daemon's log, and --debug",
        ),
        Warning::of_events(
            Kind::CountsDisagree,
            other_gaps,
            "numbers are missing in the sequence of a room, besides the numbers of lost events (sequence_gaps)",
            &[faults],
            "leaves of broken connections were lost, or the server skips numbers (PROTOCOL.md, Events: seq)",
        ),
    ]
    .into_iter()
    .flatten()
}

fn wrong_events(total: &Tally, faults: (bool, &str)) -> impl Iterator<Item = Warning> {
    [
        Warning::of_events(
            Kind::Duplicated,
            total.counted(count::DUPLICATED),
            "events reached a member twice (duplicated)",
            &[],
            "each member must get each event once: several nodes may deliver the same event",
        ),
        Warning::of_events(
            Kind::OutOfOrder,
            total.counted(count::REORDERED),
            "events reached a member after a later one (reordered)",
            &[],
            "events of a room have one order, the same for all members",
        ),
        Warning::of_events(
            Kind::CountsDisagree,
            total.counted(count::WRONG_ROOM),
            "events reached a connection that is not in their room (wrong_room)",
            &[],
            "a server must deliver events of a room to its members only",
        ),
        Warning::of_events(
            Kind::CountsDisagree,
            total.counted(count::WRONG_STATE),
            "events showed a state that their user never had, or named another connection (wrong_state)",
            &[],
            "another driver may use the same rooms; otherwise the server mixes up states",
        ),
        Warning::of_events(
            Kind::CountsDisagree,
            total.counted(count::WRONG_EPOCH),
            "events or acknowledgements had another epoch than the join of their member (wrong_epoch)",
            &[],
            "an epoch begins with a join and lasts until the next (PROTOCOL.md, Requests)",
        ),
        Warning::of_events(
            Kind::CountsDisagree,
            total.counted(count::WRONG_TIME),
            "events had a time before their cause or after their receipt, by the clock that joins have shown (wrong_time)",
            &[],
            "ts is the server's time of the event (PROTOCOL.md, Events), unless its clock was set during the run",
        ),
        Warning::of_events(
            Kind::CountsDisagree,
            total.counted(count::WRONG_TYPE),
            "joins were updates, or updates joins (wrong_type)",
            &[],
            "type says what happened (PROTOCOL.md, Events)",
        ),
        Warning::of_events(
            Kind::CountsDisagree,
            total.counted(count::FALSE_LEAVES),
            "leaves were of members whose later heartbeats were acknowledged (false_leaves)",
            &[faults],
            "a member that the server keeps must not leave for others",
        ),
    ]
    .into_iter()
    .flatten()
}

fn wrong_answers(
    total: &Tally,
    faults: (bool, &str),
    have_expired: bool,
) -> impl Iterator<Item = Warning> {
    [
        Warning::of_events(
            Kind::CountsDisagree,
            total.counted(count::DUPLICATE_ACKS) + total.counted(count::UNKNOWN_ACKS),
            "acknowledgements were of requests that were acknowledged before, or never sent (duplicate_acks, unknown_acks)",
            &[],
            "a server must answer each request once, with its id",
        ),
        Warning::of_events(
            Kind::CountsDisagree,
            total.counted(count::SNAPSHOT_ERRORS),
            "members were missing or wrong in the snapshots of joins (snapshot_errors)",
            &[
                faults,
                (have_expired, "memberships had ended: see `expired`"),
            ],
            "a snapshot must show each member whose join was acknowledged, in its last acknowledged state",
        ),
        Warning::of_events(
            Kind::CountsDisagree,
            total.counted(count::LINGERING),
            "members were in the snapshots of joins after their leave was acknowledged (lingering)",
            &[faults],
            "a snapshot must not show a member that has left: the server keeps it, or tells its nodes too late",
        ),
        Warning::of_events(
            Kind::CountsDisagree,
            total.counted(count::NOT_BACK),
            "users had not come back when the run ended (not_back)",
            &[],
            "lengthen timeline.drain, or see why they can't join (--debug)",
        ),
    ]
    .into_iter()
    .flatten()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use load::plan::{Fault, Signal, Timeline};
    use measure::warning::Severity;

    use super::*;
    use crate::spec::SPEC;

    fn plan() -> Plan<Settings> {
        let timeline = Timeline::new(Duration::from_secs(10), Duration::from_secs(5));
        Plan::new("findings", timeline, Vec::new(), Settings::default())
    }

    fn faulty() -> Plan<Settings> {
        let fault = Fault {
            at: Duration::from_secs(1),
            signal: Signal::Kill,
            back_after: Some(Duration::from_secs(1)),
            instance: None,
            service: None,
        };
        Plan {
            faults: vec![fault],
            ..plan()
        }
    }

    fn total(counts: &[(Counter, u64)]) -> Tally {
        let mut total = Tally::new(&SPEC.series);
        for (counter, number) in counts {
            total.count(counter, *number);
        }
        total
    }

    fn severities(plan: &Plan<Settings>, counts: &[(Counter, u64)]) -> Vec<Severity> {
        let found = warnings(plan, &total(counts));
        found.iter().map(|warning| warning.severity).collect()
    }

    #[test]
    fn each_wrong_event_is_suspect_and_losses_of_a_fault_are_notes() {
        let (suspect, note) = (Severity::Suspect, Severity::Note);
        assert_eq!(severities(&plan(), &[(count::LOST_WITH_SENDER, 3)]), []);
        for (counter, of_fault) in [
            (count::LOST, note),
            (count::LOST_JOINS, note),
            (count::LOST_LEAVES, note),
            (count::LINGERING, note),
            (count::SEQUENCE_GAPS, note),
            (count::SNAPSHOT_ERRORS, note),
            (count::DUPLICATED, suspect),
            (count::REORDERED, suspect),
            (count::WRONG_ROOM, suspect),
            (count::WRONG_STATE, suspect),
            (count::WRONG_EPOCH, suspect),
            (count::WRONG_TIME, suspect),
            (count::WRONG_TYPE, suspect),
            (count::FALSE_LEAVES, note),
            (count::DUPLICATE_ACKS, suspect),
            (count::UNKNOWN_ACKS, suspect),
            (count::EXPIRED, note),
            (count::NOT_BACK, suspect),
        ] {
            assert_eq!(
                severities(&plan(), &[(counter, 1)]),
                [suspect],
                "{counter:?}"
            );
            assert_eq!(
                severities(&faulty(), &[(counter, 1)]),
                [of_fault],
                "{counter:?}"
            );
        }
    }

    #[test]
    fn snapshots_without_a_member_that_had_expired_are_not_held_against_the_server() {
        let both = [(count::EXPIRED, 1), (count::SNAPSHOT_ERRORS, 1)];
        assert_eq!(
            severities(&plan(), &both),
            [Severity::Suspect, Severity::Note]
        );
    }

    #[test]
    fn a_gap_of_a_lost_event_is_reported_once() {
        for lost in [count::LOST, count::LOST_JOINS, count::LOST_LEAVES] {
            let both = [(lost, 2), (count::SEQUENCE_GAPS, 2)];
            assert_eq!(severities(&plan(), &both).len(), 1);
            let more = [(lost, 2), (count::SEQUENCE_GAPS, 3)];
            assert_eq!(severities(&plan(), &more).len(), 2);
        }
    }

    #[test]
    fn counts_must_be_equal_unless_a_connection_was_cut() {
        let exact = [Bounds::default(); 4];
        assert_eq!(bounds(&plan(), &total(&[])), exact);
        let cut = bounds(&plan(), &total(&[(count::CONNECTIONS_LOST, 1)]));
        assert!(cut[0].daemon_more && !cut[0].daemon_less, "unread events");
        assert!(
            cut[1].daemon_less && !cut[1].daemon_more,
            "unread heartbeats"
        );
        assert_ne!(bounds(&faulty(), &total(&[])), exact);
    }
}
