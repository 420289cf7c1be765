//! Performs operations on a store.

use issue_store::{Changes, Error, Group, Reader, Timestamp};
use serde::Serialize;
use serde_json::json;

use crate::answer::Answer;
use crate::batch;
use crate::code::Code;
use crate::operation::{BatchOperation, Read, Write};
use crate::request::{IdempotencyKey, WriteRequest};

/// Performs a write as a part of a group. What the answer says is true once the group is committed.
///
/// # Errors
/// The database failed, so the group cannot be committed. A request that is refused is no error: its answer says so, and
/// nothing of it is stored.
pub fn write(
    group: &mut Group<'_>,
    now: Timestamp,
    request: &WriteRequest,
) -> Result<Answer, Error> {
    let written = group.apply(now, |changes| write_once(changes, request));
    match written {
        Err(error) if error.is_of_request() => Ok(error.into()),
        other => other,
    }
}

/// Performs a write, or returns the answer of the time when its idempotency key was used before.
fn write_once(changes: &mut Changes<'_>, request: &WriteRequest) -> Result<Answer, Error> {
    let Some(key) = &request.header.idempotency_key else {
        return perform(changes, request);
    };
    if let Some(stored) = changes.answer(&key.text)? {
        return Ok(repeat(key, &stored));
    }
    let answer = perform(changes, request)?;
    changes.keep_answer(
        &key.text,
        &format!("{:016x} {}", key.fingerprint, answer.stored()),
    )?;
    Ok(answer)
}

fn repeat(key: &IdempotencyKey, stored: &str) -> Answer {
    match stored.split_once(' ') {
        Some((fingerprint, answer)) if fingerprint == format!("{:016x}", key.fingerprint) => {
            Answer::from_stored(answer)
        }
        _ => {
            let problem = format!(
                "the idempotency key {:?} was used for another request: use a new key for each request",
                key.text
            );
            Answer::failure(Code::Conflict, &problem)
        }
    }
}

fn perform(changes: &mut Changes<'_>, request: &WriteRequest) -> Result<Answer, Error> {
    let actor = &request.header.actor;
    match &request.write {
        Write::Batch(batch) => batch::perform(changes, actor, batch),
        write => perform_one(changes, actor, write),
    }
}

/// Performs an operation of a batch.
pub(crate) fn perform_part(
    changes: &mut Changes<'_>,
    actor: &str,
    operation: &BatchOperation,
) -> Result<Answer, Error> {
    match operation {
        BatchOperation::Show(id) => success(changes.show(id)),
        BatchOperation::Write(write) => perform_one(changes, actor, write),
    }
}

fn perform_one(changes: &mut Changes<'_>, actor: &str, write: &Write) -> Result<Answer, Error> {
    match write {
        Write::Create(new) => success(changes.create(actor, new)),
        Write::Update(args) => success(changes.update(actor, &args.id, &args.patch)),
        Write::Claim(args) => {
            let assignee = args.assignee.as_deref().unwrap_or(actor);
            success(changes.claim(actor, &args.id, assignee))
        }
        Write::ClaimReady(filter) => {
            let claimed = changes.claim_ready(actor, filter, actor);
            success(claimed.map(|issues| Issues { issues }))
        }
        Write::Close(args) => success(changes.close(actor, &args.id, &args.reason)),
        Write::Reopen(id) => success(changes.reopen(actor, id)),
        Write::Delete(args) => {
            let deleted = changes.delete(actor, &args.id, args.force);
            success(deleted.map(|()| json!({ "id": args.id })))
        }
        Write::DepAdd(args) => {
            let added = changes.add_dependency(actor, &args.id, &args.depends_on, args.kind);
            success(added.map(|added| json!({ "added": added })))
        }
        Write::DepRemove(args) => {
            let removed = changes.remove_dependency(actor, &args.id, &args.depends_on, args.kind);
            success(removed.map(|()| json!({})))
        }
        Write::LabelAdd(args) => {
            changes.add_label(actor, &args.id, &args.label)?;
            success(changes.show(&args.id))
        }
        Write::LabelRemove(args) => {
            changes.remove_label_of(actor, &args.id, &args.label)?;
            success(changes.show(&args.id))
        }
        Write::CommentAdd(args) => success(changes.comment(actor, &args.id, &args.text)),
        Write::Import(args) => success(changes.import(actor, &args.records, args.on_conflict)),
        Write::Batch(_) => unreachable!("a batch has no batch in it"),
    }
}

/// Performs a read. The answers to `list`, `ready` and `stats` have the shapes of bd's daemon if they must be compatible
/// with it.
#[must_use]
pub fn read(reader: &Reader, read: &Read, is_compatible: bool) -> Answer {
    if is_compatible {
        let answered = match read {
            Read::List(filter) => Some(success(reader.list(filter))),
            Read::Ready(filter) => Some(success(reader.ready(filter))),
            Read::Stats => Some(success(reader.stats().map(|stats| {
                json!({
                    "total_issues": stats.total,
                    "open_issues": stats.open,
                    "in_progress_issues": stats.in_progress,
                    "blocked_issues": stats.blocked,
                    "closed_issues": stats.closed,
                    "ready_issues": stats.ready,
                })
            }))),
            _ => None,
        };
        if let Some(answered) = answered {
            return answered.unwrap_or_else(Answer::from);
        }
    }
    let issues = |found| success(Result::map(found, |issues| Issues { issues }));
    let answered = match read {
        Read::List(filter) => issues(reader.list(filter)),
        Read::Ready(filter) => issues(reader.ready(filter)),
        Read::Stale(args) => issues(reader.stale(args.since, args.limit)),
        Read::Count(filter) => success(reader.count(filter).map(|count| json!({ "count": count }))),
        Read::Show(id) => success(reader.details(id)),
        Read::Blocked => success(reader.blocked().map(|found| {
            let blocked = found
                .into_iter()
                .map(|(issue, blocked_by)| Blocked { issue, blocked_by });
            Issues {
                issues: blocked.collect(),
            }
        })),
        Read::Stats => success(reader.stats()),
        Read::DepTree(args) => {
            let nodes = reader.tree(&args.id, args.max_depth);
            success(nodes.map(|nodes| json!({ "nodes": nodes })))
        }
        Read::CommentList(id) => success(
            reader
                .comments(id)
                .map(|comments| json!({ "comments": comments })),
        ),
        Read::ResolveId(id) => success(reader.resolve(id).map(|id| json!({ "id": id }))),
        Read::Export(args) => success(reader.export(args.after, args.limit, args.events)),
        Read::GetMutations(args) => {
            let events = reader.events(args.after, args.limit);
            success(events.map(|events| json!({ "events": events })))
        }
    };
    answered.unwrap_or_else(Answer::from)
}

fn success<T: Serialize>(result: Result<T, Error>) -> Result<Answer, Error> {
    result.map(|data| Answer::success(&data))
}

#[derive(Serialize)]
struct Issues<T> {
    issues: Vec<T>,
}

#[derive(Serialize)]
struct Blocked {
    issue: issue_store::Issue,
    blocked_by: Vec<String>,
}
