//! Answers that list objects, as reads of each object's membership.

use std::collections::HashSet;
use std::hash::Hash;

use crate::{Kind, Operation};

/// Splits an answer that lists the members of a set into one read for each of `objects`: true if the answer lists it.
///
/// `objects` are those whose membership is checked; others in the answer are not considered. The answer must be
/// complete: in an answer with a limit, absence says nothing.
///
/// Each object is then checked alone, as a register of booleans. That finds an object that is listed too late or too
/// early. It does not find an answer whose parts are true at different instants.
pub fn membership_reads<'a, I: Eq + Hash + 'a>(
    client: u32,
    invoked_ns: u64,
    returned_ns: u64,
    objects: impl IntoIterator<Item = &'a I>,
    answer: &HashSet<I>,
) -> impl Iterator<Item = (&'a I, Operation<bool>)> {
    objects.into_iter().map(move |object| {
        let read = Operation {
            client,
            invoked_ns,
            returned_ns: Some(returned_ns),
            kind: Kind::Read(answer.contains(object)),
        };
        (object, read)
    })
}
