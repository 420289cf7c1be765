//! Histories of what agents wrote and read, for a check of linearizability.

use std::collections::{HashMap, HashSet};

use linearizability::{Kind, Operation, Outcome, check_register_within, membership_reads};

/// Steps of the search for an order after which a history counts as undecided.
const MAX_STEPS: u64 = 1_000_000;
/// Operations that a worker keeps. The histories of all workers end when the first of them reaches this number.
const MAX_OPERATIONS: usize = 2_000_000;

/// The time of a request, and of its answer if one arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) invoked_ns: u64,
    pub(crate) returned_ns: Option<u64>,
}

/// The histories of two registers of each issue: its assignee, and whether it is ready.
#[derive(Debug, Default)]
pub(crate) struct Histories {
    assignees: HashMap<Box<str>, Vec<Operation<u64>>>,
    ready: HashMap<Box<str>, Register>,
    /// The agents that were told that they have claimed an issue.
    claims: HashMap<Box<str>, Vec<u32>>,
    operations: usize,
    /// The earliest time at which an operation was left out.
    incomplete_from: Option<u64>,
}

/// The history of whether an issue is ready.
#[derive(Debug, Default)]
struct Register {
    /// True if it was ready before the load began.
    was_ready: bool,
    operations: Vec<Operation<bool>>,
}

/// The result of the check.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Checked {
    pub(crate) operations: u64,
    pub(crate) violations: Vec<String>,
    pub(crate) undecided: u64,
    /// Operations that were recorded or came too late to be, and were not checked.
    pub(crate) left_out: u64,
}

impl Histories {
    /// Registers that an issue was ready before the load began.
    pub(crate) fn was_ready(&mut self, issue: &str) {
        self.ready.entry(issue.into()).or_default().was_ready = true;
    }

    pub(crate) fn assignee(&mut self, issue: &str, client: u32, span: Span, kind: Kind<u64>) {
        if self.has_room(1, span.invoked_ns) {
            let operations = self.assignees.entry(issue.into()).or_default();
            operations.push(operation(client, span, kind));
        }
    }

    /// Adds that an agent was told that it has claimed an issue. Nobody gives a claimed issue back.
    pub(crate) fn claimed(&mut self, issue: &str, client: u32) {
        self.claims.entry(issue.into()).or_default().push(client);
    }

    /// Adds that an issue became ready, or ceased to be.
    pub(crate) fn became_ready(&mut self, issue: &str, client: u32, span: Span, is_ready: bool) {
        if self.has_room(1, span.invoked_ns) {
            let register = self.ready.entry(issue.into()).or_default();
            register
                .operations
                .push(operation(client, span, Kind::Write(is_ready)));
        }
    }

    /// Adds the answer to `ready` that lists all ready issues among `objects`.
    pub(crate) fn read_all_ready(
        &mut self,
        objects: &[String],
        client: u32,
        (invoked_ns, returned_ns): (u64, u64),
        answer: &HashSet<String>,
    ) {
        if !self.has_room(objects.len(), invoked_ns) {
            return;
        }
        for (issue, read) in membership_reads(client, invoked_ns, returned_ns, objects, answer) {
            let register = self.ready.entry(issue.as_str().into()).or_default();
            register.operations.push(read);
        }
    }

    /// Adds the answer to `ready` with a limit: it says nothing about issues that it does not list.
    pub(crate) fn read_some_ready(&mut self, issues: &[&str], client: u32, span: Span) {
        if !self.has_room(issues.len(), span.invoked_ns) {
            return;
        }
        for issue in issues {
            let register = self.ready.entry((*issue).into()).or_default();
            register
                .operations
                .push(operation(client, span, Kind::Read(true)));
        }
    }

    fn has_room(&mut self, operations: usize, invoked_ns: u64) -> bool {
        self.operations += operations;
        let has_room = self.operations <= MAX_OPERATIONS;
        if !has_room {
            self.end_at(invoked_ns);
        }
        has_room
    }

    fn end_at(&mut self, invoked_ns: u64) {
        let earliest = self.incomplete_from.unwrap_or(u64::MAX).min(invoked_ns);
        self.incomplete_from = Some(earliest);
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for (issue, operations) in other.assignees {
            self.assignees.entry(issue).or_default().extend(operations);
        }
        for (issue, register) in other.ready {
            let own = self.ready.entry(issue).or_default();
            own.was_ready |= register.was_ready;
            own.operations.extend(register.operations);
        }
        for (issue, clients) in other.claims {
            self.claims.entry(issue).or_default().extend(clients);
        }
        self.operations += other.operations;
        if let Some(invoked_ns) = other.incomplete_from {
            self.end_at(invoked_ns);
        }
    }

    /// Leaves out what may depend on an operation that was left out: one that was invoked before cannot have seen it if
    /// it returned before.
    fn truncate(&mut self) {
        let Some(end) = self.incomplete_from else {
            return;
        };
        let assignees = self.assignees.values_mut();
        assignees.for_each(|operations| operations.retain(|operation| is_before(operation, end)));
        let registers = self.ready.values_mut();
        registers.for_each(|register| {
            let operations = &mut register.operations;
            operations.retain(|operation| is_before(operation, end));
        });
    }

