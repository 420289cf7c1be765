//! `http-load import-har`: a plan from the requests that a browser has recorded (HAR 1.2).

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use harness::failure::Failure;
use harness::output;
use load::net::http1::parse_field;
use load::plan::{Group, Invalid, Plan, Timeline};
use serde::Deserialize;
use url::{Position, Url};

use crate::mix::MOST_REQUESTS;
use crate::settings::{PlannedRequest, Settings};

/// Header fields that the driver sets, or that hold secrets or the state of one browser.
const LEFT_OUT: [&str; 11] = [
    "authorization",
    "connection",
    "content-length",
    "cookie",
    "host",
    "if-modified-since",
    "if-none-match",
    "keep-alive",
    "proxy-authorization",
    "transfer-encoding",
    "upgrade",
];
/// Maximum length of a name that is made from a path.
const LONGEST_NAME: usize = 40;

/// Options of the `import-har` subcommand.
#[derive(Debug, Args)]
pub struct HarOptions {
    /// The recording: in the network view of a browser, "Save all as HAR"
    file: PathBuf,
}

/// A recording.
#[derive(Debug, Deserialize)]
struct Recording {
    log: Log,
}

#[derive(Debug, Deserialize)]
struct Log {
    entries: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    request: Request,
    #[serde(default)]
    response: Response,
    /// Chrome's: the request was answered from the browser's cache, `disk` or `memory`.
    #[serde(rename = "_fromCache")]
    from_cache: Option<String>,
    /// Safari's: `Network Load`, `Disk Cache` or `Memory Cache`.
    #[serde(rename = "_fetchType")]
    fetch_type: Option<String>,
}

impl Entry {
    fn is_cached(&self) -> bool {
        let fetch_type = self.fetch_type.as_deref();
        self.from_cache.is_some() || fetch_type.is_some_and(|text| text.ends_with("Cache"))
    }

