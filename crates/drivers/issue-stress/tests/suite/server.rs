//! A server of the protocol that tells the truth, or one kind of lie.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use issue_rpc::{Direct, Request};
use issue_store::Options;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The lie of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    /// An issue that was acknowledged is in another database.
    Lost,
    /// An issue is stored although its creation is refused.
    Phantom,
    /// A create is performed twice.
    Twice,
    /// An issue has the id of the one before.
    SameId,
    /// An atomic batch that fails leaves its first issue behind.
    PartialBatch,
    /// The count of all issues is one too high.
    Count,
    /// An answer has the number of another request.
    Foreign,
    /// An answer is no JSON.
    Garbage,
    /// No answer arrives.
    Silence,
    /// The connection ends before the answer.
    Close,
    /// An answer arrives twice.
    Doubled,
    /// An issue is shown as it was first.
    Stale,
    /// Nothing is ready.
    NothingReady,
    /// A batch that must fail succeeds.
    Success,
    /// A request whose deadline has passed is performed.
    Late,
    /// An issue is stored with another title than it is answered with.
    Title,
    /// The same of its description.
    Description,
    /// An issue is stored without its labels.
    Label,
    /// Lists name an issue that does not exist.
    ForeignInList,
    /// Lists leave out their second issue.
    MissingInList,
    /// Every claim succeeds, whoever has the issue.
    Claimed,
}

/// A server. Its database is removed with it.
pub(crate) struct Server {
    folder: TempDir,
}

struct State {
    truth: Direct,
    elsewhere: Direct,
    lie: Option<Lie>,
    /// Requests of the kind that the lie concerns.
    asked: u32,
    last_id: Value,
    first_shown: Value,
}

impl Server {
    pub(crate) fn start(lie: Option<Lie>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let open =
            |name: &str| Direct::open(&folder.path().join(name), Options::default()).unwrap();
        let state = State {
            truth: open("issues.db"),
            elsewhere: open("elsewhere.db"),
            lie,
            asked: 0,
            last_id: Value::Null,
            first_shown: Value::Null,
        };
        let state = Arc::new(Mutex::new(state));
        let server = Self { folder };
        let listener = UnixListener::bind(server.socket()).unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let state = Arc::clone(&state);
                thread::spawn(move || serve(&stream.unwrap(), &state));
            }
        });
        server
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("daemon.sock")
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.folder.path().join("issues.db")
    }
}

/// Answers the requests of a connection until its client leaves.
fn serve(stream: &UnixStream, state: &Mutex<State>) {
    let mut writer = stream;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    // A client may leave in the middle of a line.
    while reader.read_line(&mut line).is_ok() && line.ends_with('\n') {
        let answer = state.lock().unwrap().answer(&line);
        let Some(answer) = answer else {
            let _ = stream.shutdown(std::net::Shutdown::Both);
            return;
        };
        if writer.write_all(answer.as_bytes()).is_err() {
            return;
        }
        line.clear();
    }
}

fn perform(direct: &mut Direct, request: &Value) -> Value {
    let request = Request::parse(request.to_string().as_bytes());
    let line = match request {
        Ok(request) => {
            let id = request.header.request_id.clone();
            direct.call(request).line(id.as_ref())
        }
        Err(rejection) => rejection.answer.line(rejection.request_id.as_ref()),
    };
    serde_json::from_str(&line).unwrap()
}

