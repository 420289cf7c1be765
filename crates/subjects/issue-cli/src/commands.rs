//! The commands: the requests of each, and the presentation of their answers.

use std::io::{self, Read as _, Write};
use std::path::Path;

use clap::CommandFactory as _;
use issue_store::{IssuePage, Options, Status, Store, Timestamp};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::arguments::{Cli, Command, Comment, Daemon, Dep, Global, Label};
use crate::failure::Failure;
use crate::session::{Session, parse};
use crate::{daemon, database, present, requests, transfer};

/// The microseconds of a day.
const DAY_US: i64 = 86_400_000_000;

/// Performs a command, and prints its answer.
pub(crate) fn run(cli: Cli, out: &mut dyn Write) -> Result<(), Failure> {
    let Cli { global, command } = cli;
    match command {
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "issue", &mut text);
            Ok(out.write_all(&text)?)
        }
        Command::Init => init(&global, out),
        Command::Requests => {
            let database = database::find(global.db.as_deref())?;
            requests::perform(&database, global.prefix, out)
        }
        command => {
            let database = database::find(global.db.as_deref())?;
            if let Command::Daemon(Daemon::Start) = command {
                return start(&database, &global, out);
            }
            if global.auto_start && !daemon::runs(&database) {
                start_or_note(&database, &global);
            }
            let session = Session::new(&database, &global);
            let mut requests = Requests {
                session,
                is_json: global.json,
                out,
            };
            requests.perform(command)
        }
    }
}

fn init(global: &Global, out: &mut dyn Write) -> Result<(), Failure> {
    let database = database::prepare(global.db.as_deref())?;
    let options = Options {
        prefix: global.prefix.clone(),
        ..Options::default()
    };
    Store::open(&database, options)
        .map_err(|error| Failure::Refused(error.code().into(), error.to_string()))?;
    if global.json {
        writeln!(out, "{}", json!({ "database": database }))?
    } else {
        writeln!(out, "created {}", database.display())?
    }
    Ok(())
}

fn start(database: &Path, global: &Global, out: &mut dyn Write) -> Result<(), Failure> {
    let text = if daemon::runs(database) {
        "a daemon runs already"
    } else {
        daemon::start(database, global.prefix.as_deref())?;
        "started a daemon"
    };
    if global.json {
        writeln!(out, "{}", json!({ "database": database }))?
    } else {
        writeln!(out, "{text} for {}", database.display())?
    }
    Ok(())
}

/// Starts a daemon. Without one, the command is performed directly.
fn start_or_note(database: &Path, global: &Global) {
    if let Err(failure) = daemon::start(database, global.prefix.as_deref())
        && let Some(line) = failure.line(false)
    {
        present::note(&line);
    }
}

/// The requests of a command.
pub(crate) struct Requests<'a> {
    pub(crate) session: Session,
    pub(crate) is_json: bool,
    pub(crate) out: &'a mut dyn Write,
}

type Present = fn(&mut dyn Write, &RawValue) -> Result<(), Failure>;

