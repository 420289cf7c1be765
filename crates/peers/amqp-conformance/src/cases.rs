//! The cases, in the order in which they are listed.

use std::cell::RefCell;

// What the modules below share, which they import with `super::*`.
use amq_protocol::protocol::{BasicProperties, basic, channel, confirm, connection, exchange};
use amq_protocol::protocol::{queue, tx};
use amq_protocol::types::AMQPValue;
use anyhow::{Context as _, bail, ensure};

use crate::case::{Case, Named};
use crate::channel::Channel;
use crate::client::*;
use crate::connection::Connection;
use crate::method::Method;
use crate::request::*;
use crate::values::{flag, int, long, table, text};

mod acknowledging;
mod alternates;
mod bindings;
mod carbon_copies;
mod channels;
mod closing;
mod confirming;
mod consuming;
mod content;
mod dead_letters;
mod direct_replies;
mod exchange_bindings;
mod exchanges;
mod expiry;
mod frames;
mod getting;
mod limits;
mod negotiation;
mod prefetch;
mod publishing;
mod queue_access;
mod queue_arguments;
mod queue_ends;
mod queues;
mod recovering;
mod routing;
mod transactions;
mod tuning;

/// Begins a case, by its name, at the end of the list.
type Begin<'a> = &'a dyn Fn(&str) -> Named<'a>;

/// Returns all cases.
pub(super) fn all() -> Vec<Case> {
    let list = RefCell::default();
    let case = |name: &str| Named {
        name: name.to_owned(),
        list: &list,
    };
    for add in [
        negotiation::cases,
        tuning::cases,
        frames::cases,
        content::cases,
        channels::cases,
        exchanges::cases,
        alternates::cases,
        exchange_bindings::cases,
        queues::cases,
        queue_ends::cases,
        queue_access::cases,
        queue_arguments::cases,
        bindings::cases,
        limits::cases,
        expiry::cases,
        dead_letters::cases,
        publishing::cases,
        routing::cases,
        carbon_copies::cases,
        direct_replies::cases,
        consuming::cases,
        getting::cases,
        prefetch::cases,
        acknowledging::cases,
        recovering::cases,
        confirming::cases,
        transactions::cases,
        closing::cases,
    ] {
        add(&case);
    }
    list.into_inner()
}

/// Names of the cases about the operations that every client needs; null-broker passes them too.
const SMOKE: [&str; 12] = [
    "content: a body of empty",
    "content: a body of 1 MiB, in several frames",
    "queue.declare: answers with the name and two zeros",
    "queue.declare: passive of a missing one is 404",
    "queue.delete: counts its messages",
    "basic.return: mandatory and unroutable is 312, with everything",
    "basic.get: of an empty queue",
    "basic.get: says what is left, and counts its tags",
    "basic.qos: 3 for each consumer",
    "basic.nack: with requeue all are in their old order",
    "confirm: tags count from 1 after confirm.select",
    "confirm: a persistent message in a durable queue",
];

/// Returns the cases of [`SMOKE`].
pub(super) fn smoke() -> Vec<Case> {
    let is_smoke = |case: &Case| SMOKE.contains(&case.name.as_str());
    all().into_iter().filter(is_smoke).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_case_has_a_name_of_its_own_that_begins_with_what_it_is_about() {
        let cases = all();
        assert!(cases.len() >= 250, "{} cases", cases.len());
        let mut names = BTreeSet::new();
        for case in &cases {
            assert!(
                names.insert(case.name.clone()),
                "{} is there twice",
                case.name
            );
            let (about, rest) = case.name.split_once(": ").unwrap_or_default();
            assert!(
                !about.is_empty() && !rest.is_empty(),
                "{} has no `what: how`",
                case.name
            );
        }
    }
    #[test]
    fn every_smoke_case_is_a_case() {
        let found: BTreeSet<String> = smoke().into_iter().map(|case| case.name).collect();
        assert!(SMOKE.iter().all(|name| found.contains(*name)), "{found:?}");
    }
}