impl State {
    /// Returns the text of an answer; none closes the connection.
    fn answer(&mut self, line: &str) -> Option<String> {
        let mut request: Value = serde_json::from_str(line).unwrap();
        let operation = request["operation"].as_str().unwrap().to_owned();
        let is_of_load = request["actor"]
            .as_str()
            .is_some_and(|actor| actor.starts_with("agent-"));
        let concerned = match self.lie {
            None => false,
            Some(Lie::Count) => operation == "stats",
            Some(Lie::Stale) => operation == "show" && is_of_load,
            Some(Lie::ForeignInList | Lie::MissingInList) => operation == "list" && is_of_load,
            Some(Lie::NothingReady) => operation == "ready" && is_of_load,
            Some(Lie::PartialBatch | Lie::Success) => operation == "batch" && is_of_load,
            Some(Lie::Late) => is_late(&request),
            Some(Lie::Claimed) => operation == "claim",
            Some(_) => operation == "create" && is_of_load,
        };
        self.asked += u32::from(concerned);
        // Once, in the middle of the load. Reads are wrong from then on.
        let is_read = ["show", "ready", "list", "stats"].contains(&operation.as_str());
        let lies = concerned
            && if is_read {
                operation == "stats" || self.asked >= 20
            } else {
                self.asked == 10
                    || matches!(
                        self.lie,
                        Some(Lie::PartialBatch | Lie::Success | Lie::Late | Lie::Claimed)
                    )
            };
        let Some(lie) = self.lie.filter(|_| lies) else {
            let answer = perform(&mut self.truth, &request);
            if operation == "create" {
                self.last_id = answer["data"]["id"].clone();
            }
            // One that is changed later.
            let title = answer["data"]["title"].as_str().unwrap_or_default();
            let is_shared = title.starts_with("shared issue");
            if operation == "show" && is_shared && self.first_shown.is_null() {
                self.first_shown = answer["data"].clone();
            }
            return Some(format!("{answer}\n"));
        };
        let number = request["request_id"].clone();
        let answer = match lie {
            Lie::Lost => perform(&mut self.elsewhere, &request),
            Lie::Phantom => {
                perform(&mut self.truth, &request);
                json!({"success": false, "request_id": number, "code": "busy", "error": "too many"})
            }
            Lie::Twice => {
                perform(&mut self.truth, &request);
                perform(&mut self.truth, &request)
            }
            Lie::SameId => {
                let mut answer = perform(&mut self.truth, &request);
                answer["data"]["id"] = self.last_id.clone();
                answer
            }
            Lie::PartialBatch => {
                let operations = request["args"]["operations"].as_array().unwrap();
                let mut first = operations[0].clone();
                let answer = perform(&mut self.truth, &request);
                if answer["success"] == false && request["args"]["mode"] == "atomic" {
                    first["request_id"] = 1.into();
                    perform(&mut self.truth, &first);
                }
                answer
            }
            Lie::Success => {
                let mut answer = perform(&mut self.truth, &request);
                answer["success"] = true.into();
                answer
            }
            Lie::Late => {
                request.as_object_mut().unwrap().remove("deadline_ms");
                perform(&mut self.truth, &request)
            }
            Lie::Claimed => {
                request["operation"] = "show".into();
                let mut answer = perform(&mut self.truth, &request);
                answer["data"]["status"] = "in_progress".into();
                answer["data"]["assignee"] = request["actor"].clone();
                answer
            }
            Lie::Count => {
                let mut answer = perform(&mut self.truth, &request);
                answer["data"]["total"] = (answer["data"]["total"].as_u64().unwrap() + 1).into();
                answer
            }
            Lie::Foreign => {
                let mut answer = perform(&mut self.truth, &request);
                answer["request_id"] = 999_999.into();
                answer
            }
            Lie::Stale => {
                let mut answer = perform(&mut self.truth, &request);
                if self.first_shown["id"] == answer["data"]["id"] {
                    answer["data"] = self.first_shown.clone();
                }
                answer
            }
            Lie::NothingReady => {
                let mut answer = perform(&mut self.truth, &request);
                answer["data"]["issues"] = json!([]);
                answer
            }
            Lie::Title => self.store_another(&request, "title", "Another".into()),
            Lie::Description => self.store_another(&request, "description", "Another".into()),
            Lie::Label => self.store_another(&request, "labels", json!([])),
            Lie::ForeignInList => {
                let mut answer = perform(&mut self.truth, &request);
                answer["data"]["issues"][0]["id"] = "issue-zzzz".into();
                answer
            }
            Lie::MissingInList => {
                let mut answer = perform(&mut self.truth, &request);
                answer["data"]["issues"].as_array_mut().unwrap().remove(1);
                answer
            }
            Lie::Garbage => return Some("no JSON\n".to_owned()),
            Lie::Silence => return Some(String::new()),
            Lie::Close => return None,
            Lie::Doubled => {
                let answer = perform(&mut self.truth, &request);
                return Some(format!("{answer}\n{answer}\n"));
            }
        };
        Some(format!("{answer}\n"))
    }
}

impl State {
    /// Performs a create with another value in one field, and answers as if it had the right one.
    fn store_another(&mut self, request: &Value, field: &str, value: Value) -> Value {
        let mut other = request.clone();
        other["args"][field] = value;
        let mut answer = perform(&mut self.truth, &other);
        let data = answer["data"].as_object_mut().unwrap();
        match request["args"].get(field) {
            Some(value) => data.insert(field.to_owned(), value.clone()),
            None => data.remove(field),
        };
        answer
    }
}

fn is_late(request: &Value) -> bool {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    request["operation"] == "create"
        && request["deadline_ms"]
            .as_u64()
            .is_some_and(|at| u128::from(at) < now.as_millis())
}

/// Returns a call of the driver on a socket.
pub(crate) fn call(socket: &Path, arguments: &str) -> harness_testing::program::Program {
    harness_testing::program::Program::new(env!("CARGO_BIN_EXE_issue-stress"))
        .args(["--socket", socket.to_str().unwrap()])
        .call(arguments)
}
