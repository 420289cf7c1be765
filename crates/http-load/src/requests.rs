//! The requests of a run, built before it starts. In the loop, a request is a slice, or a few slices with numbers
//! between them.

use std::io::Write as _;
use std::path::Path;

use load::plan::Invalid;
use measure::redact;

use crate::redirect::RedirectTarget;
use crate::settings::Settings;
use crate::target::Server;

mod redirected;

use redirected::Redirected;

/// The placeholder of the request's number: `{id}`, or `{id:N}` for the number modulo N.
const ID: &str = "{id";

/// The requests to one server, in rotation.
#[derive(Debug, Clone)]
pub(crate) struct Requests {
    all: Vec<Request>,
    redirected: Redirected,
}

/// A request, in parts.
#[derive(Debug, Clone)]
struct Request {
    /// Everything before the body, without its length.
    head: Text,
    /// `None` if the method has no body.
    body: Option<Text>,
    /// The complete request, if it contains no number.
    whole: Option<Box<[u8]>>,
}

/// Bytes with placeholders for numbers.
#[derive(Debug, Clone)]
pub(crate) struct Text(Vec<Part>);

#[derive(Debug, Clone)]
enum Part {
    Bytes(Box<[u8]>),
    /// The number of the request, modulo this.
    Id(u64),
}

impl Requests {
    /// Builds the requests to one server from the settings.
    ///
    /// # Errors
    /// An invalid header or placeholder, or a file that can't be read.
    pub(crate) fn new(settings: &Settings, server: &Server) -> Result<Self, Invalid> {
        let head = head(settings, server)?;
        let bodies = bodies(settings)?;
        let one = |body: Option<Vec<u8>>| -> Result<Request, Invalid> {
            let head = Text::parse("driver.path or driver.headers", &head)?;
            let body = body
                .map(|body| Text::parse("driver.body", &body))
                .transpose()?;
            Ok(Request::new(head, body))
        };
        let all = match bodies.is_empty() {
            true => vec![one(None)?],
            false => bodies
                .into_iter()
                .map(|body| one(Some(body)))
                .collect::<Result<_, _>>()?,
        };
        let redirected = Redirected::new(settings, server)?;
        Ok(Self { all, redirected })
    }

    /// Returns the bytes of the request with this number. Writes them to `room` if they contain the number.
    pub(crate) fn first_bytes<'a>(&'a self, number: u64, room: &'a mut Vec<u8>) -> &'a [u8] {
        let request = self.at(number);
        match &request.whole {
            Some(whole) => whole,
            None => {
                room.clear();
                request.render(number, room);
                room
            }
        }
    }

    /// Returns the bytes of an operation's next request: after a redirect that of `hop`, otherwise the first one.
    pub(crate) fn bytes<'a>(
        &'a self,
        number: u64,
        hop: Option<&RedirectTarget>,
        room: &'a mut Vec<u8>,
    ) -> &'a [u8] {
        let Some(hop) = hop else {
            return self.first_bytes(number, room);
        };
        room.clear();
        self.redirected.render(number, hop, room);
        match hop.bare {
            true => room.extend_from_slice(b"\r\n"),
            false => self.at(number).render_content(number, room),
        }
        room
    }

    /// Returns the target URI of the request with this number (RFC 9110 §7.1).
    pub(crate) fn target(&self, number: u64) -> String {
        self.redirected.target(number)
    }

    fn at(&self, number: u64) -> &Request {
        &self.all[(number % self.all.len() as u64) as usize]
    }

    /// Returns true if all requests are the same, so that all responses should be.
    pub(crate) fn are_alike(&self) -> bool {
        self.all.len() == 1 && self.all[0].whole.is_some()
    }
}

impl Request {
    fn new(head: Text, body: Option<Text>) -> Self {
        let mut request = Self {
            head,
            body,
            whole: None,
        };
        if request.head.is_fixed() && request.body.as_ref().is_none_or(Text::is_fixed) {
            let mut whole = Vec::new();
            request.render(0, &mut whole);
            request.whole = Some(whole.into());
        }
        request
    }

    fn render(&self, number: u64, out: &mut Vec<u8>) {
        self.head.render(number, out);
        self.render_content(number, out);
    }

