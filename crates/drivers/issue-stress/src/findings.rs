//! Findings in the totals of a run: answers that contradict the database or each other.

use load::driver::Findings;
use load::plan::Plan;
use measure::tally::Tally;
use measure::warning::{Kind, Warning};

use crate::outcome::count;
use crate::settings::Settings;

pub(crate) fn findings(_plan: &Plan<Settings>, total: &Tally) -> Findings {
    Findings {
        warnings: contradictions(total).chain(unchecked(total)).collect(),
        ..Findings::default()
    }
}

fn contradictions(total: &Tally) -> impl Iterator<Item = Warning> {
    let rules = [
        (
            Kind::CountsDisagree,
            count::LOST,
            "issues were acknowledged and are not in the database (lost)",
            "an acknowledged write must stay: see the daemon's log, and its --durability",
        ),
        (
            Kind::CountsDisagree,
            count::PHANTOM,
            "issues are in the database although their creation was refused (phantom)",
            "a request that is refused must store nothing: see the daemon's log",
        ),
        (
            Kind::Duplicated,
            count::DUPLICATED,
            "issues were stored twice (duplicated)",
            "a request with an idempotency key must be performed once",
        ),
        (
            Kind::Duplicated,
            count::DUPLICATE_IDS,
            "ids were given to two issues (duplicate_ids)",
            "ids must be unique across concurrent creators",
        ),
        (
            Kind::CountsDisagree,
            count::PARTIAL_BATCHES,
            "atomic batches were stored in part (partial_batches)",
            "a batch in the mode `atomic` is stored whole or not at all",
        ),
        (
            Kind::CountsDisagree,
            count::ALTERED,
            "issues have another title, description, status or other labels than were sent (altered)",
            "an acknowledged write must be stored and listed as it was sent",
        ),
        (
            Kind::CountsDisagree,
            count::FOREIGN_LISTED,
            "issues of lists are not in the database, or twice in a list (foreign_listed)",
            "a list must name issues that exist, each once",
        ),
        (
            Kind::CountsDisagree,
            count::UNLISTED,
            "issues are missing from lists although they were acknowledged before (unlisted)",
            "a list must have all issues up to its limit: see the daemon's log",
        ),
        (
            Kind::CountsDisagree,
            count::WRONG_COUNTS,
            "counts of `stats` differ from the rows (wrong_counts)",
            "counters must be changed in the transaction of their rows",
        ),
        (
            Kind::OutOfOrder,
            count::NOT_LINEARIZABLE,
            "histories have no order of operations that explains what was read (not_linearizable)",
            "a read must return the latest acknowledged write; the first histories are above",
        ),
    ];
    rules.into_iter().filter_map(|(kind, name, text, rule)| {
        Warning::of_events(kind, total.counted(name), text, &[], rule)
    })
}

/// Returns notes of what was not checked.
fn unchecked(total: &Tally) -> impl Iterator<Item = Warning> {
    let remedies = [
        (
            count::UNDECIDED,
            "histories are too long or too concurrent to be checked (undecided)",
            "share more issues (--shared-issues), so that each history is shorter",
        ),
        (
            count::UNCHECKED,
            "operations of histories were left out of the check (unchecked)",
            "run for a shorter time, or with a lower rate, to have all of them checked",
        ),
        (
            count::UNCHECKED_LISTS,
            "lists were left out of the check (unchecked_lists)",
            "run for a shorter time, or with a lower rate, to have all of them checked",
        ),
    ];
    remedies.into_iter().filter_map(|(name, text, remedy)| {
        let remedy = [(true, remedy)];
        Warning::of_events(Kind::OutOfOrder, total.counted(name), text, &remedy, "")
    })
}
