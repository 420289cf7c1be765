//! The requests of a plan that has several: the tables `[[driver.requests]]`, and `[driver.setup]`.

use std::path::PathBuf;

use load::plan::Invalid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Settings;

/// The order in which a plan's requests are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Each operation draws one by weight.
    #[default]
    Weighted,
    /// Each client sends one after the other, each as many times as its weight says, and begins again; operations at a rate
    /// have one turn together.
    Sequential,
}

impl Order {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A request of a plan that has several. A field that is absent is the driver's own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlannedRequest {
    /// Its name: of its series of response times, and of its counter of failures, `failed_NAME`.
    pub name: String,
    /// Its share of the requests, in proportion to the other weights of its group. With 0 it is sent only when a client needs a
    /// value that it captures.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub weight: u32,
    /// The group whose clients send it; all groups if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The request method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The path. `{{name}}` in it is a column of the rows or a captured value, also in header fields and bodies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Header fields in addition to the driver's; one of the same name replaces it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
    /// The request body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The file whose content is the request body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_file: Option<PathBuf>,
    /// The accepted response statuses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expect_status: Vec<u16>,
    /// The length of each response body, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_length: Option<u64>,
    /// The expected response body: a text, or @FILE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_body: Option<String>,
    /// Accepts any response body.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub any_content: bool,
    /// Values to take from the answer for later requests of the same client, such as "json:/token as token",
    /// "header:Location as next" or "regex:id=([0-9]+) as id".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capture: Vec<String>,
    /// The request that a client must have sent before, such as the login that gives it its cookies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

fn one() -> u32 {
    1
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
fn is_one(number: &u32) -> bool {
    *number == 1
}

/// Returns the name of a header field.
fn name_of(field: &str) -> &str {
    field.split(':').next().unwrap_or_default().trim()
}

impl Settings {
    /// Returns the settings of a request before the run: without the fields, bodies and expectations of the others, which
    /// may be made for what it captures.
    pub(crate) fn of_setup(&self) -> Self {
        let default = Self::default();
        Self {
            method: default.method,
            headers: default.headers,
            body: default.body,
            body_files: default.body_files,
            expect_status: default.expect_status,
            expect_length: default.expect_length,
            expect_body: default.expect_body,
            any_content: default.any_content,
            events: default.events,
            ..self.clone()
        }
    }

    /// Returns the settings of a request: its own, and the driver's for those that it leaves out.
    pub(crate) fn of_request(&self, request: &PlannedRequest) -> Self {
        let mut settings = Self {
            requests: Vec::new(),
            setup: None,
            ..self.clone()
        };
        if let Some(method) = &request.method {
            settings.method.clone_from(method);
        }
        settings.path = request.path.clone().or(settings.path);
        let own = |field: &String| {
            let mut names = request.headers.iter().map(|own| name_of(own));
            names.any(|own| own.eq_ignore_ascii_case(name_of(field)))
        };
        settings.headers.retain(|field| !own(field));
        settings.headers.extend(request.headers.iter().cloned());
        if request.body.is_some() || request.body_file.is_some() {
            settings.body = request.body.iter().cloned().collect();
            settings.body_files = request.body_file.iter().cloned().collect();
        }
        if !request.expect_status.is_empty() {
            settings.expect_status.clone_from(&request.expect_status);
        }
        let has_content =
            request.expect_length.is_some() || request.expect_body.is_some() || request.any_content;
        if has_content {
            settings.expect_length = request.expect_length;
            settings.expect_body.clone_from(&request.expect_body);
            settings.any_content = request.any_content;
        }
        settings
    }
}

/// Names the field of a request instead of the driver's, in an error about its settings.
pub(crate) fn in_request(table: &str, name: &str) -> impl Fn(Invalid) -> Invalid {
    let (table, name) = (table.to_owned(), name.to_owned());
    move |error| {
        let field = error.field.split(' ').next().unwrap_or_default();
        let field = field.strip_prefix("driver.").unwrap_or(field);
        Invalid::new(format!("{table}.{field} (`{name}`)"), error.problem)
    }
}