    /// Appends the end of the head, and the body.
    fn render_content(&self, number: u64, out: &mut Vec<u8>) {
        let Some(body) = &self.body else {
            out.extend_from_slice(b"\r\n");
            return;
        };
        let _ = write!(out, "Content-Length: {}\r\n\r\n", body.length(number));
        body.render(number, out);
    }
}

impl Text {
    pub(crate) fn parse(field: &str, bytes: &[u8]) -> Result<Self, Invalid> {
        let mut parts = Vec::new();
        let mut rest = bytes;
        while let Some(index) = find(rest, ID.as_bytes()) {
            let (before, after) = rest.split_at(index);
            let Some((id, after)) = id(&after[ID.len()..]) else {
                // These braces are JSON.
                let (before, after) = rest.split_at(index + ID.len());
                parts.push(Part::Bytes(before.into()));
                rest = after;
                continue;
            };
            if id == 0 {
                return Err(Invalid::new(
                    field,
                    "{id:0}: there is no remainder by 0: use {id:1} or more",
                ));
            }
            parts.push(Part::Bytes(before.into()));
            parts.push(Part::Id(id));
            rest = after;
        }
        parts.push(Part::Bytes(rest.into()));
        Ok(Self(parts))
    }

    pub(crate) fn is_fixed(&self) -> bool {
        self.0.iter().all(|part| matches!(part, Part::Bytes(_)))
    }

    pub(crate) fn length(&self, number: u64) -> usize {
        let length = |part: &Part| match part {
            Part::Bytes(bytes) => bytes.len(),
            Part::Id(modulus) => (number % modulus).checked_ilog10().unwrap_or(0) as usize + 1,
        };
        self.0.iter().map(length).sum()
    }

    pub(crate) fn render(&self, number: u64, out: &mut Vec<u8>) {
        for part in &self.0 {
            match part {
                Part::Bytes(bytes) => out.extend_from_slice(bytes),
                Part::Id(modulus) => {
                    let _ = write!(out, "{}", number % modulus);
                }
            }
        }
    }
}

/// Parses the rest of `{id}` or `{id:N}`: returns the modulus and the bytes after it.
fn id(rest: &[u8]) -> Option<(u64, &[u8])> {
    if let Some(after) = rest.strip_prefix(b"}") {
        return Some((u64::MAX, after));
    }
    let digits = rest.strip_prefix(b":")?;
    let end = digits.iter().position(|byte| *byte == b'}')?;
    let modulus = std::str::from_utf8(&digits[..end]).ok()?.parse().ok()?;
    Some((modulus, &digits[end + 1..]))
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// Returns the path to request, checked.
pub(crate) fn path<'a>(settings: &'a Settings, server: &'a Server) -> Result<&'a str, Invalid> {
    let path = settings.path_at(server);
    if !path.starts_with('/') || path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        let problem =
            format!("`{path}` is not a valid path: a path begins with / and has no spaces");
        return Err(Invalid::new("driver.path (--path)", problem));
    }
    Ok(path)
}

/// Returns the header fields with their values, without the body's length.
pub(crate) fn fields<'a>(
    settings: &'a Settings,
    server: &'a Server,
) -> Result<Vec<(&'a str, &'a str)>, Invalid> {
    let typed: Vec<(&str, &str)> = settings
        .headers
        .iter()
        .map(|field| check_field(field))
        .collect::<Result<_, _>>()?;
    let own = |name: &str| {
        typed
            .iter()
            .any(|(typed, _)| typed.eq_ignore_ascii_case(name))
    };
    let mut fields = Vec::new();
    if !own("host") {
        fields.push(("Host", server.authority.as_str()));
    }
    if !settings.keep_alive && !own("connection") {
        fields.push(("Connection", "close"));
    }
    if settings.compressed && !own("accept-encoding") {
        fields.push(("Accept-Encoding", "gzip"));
    }
    fields.extend(typed);
    Ok(fields)
}

/// Renders the request line and the fields, without the body's length and the empty line.
fn head(settings: &Settings, server: &Server) -> Result<Vec<u8>, Invalid> {
    let path = path(settings, server)?;
    let mut head = format!("{} {path} HTTP/1.1\r\n", settings.method).into_bytes();
    head.extend(lines(fields(settings, server)?));
    Ok(head)
}

