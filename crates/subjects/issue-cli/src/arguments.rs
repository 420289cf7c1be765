//! The arguments of the commands. Arguments of a request are named as in the protocol, so that they are sent as they
//! are.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use issue_store::{DependencyKind, IssueType, Status};
use serde::Serialize;

const DETAILS: &str = "The database is named by --db or ISSUE_DB, or else is .issues/issues.db in this folder or the nearest one above it.
While a daemon serves it, requests go to the daemon; otherwise they are performed on the database itself.
An id may be shortened as long as it is the only one that begins so, with or without what stands before its hyphen;
the completed id is named on standard error.

Exit codes: 0 done, 1 refused, 2 wrong usage or values, 3 not answered (timeout, busy, connection lost).";

/// Create, change and read issues
#[derive(Debug, Parser)]
#[command(name = "issue", version, max_term_width = 100, after_help = DETAILS, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Options of all commands")]
pub(crate) struct Global {
    /// Use this database
    #[arg(long, global = true, value_name = "PATH", env = "ISSUE_DB")]
    pub(crate) db: Option<PathBuf>,
    /// Use this name as the author of changes
    #[arg(long, global = true, value_name = "NAME", env = "ISSUE_ACTOR", default_value_t = user())]
    pub(crate) actor: String,
    /// Wait this many seconds for an answer; 0 waits forever
    #[arg(long, global = true, value_name = "SECONDS", env = "ISSUE_TIMEOUT", default_value = "30", value_parser = timeout)]
    pub(crate) timeout: Timeout,
    /// Use the database itself, even while a daemon serves it
    #[arg(long, global = true, conflicts_with = "auto_start")]
    pub(crate) direct: bool,
    /// Start a daemon if none runs
    #[arg(long, global = true, env = "ISSUE_AUTO_START", value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) auto_start: bool,
    /// Print the answer as JSON, one object per line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Begin new ids with this, unless a daemon runs; `init` stores it in the database [default: what is stored there,
    /// or issue]
    #[arg(long, global = true, value_name = "TEXT", env = "ISSUE_PREFIX")]
    pub(crate) prefix: Option<String>,
    /// Print the route of each request, and the reason
    #[arg(long, short, global = true)]
    pub(crate) verbose: bool,
}

/// The time for a request; `None` has no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timeout(pub(crate) Option<Duration>);

fn timeout(text: &str) -> Result<Timeout, String> {
    let problem =
        || format!("{text:?} is not a number of seconds between 0 and 86400, such as 2.5");
    let seconds: f64 = text.parse().map_err(|_| problem())?;
    if !(0.0..=86_400.0).contains(&seconds) {
        return Err(problem());
    }
    Ok(Timeout(
        (seconds > 0.0).then(|| Duration::from_secs_f64(seconds)),
    ))
}

