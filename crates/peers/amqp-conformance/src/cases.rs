//! The cases, in the order in which they are listed.

use std::cell::RefCell;

// What the modules below share, which they import with `super::*`.
use amq_protocol::protocol::{BasicProperties, basic, connection};
use amq_protocol::types::{AMQPValue, FieldTable};
use anyhow::{Context as _, bail, ensure};
use harness::verify::conformance::expect_eq;

use crate::case::{Case, Named};
use crate::channel::Channel;
use crate::connection::Connection;
use crate::method::Method as _;
use crate::script;

mod loops;
mod negotiation;
mod tuning;

/// The cases as text; see [`script`].
const SCRIPTS: [(&str, &str); 6] = [
    ("connections.txt", include_str!("cases/connections.txt")),
    ("exchanges.txt", include_str!("cases/exchanges.txt")),
    ("queues.txt", include_str!("cases/queues.txt")),
    ("bindings.txt", include_str!("cases/bindings.txt")),
    ("messages.txt", include_str!("cases/messages.txt")),
    ("acknowledging.txt", include_str!("cases/acknowledging.txt")),
];

/// Begins a case, by its name, at the end of the list.
type Begin<'a> = &'a dyn Fn(&str) -> Named<'a>;

/// Returns all cases.
pub(super) fn all() -> Vec<Case> {
    let list = RefCell::default();
    let case = |name: &str| Named {
        name: name.to_owned(),
        list: &list,
    };
    negotiation::cases(&case);
    tuning::cases(&case);
    loops::cases(&case);
    let scripts = SCRIPTS
        .iter()
        .flat_map(|(file, text)| script::cases(file, text));
    list.into_inner().into_iter().chain(scripts).collect()
}

/// Names of the cases about the operations that every client needs; null-broker passes them too.
pub(super) const SMOKE: [&str; 12] = [
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
        let cases = all();
        let is_case = |name: &&str| cases.iter().any(|case| case.name == **name);
        assert!(SMOKE.iter().all(is_case));
    }
}