    /// Returns the status of the answer; 0 if there was none. Programs write 0, -1, null, or none, and some write fractions.
    fn status(&self) -> u16 {
        self.response.status.unwrap_or_default() as u16
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<Field>,
    post_data: Option<PostData>,
}

#[derive(Debug, Deserialize)]
struct Field {
    name: String,
    #[serde(default)]
    value: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PostData {
    #[serde(default)]
    mime_type: String,
    text: Option<String>,
    /// `base64` for bytes that are no text.
    encoding: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Response {
    status: Option<f64>,
}

impl PostData {
    /// Returns true if a body was sent that a plan can't have as text, or that was not recorded.
    fn is_left_out(&self) -> bool {
        let is_sent = self
            .text
            .as_ref()
            .map_or(!self.mime_type.is_empty(), |text| !text.is_empty());
        is_sent && self.body().is_none()
    }

    /// Returns the body. In JSON and forms, braces that would be a placeholder of a plan are written so that they are none,
    /// and mean the same; in another text they can't be.
    fn body(&self) -> Option<String> {
        let text = self.text.as_ref().filter(|_| self.encoding.is_none())?;
        if self.mime_type.contains("json") {
            Some(without_placeholders(text, "\\u007b"))
        } else if self.mime_type.contains("x-www-form-urlencoded") {
            Some(without_placeholders(text, "%7B"))
        } else {
            Some(text.clone()).filter(|text| *text == without_placeholders(text, ""))
        }
    }
}

/// Writes braces that would be a placeholder of a plan as `brace`.
fn without_placeholders(text: &str, brace: &str) -> String {
    text.replace("{{", &brace.repeat(2))
        .replace("{id}", &format!("{brace}id}}"))
        .replace("{id:", &format!("{brace}id:"))
}

/// Prints the plan of a recording.
///
/// # Errors
/// The file is not a recording, or has no request to a server of HTTP.
pub(crate) fn import(options: &HarOptions) -> Result<bool, Failure> {
    let path = options.file.display().to_string();
    let wrong = |problem: String| Invalid::new(path.clone(), problem);
    let text = std::fs::read(&options.file)
        .map_err(|error| wrong(format!("{error}: name a file that can be read")))?;
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
    let recording: Recording = serde_json::from_slice(text).map_err(|error| {
        wrong(format!(
            "is not a HAR file ({error}): save it from the network view of a browser"
        ))
    })?;
    let (plan, left_out) = plan(recording).map_err(wrong)?;
    output::print(&format!("{}\n", plan.to_toml()?.trim_end()))
        .map_err(|error| Failure::Run(error.into()))?;
    if let Some(note) = left_out {
        output::note(&note);
    }
    Ok(true)
}

/// Builds the plan of one origin: the one with most requests. Returns a sentence about what is left out, too.
fn plan(recording: Recording) -> Result<(Plan<Settings>, Option<String>), String> {
    let mut cached = 0;
    let of_http = |entry: Entry| {
        let url = Url::parse(&entry.request.url).ok()?;
        // 101 turns the connection into a WebSocket.
        let is_answered = entry.status() >= 200;
        let is_cached = entry.is_cached();
        cached += u64::from(is_cached);
        let is_http = matches!(url.scheme(), "http" | "https") && is_answered && !is_cached;
        is_http.then(|| (url.origin().ascii_serialization(), url, entry))
    };
    let entries: Vec<_> = recording
        .log
        .entries
        .into_iter()
        .filter_map(of_http)
        .collect();
    let count = |origin: &str| entries.iter().filter(|(other, ..)| other == origin).count();
    let origins = entries.iter().map(|(origin, ..)| origin);
    let origin = origins.max_by_key(|origin| count(origin));
    let origin = origin
        .cloned()
        .ok_or("has no answered request over http:// or https://: record one")?;
    let (own, all) = (count(&origin), entries.len());
    let mut requests: Vec<PlannedRequest> = Vec::new();
    let (mut unnamed, mut bodiless) = (0, 0);
    for (_, url, entry) in entries.into_iter().filter(|(other, ..)| *other == origin) {
        let data = entry.request.post_data.as_ref();
        bodiless += u64::from(data.is_some_and(PostData::is_left_out));
        let request = planned(&url, entry);
        let is_same = |known: &PlannedRequest| {
            let (name, weight) = (known.name.clone(), known.weight);
            let request = request.clone();
            *known
                == PlannedRequest {
                    name,
                    weight,
                    ..request
                }
        };
        match requests.iter().position(is_same) {
            Some(known) => requests[known].weight += 1,
            None if requests.len() == MOST_REQUESTS => unnamed += 1,
            None => requests.push(with_own_name(request, &requests)),
        }
    }
    let driver = Settings {
        cookies: true,
        requests,
        ..Settings::default()
    };
    let timeline = Timeline::new(Duration::from_secs(60), Duration::from_secs(31));
    let mut plan = Plan::new(
        "recording",
        timeline,
        vec![Group::new("people", 10)],
        driver,
    );
    plan.targets = vec![origin.clone()];
    let mut notes = Vec::new();
    if all > own {
        notes.push(format!(
            "{} requests to other servers than {origin}",
            all - own
        ));
    }
    if cached > 0 {
        notes.push(format!(
            "{cached} requests that the browser's cache answered"
        ));
    }
    if bodiless > 0 {
        notes.push(format!(
            "the bodies of {bodiless} requests, which are not text, have a placeholder of plans, or were not recorded: give each its body_file"
        ));
    }
    if unnamed > 0 {
        notes.push(format!(
            "{unnamed} requests beyond the first {MOST_REQUESTS}"
        ));
    }
    let left_out = (!notes.is_empty()).then(|| format!("left out: {}", notes.join(", and ")));
    Ok((plan, left_out))
}

/// Returns the request of an entry. Its response may have any content: recordings of pages rarely repeat byte for byte.
fn planned(url: &Url, entry: Entry) -> PlannedRequest {
    let status = entry.status();
    let request = entry.request;
    let fields = request
        .headers
        .iter()
        .map(|field| (field.name.to_ascii_lowercase(), field));
    let fields =
        fields.filter(|(name, _)| !name.starts_with(':') && !LEFT_OUT.contains(&name.as_str()));
    let lines =
        fields.filter_map(|(_, field)| Some(format!("{}: {}", field.name, field.value.as_ref()?)));
    let headers = lines
        .filter(|line| parse_field(line, |_| None).is_ok())
        .collect();
    PlannedRequest {
        name: name_of(url),
        weight: 1,
        group: None,
        path: Some(without_placeholders(
            &url[Position::BeforePath..Position::AfterQuery],
            "%7B",
        )),
        headers,
        body: request
            .post_data
            .and_then(|data| data.body())
            .filter(|text| !text.is_empty()),
        body_file: None,
        expect_status: if status < 400 {
            Vec::new()
        } else {
            vec![status]
        },
        expect_length: None,
        expect_body: None,
        any_content: true,
        capture: Vec::new(),
        after: None,
        method: Some(request.method).filter(|method| method != "GET"),
    }
}

/// Makes a name from the last parts of a path.
fn name_of(url: &Url) -> String {
    let letters = url.path().chars().map(|letter| {
        if letter.is_ascii_alphanumeric() {
            letter
        } else {
            '-'
        }
    });
    let name: String = letters.collect();
    let name = name.trim_matches('-');
    let name = &name[name.len().saturating_sub(LONGEST_NAME)..];
    match name.trim_matches('-') {
        "" => "root".to_owned(),
        name => name.to_owned(),
    }
}

/// Adds a number to a name that another request has.
fn with_own_name(request: PlannedRequest, others: &[PlannedRequest]) -> PlannedRequest {
    let is_free = |name: &String| !others.iter().any(|other| other.name == *name);
    let numbered = (2..).map(|number| format!("{}-{number}", request.name));
    let mut names = std::iter::once(request.name.clone()).chain(numbered);
    let name = names.find(is_free).expect("one of all numbers is free");
    PlannedRequest { name, ..request }
}
