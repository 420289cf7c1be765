//! The protocol of the issue daemon, over a list of issues in memory: what issue-stress sends in the scenarios
//! `concurrent-agents`, `unique-ids`, `list`, `ready` and `ping`. A request is carried out when it is read. All issues are
//! equal in priority, so that the order of creation is the order of every list.

use load::slots::Id;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::connections::Connections;
use crate::server::{Malformed, Protocol, Taken};

/// The beginning of the ids.
const PREFIX: &str = "null-";
/// The largest number of issues in an answer.
const PAGE: usize = 1_000;

/// The text of all failures.
const ERROR: &str = "a null peer does not support this request: see its page";

/// The protocol, with all issues: their JSON.
#[derive(Debug, Default)]
pub(crate) struct Issues {
    issues: Vec<Box<str>>,
}

#[derive(Deserialize)]
struct Request<'a> {
    operation: &'a str,
    #[serde(borrow)]
    request_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    args: Args<'a>,
}

#[derive(Default, Deserialize)]
struct Args<'a> {
    id: Option<&'a str>,
    #[serde(borrow)]
    title: Option<&'a RawValue>,
    #[serde(borrow)]
    description: Option<&'a RawValue>,
    #[serde(borrow)]
    labels: Option<&'a RawValue>,
    #[serde(default)]
    after: usize,
    limit: Option<usize>,
}

impl Protocol for Issues {
    type State = ();
    /// The line of the answer.
    type Request = String;

    fn take(&mut self, (): &mut (), input: &[u8]) -> Result<Option<Taken<String>>, Malformed> {
        let Some(end) = memchr::memchr(b'\n', input) else {
            return Ok(None);
        };
        let request: Request<'_> = serde_json::from_slice(&input[..end]).map_err(|_| Malformed)?;
        // A driver calls these before and after its load.
        let is_held = !matches!(request.operation, "show" | "export" | "stats");
        Ok(Some(Taken {
            is_held,
            ..Taken::held(end + 1, self.perform(&request))
        }))
    }

    fn answer(&mut self, id: Id, line: String, connections: &mut Connections<()>) -> Id {
        connections.append(id, line.as_bytes());
        id
    }
}

impl Issues {
    /// Carries out a request. Returns the line of its answer.
    fn perform(&mut self, request: &Request<'_>) -> String {
        let args = &request.args;
        let limit = args.limit.unwrap_or(PAGE).min(PAGE);
        let data = match request.operation {
            "ping" => Ok(r#"{"version":"0.1.0"}"#.to_owned()),
            "create" => self.create(args).ok_or("validation"),
            "show" => self.show(args).ok_or("not_found"),
            "list" => Ok(page("issues", self.issues.iter().rev().take(limit), None)),
            "ready" => Ok(page("issues", self.issues.iter().take(limit), None)),
            "export" => Ok(self.export(args.after, limit)),
            "count" => Ok(format!(r#"{{"count":{}}}"#, self.issues.len())),
            "stats" => Ok(self.stats()),
            _ => Err("unknown_operation"),
        };
        let id = request.request_id.map_or("null", RawValue::get);
        match data {
            Ok(data) => format!("{{\"request_id\":{id},\"success\":true,\"data\":{data}}}\n"),
            Err(code) => format!(
                "{{\"request_id\":{id},\"success\":false,\"code\":\"{code}\",\"error\":\"{ERROR}\"}}\n"
            ),
        }
    }

    /// Creates an issue. Its number in microseconds is the time of its creation.
    fn create(&mut self, args: &Args<'_>) -> Option<String> {
        let number = self.issues.len();
        let (minute, us) = (number / 60_000_000, number % 60_000_000);
        let time = format!("2000-01-01T00:{minute:02}:{:09.6}Z", us as f64 / 1e6);
        let text =
            |value: Option<&'_ RawValue>, default| value.map_or(default, RawValue::get).to_owned();
        let issue = format!(
            r#"{{"id":"{PREFIX}{number}","title":{},"status":"open","priority":2,"issue_type":"task","created_at":"{time}","updated_at":"{time}","description":{},"labels":{}}}"#,
            args.title?.get(),
            text(args.description, "\"\""),
            text(args.labels, "[]"),
        );
        self.issues.push(issue.as_str().into());
        Some(issue)
    }

    fn show(&self, args: &Args<'_>) -> Option<String> {
        let number: usize = args.id?.strip_prefix(PREFIX)?.parse().ok()?;
        self.issues.get(number).map(ToString::to_string)
    }

    fn export(&self, after: usize, limit: usize) -> String {
        let end = after.saturating_add(limit).min(self.issues.len());
        let records = self.issues.get(after..end).unwrap_or_default();
        page(
            "records",
            records.iter(),
            Some(end).filter(|end| *end < self.issues.len()),
        )
    }

    fn stats(&self) -> String {
        let all = self.issues.len();
        format!(
            r#"{{"total":{all},"open":{all},"in_progress":0,"blocked":0,"closed":0,"ready":{all}}}"#
        )
    }
}

/// Returns a list of issues, with the number of issues before the next page, if there is one.
fn page<'a>(name: &str, issues: impl Iterator<Item = &'a Box<str>>, next: Option<usize>) -> String {
    let issues: Vec<&str> = issues.map(AsRef::as_ref).collect();
    let next = next.map_or(String::new(), |next| format!(",\"next\":{next}"));
    format!("{{\"{name}\":[{}]{next}}}", issues.join(","))
}
