//! Performs operations on a store.

use issue_store::{Changes, Error, Group, IssuePage, PageSize, Reader, Timestamp};
use serde::Serialize;
use serde_json::json;

use crate::answer::Answer;
use crate::batch;
use crate::code::Code;
use crate::operation::{BatchOperation, Read, Write};
use crate::request::{IdempotencyKey, MAX_LINE, WriteRequest};

/// The page of a daemon that answers as bd's does: its clients know of no pages.
pub const COMPATIBLE_PAGE: PageSize = PageSize {
    issues: u32::MAX,
    bytes: MAX_LINE,
};

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
            success(claimed.map(|issues| IssuePage { issues, next: None }))
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
/// with it; the reader has pages of [`COMPATIBLE_PAGE`] then.
#[must_use]
pub fn read(reader: &Reader, read: &Read, is_compatible: bool) -> Answer {
    if is_compatible {
        let answered = match read {
            Read::List(filter) => Some(reader.list(filter).map(|page| whole(&page, filter.limit))),
            Read::Ready(filter) => {
                Some(reader.ready(filter).map(|page| whole(&page, filter.limit)))
            }
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
    let answered = match read {
        Read::List(filter) => success(reader.list(filter)),
        Read::Ready(filter) => success(reader.ready(filter)),
        Read::Stale(args) => success(reader.stale(args.since, args.limit, args.after.as_deref())),
        Read::Count(filter) => success(reader.count(filter).map(|count| json!({ "count": count }))),
        Read::Show(id) => success(reader.details(id)),
        Read::Blocked(args) => success(reader.blocked(args.after.as_deref())),
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

/// Answers with the array of issues, which has no room for `next`: a list that is cut is refused.
fn whole(page: &IssuePage, limit: Option<u32>) -> Answer {
    let is_whole =
        page.next.is_none() || limit.is_some_and(|limit| page.issues.len() >= limit as usize);
    if is_whole {
        Answer::success(&page.issues)
    } else {
        let problem = format!(
            "limit: the list is too long for one answer: {} issues fit",
            page.issues.len()
        );
        Answer::failure(Code::TooLarge, &problem)
    }
}
