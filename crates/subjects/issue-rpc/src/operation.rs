//! Operations and their arguments.

use issue_store::{
    DependencyKind, Filter, NewIssue, Object, OnConflict, Patch, ReadyFilter, Record, Timestamp,
    objects,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::code::Code;
use crate::request::describe;

/// The depth of a tree if none is given.
const DEFAULT_DEPTH: u32 = 50;
/// The records of a page if no limit is given.
const DEFAULT_PAGE: u32 = 1_000;

/// The operations of a batch, at most: others that write wait for its end, some 100 ms.
pub const MAX_OPERATIONS: usize = 1_000;
/// The records of an import, at most, for the same reason: each is several rows.
pub const MAX_RECORDS: usize = 500;

/// An operation with its arguments.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Concerns the daemon and not the database.
    Service(Service),
    /// Reads the database.
    Read(Read),
    /// Changes the database.
    Write(Write),
}

/// An operation on the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// Asks whether the daemon answers.
    Ping,
    /// Returns the state of the daemon.
    Status,
    /// Asks whether the daemon can read and write.
    Health,
    /// Returns the page of metrics.
    Metrics,
    /// Stops the daemon.
    Shutdown,
}

/// An operation that reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// Returns the issues that meet a filter.
    List(Filter),
    /// Counts the issues that meet a filter.
    Count(Filter),
    /// Returns an issue.
    Show(String),
    /// Returns the issues that can be worked on.
    Ready(ReadyFilter),
    /// Returns the blocked issues.
    Blocked(BlockedArgs),
    /// Returns the unfinished issues that have not changed for long.
    Stale(StaleArgs),
    /// Returns the number of issues by status.
    Stats,
    /// Returns what an issue depends on.
    DepTree(TreeArgs),
    /// Returns the comments on an issue.
    CommentList(String),
    /// Completes a shortened id.
    ResolveId(String),
    /// Returns issues with all that belongs to them.
    Export(ExportArgs),
    /// Returns the changes after a number.
    GetMutations(PageArgs),
}

/// An operation that changes the database.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Creates an issue.
    Create(Box<NewIssue>),
    /// Changes an issue.
    Update(Box<UpdateArgs>),
    /// Takes an issue to work on it.
    Claim(ClaimArgs),
    /// Takes the first ready issues that meet a filter, for the actor.
    ClaimReady(ReadyFilter),
    /// Closes an issue.
    Close(CloseArgs),
    /// Opens a closed issue.
    Reopen(String),
    /// Deletes an issue.
    Delete(DeleteArgs),
    /// Adds a dependency.
    DepAdd(DepAddArgs),
    /// Removes a dependency.
    DepRemove(DepRemoveArgs),
    /// Adds a label.
    LabelAdd(LabelArgs),
    /// Removes a label.
    LabelRemove(LabelArgs),
    /// Adds a comment.
    CommentAdd(CommentArgs),
    /// Performs several operations.
    Batch(Batch),
    /// Stores issues that were exported.
    Import(ImportArgs),
}

/// Several operations in one request.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// The operations; those that are wrong are refused when it is their turn.
    pub operations: Vec<BatchItem>,
    /// The reaction to a failure.
    pub mode: BatchMode,
    /// True if the answer is a success whatever its operations are, as bd's daemon has it.
    pub is_compatible: bool,
}

/// An operation of a batch: `Show` or a write, or the reason why it cannot be one.
pub type BatchItem = Result<BatchOperation, (Code, String)>;

/// An operation of a batch.
#[derive(Debug, Clone, PartialEq)]
pub enum BatchOperation {
    /// Returns an issue, with the changes of the batch.
    Show(String),
    /// Changes the database.
    Write(Write),
}

/// The reaction of a batch to a failure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchMode {
    /// Stops; what was done before stays.
    #[default]
    Stop,
    /// Stops; nothing stays.
    Atomic,
    /// Goes on with the next operation.
    Continue,
}

/// The arguments of `update`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpdateArgs {
    /// The issue.
    pub id: String,
    /// The changes.
    #[serde(flatten)]
    pub patch: Patch,
}