    /// Checks every register by itself. An issue that nobody is known to have made ready was ready from the beginning:
    /// it is of the preload or of a long batch, and nobody can have read its id before it existed.
    pub(crate) fn check(&mut self) -> Checked {
        self.truncate();
        let mut checked = Checked::default();
        // The simplest to understand comes first.
        for (issue, clients) in self.claims.iter().filter(|(_, clients)| clients.len() > 1) {
            let violation = format!(
                "the claim of {issue}: agents {clients:?} were each told that they have it"
            );
            checked.violations.push(violation);
        }
        let mut note = |issue: &str, register: &str, operations: usize, outcome: Outcome| {
            checked.operations += operations as u64;
            match outcome {
                Outcome::Linearizable => {}
                Outcome::Unknown => checked.undecided += 1,
                Outcome::Violated(violation) => checked
                    .violations
                    .push(format!("{register} of {issue}: {violation}")),
            }
        };
        for (issue, operations) in &self.assignees {
            let outcome = check_register_within(0, operations, MAX_STEPS);
            note(issue, "the assignee", operations.len(), outcome);
        }
        let becomes_ready = |operation: &Operation<bool>| operation.kind == Kind::Write(true);
        for (issue, register) in &self.ready {
            let operations = &register.operations;
            let was_ready = register.was_ready || !operations.iter().any(becomes_ready);
            let outcome = check_register_within(was_ready, operations, MAX_STEPS);
            note(issue, "membership in ready", operations.len(), outcome);
        }
        checked.left_out = (self.operations as u64).saturating_sub(checked.operations);
        checked
    }
}

/// Returns true if a write was invoked, or a read returned, before a time.
fn is_before<V>(operation: &Operation<V>, end: u64) -> bool {
    match operation.kind {
        Kind::Write(_) => operation.invoked_ns < end,
        Kind::Read(_) => operation.returned_ns.is_some_and(|returned| returned < end),
    }
}

fn operation<V>(client: u32, span: Span, kind: Kind<V>) -> Operation<V> {
    Operation {
        client,
        invoked_ns: span.invoked_ns,
        returned_ns: span.returned_ns,
        kind,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(invoked_ns: u64, returned_ns: u64) -> Span {
        Span {
            invoked_ns,
            returned_ns: Some(returned_ns),
        }
    }

    #[test]
    fn a_stale_assignee_is_found() {
        let mut histories = Histories::default();
        histories.assignee("a", 1, span(0, 10), Kind::Write(5));
        histories.assignee("a", 2, span(5, 9), Kind::Read(0));
        assert_eq!(histories.check().violations, Vec::<String>::new());
        histories.assignee("a", 2, span(20, 30), Kind::Read(0));
        let violations = histories.check().violations;
        assert_eq!(violations.len(), 1);
        assert!(
            violations[0].starts_with("the assignee of a: "),
            "{violations:?}"
        );
    }

    #[test]
    fn an_issue_that_two_agents_claimed_is_found() {
        let mut histories = Histories::default();
        histories.claimed("a", 1);
        histories.claimed("b", 2);
        assert_eq!(histories.check().violations, Vec::<String>::new());
        let mut other = Histories::default();
        other.claimed("a", 2);
        histories.merge(other);
        assert_eq!(
            histories.check().violations,
            ["the claim of a: agents [1, 2] were each told that they have it"]
        );
    }

    #[test]
    fn an_issue_that_is_listed_as_ready_after_it_was_claimed_is_found() {
        let mut histories = Histories::default();
        histories.became_ready("a", 1, span(0, 10), true);
        histories.read_some_ready(&["a", "of another"], 2, span(5, 15));
        histories.became_ready("a", 1, span(20, 30), false);
        assert_eq!(histories.check().violations, Vec::<String>::new());
        histories.read_some_ready(&["a"], 2, span(40, 50));
        assert_eq!(histories.check().violations.len(), 1);
    }

    #[test]
    fn a_ready_issue_that_a_full_list_leaves_out_is_found() {
        let mut histories = Histories::default();
        histories.was_ready("a");
        let objects = ["a".to_owned()];
        let whole = HashSet::from(["a".to_owned()]);
        histories.read_all_ready(&objects, 1, (0, 5), &whole);
        assert_eq!(histories.check().violations, Vec::<String>::new());
        histories.read_all_ready(&objects, 1, (6, 9), &HashSet::new());
        assert_eq!(histories.check().violations.len(), 1);
    }

    #[test]
    fn histories_end_where_the_first_worker_has_left_something_out() {
        let mut histories = Histories::default();
        histories.assignee("a", 1, span(0, 10), Kind::Write(5));
        histories.assignee("a", 2, span(15, 30), Kind::Read(6));
        let mut other = Histories {
            operations: MAX_OPERATIONS,
            ..Histories::default()
        };
        other.assignee("a", 3, span(20, 25), Kind::Write(6));
        histories.merge(other);
        let checked = histories.check();
        assert_eq!((checked.operations, checked.violations.len()), (1, 0));
        assert_eq!(checked.left_out, MAX_OPERATIONS as u64 + 2);
    }

    #[test]
    fn a_write_without_an_answer_may_take_effect_at_any_time() {
        let mut histories = Histories::default();
        histories.was_ready("a");
        let lost = Span {
            invoked_ns: 10,
            returned_ns: None,
        };
        histories.became_ready("a", 1, lost, false);
        histories.read_some_ready(&["a"], 2, span(20, 30));
        assert_eq!(histories.check().violations, Vec::<String>::new());
    }
}