/// Renders fields as lines of a head.
fn lines<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<u8> {
    let mut lines = Vec::new();
    for (name, value) in fields {
        let _ = write!(lines, "{name}: {value}\r\n");
    }
    lines
}

/// Parses a field `name: value` on one line (RFC 9110 §5).
fn check_field(field: &str) -> Result<(&str, &str), Invalid> {
    let wrong = |problem: &str| {
        let problem = format!("{problem}: write it as \"Name: value\"");
        Err(Invalid::new(
            format!("driver.headers (--header {:?})", redact::field(field)),
            problem,
        ))
    };
    let Some((name, value)) = field.split_once(':') else {
        return wrong("has no colon");
    };
    if name.parse::<http::HeaderName>().is_err() {
        return wrong("the name before the colon is not a valid field name");
    }
    if value.parse::<http::HeaderValue>().is_err() {
        return wrong("the value contains bytes that are not allowed");
    }
    if matches!(
        name.to_ascii_lowercase().as_str(),
        "content-length" | "transfer-encoding"
    ) {
        return wrong("this field is set from the body and cannot be given");
    }
    Ok((name, value.trim()))
}

/// Returns the request bodies, used in turn; empty if the requests have none. A method that expects a body gets an
/// empty one, with a length of 0 (RFC 9110 §8.6): some servers respond with 411 otherwise.
pub(crate) fn bodies(settings: &Settings) -> Result<Vec<Vec<u8>>, Invalid> {
    let mut bodies: Vec<Vec<u8>> = settings
        .body
        .iter()
        .map(|body| body.clone().into_bytes())
        .collect();
    for path in &settings.body_files {
        bodies.push(read(path)?);
    }
    if bodies.is_empty() && matches!(settings.method.as_str(), "POST" | "PUT" | "PATCH") {
        bodies.push(Vec::new());
    }
    Ok(bodies)
}

fn read(path: &Path) -> Result<Vec<u8>, Invalid> {
    std::fs::read(path).map_err(|error| {
        let field = format!("driver.body_files (--body-file {})", path.display());
        Invalid::new(field, format!("{error}: name a file that can be read"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(settings: &Settings, number: u64) -> String {
        let server = Server::parse("http://127.0.0.1:80/x").unwrap();
        let requests = Requests::new(settings, &server).unwrap();
        let mut room = Vec::new();
        String::from_utf8(requests.first_bytes(number, &mut room).to_vec()).unwrap()
    }

    #[test]
    fn a_request_is_its_line_its_host_and_an_empty_line() {
        assert_eq!(
            rendered(&Settings::default(), 0),
            "GET /x HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n"
        );
    }

    #[test]
    fn a_method_with_content_says_that_it_has_none() {
        let settings = Settings {
            method: "PUT".to_owned(),
            ..Settings::default()
        };
        assert_eq!(
            rendered(&settings, 0),
            "PUT /x HTTP/1.1\r\nHost: 127.0.0.1:80\r\nContent-Length: 0\r\n\r\n"
        );
    }

    #[test]
    fn bodies_go_round_and_numbers_are_put_in() {
        let settings = Settings {
            method: "POST".to_owned(),
            path: Some("/items/{id:10}".to_owned()),
            body: vec![r#"{"id":{id}}"#.to_owned(), "plain".to_owned()],
            ..Settings::default()
        };
        let first = rendered(&settings, 112);
        assert!(first.starts_with("POST /items/2 HTTP/1.1\r\n"), "{first}");
        assert!(
            first.ends_with("Content-Length: 10\r\n\r\n{\"id\":112}"),
            "{first}"
        );
        assert!(rendered(&settings, 113).ends_with("Content-Length: 5\r\n\r\nplain"));
    }

    #[test]
    fn a_field_that_is_none_says_how_to_write_one() {
        let server = Server::parse("http://127.0.0.1:80/").unwrap();
        for field in ["nocolon", "bad name: x", "x: a\nb", "Content-Length: 5"] {
            let settings = Settings {
                headers: vec![field.to_owned()],
                ..Settings::default()
            };
            let error = Requests::new(&settings, &server).unwrap_err().to_string();
            assert!(
                error.contains("--header") && error.contains("Name: value"),
                "{error}"
            );
        }
    }
}