/// The arguments of `claim`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimArgs {
    /// The issue.
    pub id: String,
    /// The one who works on it; without a name, it is the actor.
    #[serde(default)]
    pub assignee: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadyArgs {
    #[serde(flatten)]
    filter: ReadyFilter,
    /// True to claim the issues, one without a limit, in the same transaction.
    #[serde(default)]
    claim: bool,
}

/// The arguments of `close`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloseArgs {
    /// The issue.
    pub id: String,
    /// The reason, or nothing.
    #[serde(default)]
    pub reason: String,
}

/// The arguments of `delete`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteArgs {
    /// The issue.
    pub id: String,
    /// True to delete it although others depend on it.
    #[serde(default)]
    pub force: bool,
}

/// The arguments of `dep_add`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DepAddArgs {
    /// The dependent issue.
    #[serde(alias = "from_id")]
    pub id: String,
    /// The issue that it depends on.
    #[serde(alias = "to_id")]
    pub depends_on: String,
    /// The relation.
    #[serde(alias = "dep_type", default = "DependencyKind::default_kind")]
    pub kind: DependencyKind,
}

/// The arguments of `dep_remove`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DepRemoveArgs {
    /// The dependent issue.
    #[serde(alias = "from_id")]
    pub id: String,
    /// The issue that it depends on.
    #[serde(alias = "to_id")]
    pub depends_on: String,
    /// The relation; without one, all of them.
    #[serde(alias = "dep_type", default)]
    pub kind: Option<DependencyKind>,
}

/// The arguments of `label_add` and `label_remove`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelArgs {
    /// The issue.
    pub id: String,
    /// The label.
    pub label: String,
}

/// The arguments of `comment_add`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommentArgs {
    /// The issue.
    pub id: String,
    /// The comment.
    pub text: String,
}

/// The arguments of `import`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportArgs {
    /// The issues, as `export` returns them.
    pub records: Vec<Record>,
    /// The treatment of issues that exist.
    #[serde(default)]
    pub on_conflict: OnConflict,
}

/// The arguments of `stale`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StaleArgs {
    /// The time since when the issues have not changed.
    pub since: Timestamp,
    /// The greatest number of issues.
    pub limit: Option<u32>,
    /// The `next` of the page before.
    pub after: Option<String>,
}

/// The arguments of `blocked`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockedArgs {
    /// The `next` of the page before.
    pub after: Option<String>,
}

/// The arguments of `dep_tree`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeArgs {
    /// The issue.
    pub id: String,
    /// The greatest number of dependencies between it and another one.
    #[serde(default = "default_depth")]
    pub max_depth: u32,
}

fn default_depth() -> u32 {
    DEFAULT_DEPTH
}

/// The arguments of `export`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExportArgs {
    /// The number of the last record of the page before.
    pub after: i64,
    /// The greatest number of records.
    pub limit: u32,
    /// True to add the events of each issue.
    pub events: bool,
}

impl Default for ExportArgs {
    fn default() -> Self {
        Self {
            after: 0,
            limit: DEFAULT_PAGE,
            events: false,
        }
    }
}

/// The arguments of `get_mutations`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PageArgs {
    /// The number of the last record of the page before.
    pub after: i64,
    /// The greatest number of records.
    pub limit: u32,
}