fn user() -> String {
    let user = std::env::var("USER").unwrap_or_default();
    if user.is_empty() {
        "unknown".to_owned()
    } else {
        user
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a database
    Init,
    /// Create an issue
    Create(Create),
    /// Change an issue
    Update(Update),
    /// Take issues to work on them, unless others have
    Claim(Claim),
    /// Show issues
    Show(Ids),
    /// List issues that are not closed: urgent ones first, then new ones
    List(List),
    /// Count issues
    Count(Filter),
    /// List open issues that can be worked on: urgent ones first, then old ones
    Ready(Ready),
    /// List issues that wait for others
    Blocked,
    /// List unfinished issues that have not changed for long
    Stale(Stale),
    /// Count issues by status
    Stats,
    /// Close issues
    Close(Close),
    /// Open closed issues again
    Reopen(Ids),
    /// Delete issues with all that belongs to them
    Delete(Delete),
    /// Add, remove and show dependencies
    #[command(subcommand)]
    Dep(Dep),
    /// Add and remove labels
    #[command(subcommand)]
    Label(Label),
    /// Add and list comments
    #[command(subcommand)]
    Comment(Comment),
    /// Print the whole id of a shortened one
    Resolve(Id),
    /// Perform the operations of a file in one transaction
    Batch(Batch),
    /// Write all issues as JSON, one per line
    Export(Export),
    /// Read issues that were exported
    Import(Import),
    /// List changes, the oldest first
    Events(Events),
    /// Start, stop and inspect the daemon
    #[command(subcommand)]
    Daemon(Daemon),
    /// Send a request of the protocol
    Call(Call),
    /// Perform requests of the protocol from standard input on the database itself, one per line
    Requests,
    /// Print the completions of a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Create {
    /// The title
    pub(crate) title: String,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) texts: Texts,
    #[command(flatten)]
    #[serde(flatten)]
    attributes: Attributes,
    /// Add a label; may be given several times
    #[arg(long = "label", short, value_name = "LABEL")]
    labels: Vec<String>,
    /// Let it wait for this issue; may be given several times
    #[arg(long, value_name = "ID")]
    #[serde(skip)]
    pub(crate) depends_on: Vec<String>,
    /// Make it a part of this issue
    #[arg(long, value_name = "ID")]
    parent: Option<String>,
    /// Use this id instead of a short random one
    #[arg(long, value_name = "ID")]
    id: Option<String>,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Texts {
    /// Set the description; - reads standard input
    #[arg(long, short, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Set the design
    #[arg(long, value_name = "TEXT")]
    design: Option<String>,
    /// Set the acceptance criteria
    #[arg(long, value_name = "TEXT")]
    acceptance_criteria: Option<String>,
}

#[derive(Debug, Args, Serialize)]
struct Attributes {
    /// Set the priority: 0 is the most urgent
    #[arg(long, short, value_name = "0-4", value_parser = clap::value_parser!(u8).range(0..=4))]
    priority: Option<u8>,
    /// Set the type
    #[arg(long = "type", short = 't', value_name = "TYPE", value_parser = names(IssueType::ALL, IssueType::name))]
    issue_type: Option<String>,
    /// Name the one who works on it
    #[arg(long, short, value_name = "NAME")]
    assignee: Option<String>,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Update {
    /// The issue
    id: String,
    /// Set the title
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) texts: Texts,
    /// Set the notes
    #[arg(long, value_name = "TEXT")]
    notes: Option<String>,
    /// Set the status
    #[arg(long, short, value_name = "STATUS", value_parser = names(Status::ALL, Status::name))]
    status: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    attributes: Attributes,
    /// Add a label; may be given several times
    #[arg(long = "add-label", value_name = "LABEL")]
    add_labels: Vec<String>,
    /// Remove a label; may be given several times
    #[arg(long = "remove-label", value_name = "LABEL")]
    remove_labels: Vec<String>,
    /// Refuse the change unless the issue has this status
    #[arg(long, value_name = "STATUS", value_parser = names(Status::ALL, Status::name))]
    expected_status: Option<String>,
    /// Refuse the change unless the issue has this assignee; an empty name is nobody
    #[arg(long, value_name = "NAME")]
    expected_assignee: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Claim {
    #[command(flatten)]
    pub(crate) ids: Ids,
    /// Name the one who works on them [default: the author of changes]
    #[arg(long, short, value_name = "NAME")]
    pub(crate) assignee: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Ids {
    /// Name the issues
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Id {
    /// The issue
    pub(crate) id: String,
}

#[derive(Debug, Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    pub(crate) ids: Ids,
    /// Remove them although others depend on them, which lose the dependency
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct List {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) filter: Filter,
    /// Match closed issues too, as --status closed and --closed-after do
    #[arg(long)]
    #[serde(skip)]
    all: bool,
    /// Choose the order: by priority and age, with the last created or changed first, or by title
    #[arg(long, value_name = "ORDER", default_value = "priority", value_parser = ["priority", "created", "updated", "title"])]
    sort: String,
    #[command(flatten)]
    #[serde(flatten)]
    after: After,
}

impl List {
    /// Returns true if closed issues are asked for.
    pub(crate) fn has_closed(&self) -> bool {
        self.all || self.filter.status.is_some() || self.filter.closed_after.is_some()
    }
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Filter {
    /// Match this text in titles and descriptions
    #[arg(value_name = "TEXT")]
    query: Option<String>,
    /// Match this status
    #[arg(long, short, value_name = "STATUS", value_parser = names(Status::ALL, Status::name))]
    status: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    attributes: Attributes,
    /// Match issues with all these labels; may be given several times
    #[arg(long = "label", short, value_name = "LABEL")]
    labels: Vec<String>,
    /// Match issues with one of these labels; may be given several times
    #[arg(long = "any-label", value_name = "LABEL")]
    labels_any: Vec<String>,
    /// Match issues created after this time, such as 2026-01-31T00:00:00Z
    #[arg(long, value_name = "TIME")]
    created_after: Option<String>,
    /// Match issues created before this time
    #[arg(long, value_name = "TIME")]
    created_before: Option<String>,
    /// Match issues changed after this time
    #[arg(long, value_name = "TIME")]
    updated_after: Option<String>,
    /// Match issues closed after this time
    #[arg(long, value_name = "TIME")]
    closed_after: Option<String>,
    /// Limit the issues to this number
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<u32>,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Ready {
    /// Hand the issues to the author of changes (claim them), in one transaction; without --limit, the first one
    #[arg(long)]
    claim: bool,
    /// Match this priority
    #[arg(long, short, value_name = "0-4", value_parser = clap::value_parser!(u8).range(0..=4))]
    priority: Option<u8>,
    /// Match this assignee; an empty name matches issues of nobody
    #[arg(long, short, value_name = "NAME")]
    assignee: Option<String>,
    /// Match issues with all these labels; may be given several times
    #[arg(long = "label", short, value_name = "LABEL")]
    labels: Vec<String>,
    /// Limit the issues to this number
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<u32>,
    #[command(flatten)]
    #[serde(flatten)]
    after: After,
}

#[derive(Debug, Args, Serialize)]
struct After {
    /// Begin after this key: the `next` that --json prints at the end of a list with a limit
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    after: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Stale {
    /// Match issues that have not changed for this many days
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub(crate) days: u32,
    /// Limit the issues to this number
    #[arg(long, short = 'n', value_name = "N")]
    pub(crate) limit: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct Close {
    #[command(flatten)]
    pub(crate) ids: Ids,
    /// Set the reason
    #[arg(
        long,
        short,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) reason: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Dep {
    /// Let an issue depend on another one
    Add(DepAdd),
    /// Remove a dependency
    Remove(DepRemove),
    /// Show what an issue depends on
    Tree(Tree),
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct DepAdd {
    /// The dependent issue
    id: String,
    /// The issue that it depends on
    depends_on: String,
    /// Set the relation
    #[arg(long, short, value_name = "KIND", default_value = "blocks", value_parser = names(DependencyKind::ALL, DependencyKind::name))]
    kind: String,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct DepRemove {
    /// The dependent issue
    id: String,
    /// The issue that it depends on
    depends_on: String,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Tree {
    /// The issue
    id: String,
    /// Limit the levels to this number
    #[arg(long, value_name = "N", default_value_t = 50)]
    max_depth: u32,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Label {
    /// Add a label
    Add(LabelArgs),
    /// Remove a label
    Remove(LabelArgs),
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct LabelArgs {
    /// The issue
    id: String,
    /// The label
    label: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Comment {
    /// Add a comment
    Add(CommentAdd),
    /// List the comments on an issue
    List(Id),
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct CommentAdd {
    /// The issue
    id: String,
    /// The comment; - reads standard input
    pub(crate) text: String,
}

#[derive(Debug, Args)]
pub(crate) struct Batch {
    /// A file with an operation per line, such as {"operation":"create","args":{"title":"a"}}, or with an array of
    /// them;
    /// - reads standard input
    pub(crate) file: PathBuf,
    /// Choose what follows a failure: stop and keep what was done, keep nothing (atomic), or continue with the next
    /// operation
    #[arg(long, value_name = "MODE", default_value = "stop", value_parser = ["stop", "atomic", "continue"])]
    pub(crate) mode: String,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The file, which must not exist; - or none writes to standard output
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The file; - reads standard input
    pub(crate) file: PathBuf,
    /// Choose what happens to an issue that exists: refuse the import, skip the issue, or replace it unless
    /// it has changed after the record
    #[arg(long, value_name = "MODE", default_value = "refuse", value_parser = ["refuse", "skip", "replace"])]
    pub(crate) on_conflict: String,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Events {
    /// Begin after the change with this number
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    after: i64,
    /// Limit the changes to this number, at most 1000
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1_000)]
    limit: u32,
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum Daemon {
    /// Start a daemon, unless one runs
    Start,
    /// Show its process, its database and its counts
    Status,
    /// Ask whether it can read and write
    Health,
    /// Print its metrics in the format of Prometheus
    Metrics,
    /// Stop it, after it has answered what it has accepted
    Stop,
}

#[derive(Debug, Args)]
pub(crate) struct Call {
    /// The operation
    pub(crate) operation: String,
    /// Set its arguments, a JSON object
    #[arg(default_value = "{}", hide_default_value = true)]
    pub(crate) args: String,
}

fn names<T: Copy>(all: &[T], name: impl Fn(T) -> &'static str) -> PossibleValuesParser {
    PossibleValuesParser::new(all.iter().map(|value| name(*value)))
}