impl Requests<'_> {
    fn perform(&mut self, command: Command) -> Result<(), Failure> {
        match command {
            Command::Create(mut args) => {
                args.texts.description = text_of(args.texts.description)?;
                let mut sent = to_json(&args);
                let dependencies = args.depends_on.iter().map(|id| self.dependency(id));
                sent["dependencies"] = dependencies.collect();
                self.one("create", sent, present::id)
            }
            Command::Update(mut args) => {
                args.texts.description = text_of(args.texts.description)?;
                self.one("update", to_json(&args), present::line)
            }
            Command::Show(args) => self.each("show", &args.ids, &json!({}), present::issue),
            Command::List(args) => {
                let mut sent = to_json(&args);
                if !args.has_closed() {
                    sent["exclude_status"] = Status::Closed.name().into();
                }
                self.pages("list", sent, present::lines)
            }
            Command::Count(args) => self.one("count", to_json(&args), present::count),
            Command::Ready(args) => self.pages("ready", to_json(&args), present::lines),
            Command::Claim(args) => {
                let assignee = json!({ "assignee": args.assignee });
                self.each("claim", &args.ids.ids, &assignee, present::line)
            }
            Command::Blocked => self.pages("blocked", json!({}), present::blocked),
            Command::Stale(args) => {
                let since = Timestamp(Timestamp::now().0 - i64::from(args.days) * DAY_US);
                let args = json!({"since": since, "limit": args.limit});
                self.pages("stale", args, present::lines)
            }
            Command::Stats => self.one("stats", json!({}), present::fields),
            Command::Close(args) => {
                let reason = json!({ "reason": args.reason });
                self.each("close", &args.ids.ids, &reason, present::line)
            }
            Command::Reopen(args) => self.each("reopen", &args.ids, &json!({}), present::line),
            Command::Delete(args) => {
                let force = json!({ "force": args.force });
                self.each("delete", &args.ids.ids, &force, present::deleted)
            }
            Command::Dep(Dep::Add(args)) => self.one("dep_add", to_json(&args), present::added),
            Command::Dep(Dep::Remove(args)) => {
                self.one("dep_remove", to_json(&args), present::removed)
            }
            Command::Dep(Dep::Tree(args)) => self.one("dep_tree", to_json(&args), present::tree),
            Command::Label(Label::Add(args)) => {
                self.one("label_add", to_json(&args), present::line)
            }
            Command::Label(Label::Remove(args)) => {
                self.one("label_remove", to_json(&args), present::line)
            }
            Command::Comment(Comment::Add(mut args)) => {
                args.text = text_of(Some(args.text))?.unwrap_or_default();
                self.one("comment_add", to_json(&args), present::comment)
            }
            Command::Comment(Comment::List(args)) => {
                self.one("comment_list", to_json(&args), present::comments)
            }
            Command::Resolve(args) => self.one("resolve_id", to_json(&args), present::id),
            Command::Batch(args) => transfer::batch(self, &args),
            Command::Export(args) => transfer::export(self, &args),
            Command::Import(args) => transfer::import(self, &args),
            Command::Events(args) => self.one("get_mutations", to_json(&args), present::events),
            Command::Daemon(Daemon::Status) => self.one("status", json!({}), present::fields),
            Command::Daemon(Daemon::Health) => self.one("health", json!({}), present::fields),
            Command::Daemon(Daemon::Metrics) => self.one("metrics", json!({}), present::page),
            Command::Daemon(Daemon::Stop) => self.one("shutdown", json!({}), present::stopped),
            Command::Call(args) => {
                let sent = serde_json::from_str::<Value>(&args.args)
                    .ok()
                    .filter(Value::is_object);
                let sent = sent.ok_or_else(|| {
                    let args = &args.args;
                    Failure::Usage(format!(
                        "{args:?} is not a JSON object; example: {{\"id\":\"issue-a1b\"}}"
                    ))
                })?;
                self.is_json = true;
                self.one(&args.operation, sent, present::fields)
            }
            Command::Init
            | Command::Requests
            | Command::Completions { .. }
            | Command::Daemon(Daemon::Start) => Ok(()),
        }
    }

    fn one(&mut self, operation: &str, args: Value, present: Present) -> Result<(), Failure> {
        let data = self.session.call(operation, args)?;
        self.print(&data, present)
    }

    /// Performs an operation that lists issues, page by page until its limit.
    fn pages(&mut self, operation: &str, mut args: Value, present: Present) -> Result<(), Failure> {
        let limit = args["limit"].as_u64();
        let mut number = 0;
        let mut all = Vec::new();
        loop {
            let data = self.session.call(operation, args.clone())?;
            let IssuePage { issues, next } = parse::<IssuePage<Box<RawValue>>>(&data)?;
            number += issues.len() as u64;
            if self.is_json {
                all.extend(issues)
            } else {
                present(self.out, &data)?
            }
            match &next {
                Some(next) if limit.is_none_or(|limit| number < limit) => {
                    args["after"] = next.as_str().into();
                }
                _ if self.is_json => {
                    let all = IssuePage { issues: all, next };
                    return Ok(writeln!(self.out, "{}", to_json(&all))?);
                }
                _ => return Ok(()),
            }
            if let Some(limit) = limit {
                args["limit"] = (limit - number).into();
            }
        }
    }

    /// Performs an operation on each of several issues, and stops at the first failure.
    fn each(
        &mut self,
        operation: &str,
        ids: &[String],
        args: &Value,
        present: Present,
    ) -> Result<(), Failure> {
        for (index, id) in ids.iter().enumerate() {
            let mut args = args.clone();
            args["id"] = id.as_str().into();
            self.one(operation, args, present)
                .map_err(|failure| match ids.len() {
                    1 => failure,
                    all => failure.after(&format!("{index} of {all} issues were done before it")),
                })?;
        }
        Ok(())
    }

    pub(crate) fn print(&mut self, data: &RawValue, present: Present) -> Result<(), Failure> {
        if self.is_json {
            Ok(writeln!(self.out, "{data}")?)
        } else {
            present(self.out, data)
        }
    }

    /// Returns a blocking dependency on an issue whose id may be shortened. One that does not exist is left to the store
    /// to refuse.
    fn dependency(&mut self, id: &str) -> Value {
        let id = self.session.resolve(id).unwrap_or_else(|| id.to_owned());
        json!({"depends_on": id, "kind": "blocks"})
    }
}

/// Returns a text, which `-` reads from standard input.
fn text_of(text: Option<String>) -> Result<Option<String>, Failure> {
    match text.as_deref() {
        Some("-") => {
            let mut read = String::new();
            io::stdin().read_to_string(&mut read).map_err(|error| {
                Failure::Usage(format!("standard input cannot be read: {error}"))
            })?;
            Ok(Some(read.trim_end_matches('\n').to_owned()))
        }
        _ => Ok(text),
    }
}

/// Returns arguments as JSON, without those that were not given: the texts of a new issue must not be null.
fn to_json<T: Serialize>(args: &T) -> Value {
    let mut json = serde_json::to_value(args).expect("arguments have names for keys");
    if let Value::Object(members) = &mut json {
        members.retain(|_, value| !value.is_null());
    }
    json
}