impl Default for PageArgs {
    fn default() -> Self {
        Self {
            after: 0,
            limit: DEFAULT_PAGE,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IdArgs {
    id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoArgs {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchArgs<'a> {
    #[serde(borrow, deserialize_with = "objects")]
    operations: Vec<ItemArgs<'a>>,
    #[serde(default)]
    mode: BatchMode,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ItemArgs<'a> {
    operation: String,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
}

impl Operation {
    /// Parses the arguments of an operation, which are a JSON object or null.
    ///
    /// # Errors
    /// No operation has this name, or it has other arguments.
    pub fn parse(name: &str, args: &str) -> Result<Self, (Code, String)> {
        let is = |service| parse::<NoArgs>(args).map(|NoArgs {}| Self::Service(service));
        let id = || parse::<IdArgs>(args).map(|args| args.id);
        let parsed = match name {
            "ping" => is(Service::Ping),
            "status" => is(Service::Status),
            "health" => is(Service::Health),
            "metrics" => is(Service::Metrics),
            "shutdown" => is(Service::Shutdown),
            "list" => parse(args).map(|args| Self::Read(Read::List(args))),
            "count" => parse(args).map(|args| Self::Read(Read::Count(args))),
            "show" => id().map(|id| Self::Read(Read::Show(id))),
            "ready" => parse(args).map(|mut args: ReadyArgs| {
                if args.claim {
                    args.filter.limit.get_or_insert(1);
                    Self::Write(Write::ClaimReady(args.filter))
                } else {
                    Self::Read(Read::Ready(args.filter))
                }
            }),
            "blocked" => parse(args).map(|args| Self::Read(Read::Blocked(args))),
            "stale" => parse(args).map(|args| Self::Read(Read::Stale(args))),
            "stats" => parse::<NoArgs>(args).map(|NoArgs {}| Self::Read(Read::Stats)),
            "dep_tree" => parse(args).map(|args| Self::Read(Read::DepTree(args))),
            "comment_list" => id().map(|id| Self::Read(Read::CommentList(id))),
            "resolve_id" => id().map(|id| Self::Read(Read::ResolveId(id))),
            "export" => parse(args).map(|args| Self::Read(Read::Export(args))),
            "get_mutations" => parse(args).map(|args| Self::Read(Read::GetMutations(args))),
            _ => return Write::parse(name, args).map(Self::Write),
        };
        parsed.map_err(|problem| (Code::Validation, format!("{name}: {problem}")))
    }
}

impl Write {
    fn parse(name: &str, args: &str) -> Result<Self, (Code, String)> {
        let parsed = match name {
            "create" => parse(args).map(|args| Self::Create(Box::new(args))),
            "update" => parse(args).map(|args| Self::Update(Box::new(args))),
            "claim" => parse(args).map(Self::Claim),
            "close" => parse(args).map(Self::Close),
            "delete" => parse(args).map(Self::Delete),
            "reopen" => parse::<IdArgs>(args).map(|args| Self::Reopen(args.id)),
            "dep_add" => parse(args).map(Self::DepAdd),
            "dep_remove" => parse(args).map(Self::DepRemove),
            "label_add" => parse(args).map(Self::LabelAdd),
            "label_remove" => parse(args).map(Self::LabelRemove),
            "comment_add" => parse(args).map(Self::CommentAdd),
            "import" => parse(args).and_then(|args: ImportArgs| {
                check_number("records", args.records.len(), MAX_RECORDS)?;
                Ok(Self::Import(args))
            }),
            "batch" => parse_borrowed::<BatchArgs<'_>>(args).and_then(|args| {
                check_number("operations", args.operations.len(), MAX_OPERATIONS)?;
                Ok(Self::Batch(args.into()))
            }),
            _ => {
                let problem = format!(
                    "no operation is called {name:?}: the operations are {}",
                    [&READS[..], &WRITES].concat().join(", ")
                );
                return Err((Code::UnknownOperation, problem));
            }
        };
        parsed.map_err(|problem| (Code::Validation, format!("{name}: {problem}")))
    }
}

fn check_number(field: &str, number: usize, most: usize) -> Result<(), String> {
    if number > most {
        Err(format!(
            "{field}: {number} are too many, because other writers wait for them: send at most {most} in a request"
        ))
    } else {
        Ok(())
    }
}

impl From<BatchArgs<'_>> for Batch {
    fn from(args: BatchArgs<'_>) -> Self {
        let operations = args.operations.into_iter().map(|item| {
            let args = item.args.map_or("null", RawValue::get);
            match (
                item.operation.as_str(),
                Operation::parse(&item.operation, args)?,
            ) {
                ("batch" | "import", _) | (_, Operation::Service(_)) => Err(()),
                (_, Operation::Read(Read::Show(id))) => Ok(BatchOperation::Show(id)),
                (_, Operation::Read(_)) => Err(()),
                (_, Operation::Write(write)) => Ok(BatchOperation::Write(write)),
            }
            .map_err(|()| {
                let problem = format!(
                    "{} cannot be part of a batch: send it as a request of its own",
                    item.operation
                );
                (Code::Validation, problem)
            })
        });
        Self {
            operations: operations.collect(),
            mode: args.mode,
            is_compatible: false,
        }
    }
}

/// The names of the operations that change nothing, except for `ready` if it claims.
const READS: [&str; 16] = [
    "ping",
    "status",
    "health",
    "metrics",
    "list",
    "count",
    "show",
    "ready",
    "blocked",
    "stale",
    "stats",
    "dep_tree",
    "comment_list",
    "resolve_id",
    "export",
    "get_mutations",
];

/// The names of the other operations.
const WRITES: [&str; 14] = [
    "create",
    "update",
    "claim",
    "close",
    "reopen",
    "delete",
    "dep_add",
    "dep_remove",
    "label_add",
    "label_remove",
    "comment_add",
    "batch",
    "import",
    "shutdown",
];

/// Returns true if an operation changes nothing, whatever its arguments are except `claim`.
pub(crate) fn is_read(name: &str) -> bool {
    READS.contains(&name)
}

fn parse<T: DeserializeOwned>(args: &str) -> Result<T, String> {
    parse_borrowed(args)
}

/// Parses arguments. Only after a failure they are parsed again in the slower way that knows the field.
fn parse_borrowed<'a, T: Deserialize<'a>>(args: &'a str) -> Result<T, String> {
    let args = if args == "null" { "{}" } else { args };
    let parsed = serde_json::from_str::<Object<T>>(args);
    parsed.map(|Object(args)| args).map_err(|_| {
        let mut deserializer = serde_json::Deserializer::from_str(args);
        match serde_path_to_error::deserialize::<_, Object<T>>(&mut deserializer) {
            Err(error) => describe(&error),
            Ok(_) => "something follows the arguments".to_owned(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_an_operation() {
        for name in READS.iter().chain(&WRITES) {
            match Operation::parse(name, "null") {
                Ok(_) | Err((Code::Validation, _)) => {}
                Err(other) => panic!("{name}: {other:?}"),
            }
        }
    }

    #[test]
    fn wrong_arguments_are_refused_with_the_operation_and_the_field() {
        let table = r#"
            create {"title":1} => create: title: invalid type
            create {"titel":"a"} => unknown field `titel`
            create {"title":"a","priority":"high"} => priority
            create {"title":"a","issue_type":"story"} => expected one of `bug`
            update {"id":"a","stattus":"open"} => unknown field `stattus`
            update {"title":"a"} => missing field `id`
            show null => missing field `id`
            show [] => show: invalid type
            show ["a"] => sequence, expected an object
            claim ["a",null] => sequence, expected an object
            batch {"operations":[["show",{"id":"a"}]]} => operations[0]: invalid type: sequence, expected an object
            create {"title":"a","dependencies":[["b","blocks"]]} => dependencies[0]: a dependency is an id, or an object
            import {"records":[["a"]]} => records[0]: invalid type: sequence
            ping {"a":1} => unknown field
            list {"limit":-1} => limit
            batch {"operations":[{"operation":"create"}],"mode":"all"} => mode
        "#;
        for (call, parts) in test_kit::rows(table) {
            let (name, args) = call.split_once(' ').unwrap();
            let (code, problem) = Operation::parse(name, args).unwrap_err();
            assert_eq!(code, Code::Validation);
            test_kit::assert_contains(&problem, &parts);
        }
    }

    #[test]
    fn a_batch_has_no_batch_in_it() {
        let args = r#"{"operations":[{"operation":"show","args":{"id":"a"}},{"operation":"batch","args":{"operations":[]}},{"operation":"list"},{"operation":"nothing"}]}"#;
        let Ok(Operation::Write(Write::Batch(batch))) = Operation::parse("batch", args) else {
            panic!("a batch");
        };
        assert_eq!(batch.mode, BatchMode::Stop);
        assert_eq!(
            batch.operations[0],
            Ok(BatchOperation::Show("a".to_owned()))
        );
        for (index, expected) in [
            (1, Code::Validation),
            (2, Code::Validation),
            (3, Code::UnknownOperation),
        ] {
            assert_eq!(batch.operations[index].as_ref().unwrap_err().0, expected);
        }
    }
}
