//! The requests of a run, built before it starts. In the loop, a request is a slice, or a few slices with numbers
//! between them.

use std::io::Write as _;

use hyper::body::Bytes;
use load::net::http1::parse_field;
use load::net::url::ServerUrl;
use load::plan::Invalid;

use crate::roles::redirect::{RedirectTarget, is_of_content};
use crate::settings::Settings;

/// The placeholder of the request's number: `{id}`, or `{id:N}` for the number modulo N.
const ID: &str = "{id";
/// The settings whose text is in the head of a request, for messages.
pub(crate) const HEAD: &str = "driver.path or driver.headers";

/// The requests to one server, in rotation.
#[derive(Debug, Clone)]
pub(crate) struct Requests {
    method: String,
    /// The target URI of the first request of an operation (RFC 9110 §7.1).
    target: Text,
    /// The request line and the fields of the first request, without the body's length.
    head: Text,
    /// The fields of a request after a redirect, with a body and without.
    fields: Text,
    bare: Text,
    /// `None` if the method has no body.
    bodies: Vec<Option<Text>>,
    /// The complete requests, if they contain no number.
    whole: Vec<Option<Box<[u8]>>>,
}

/// Bytes with placeholders for numbers.
#[derive(Debug, Clone)]
pub(crate) struct Text(Vec<Part>);

#[derive(Debug, Clone)]
enum Part {
    Bytes(Bytes),
    /// The number of the request, modulo this.
    Id(u64),
}

impl Requests {
    /// Builds the requests to one server from the settings.
    ///
    /// # Errors
    /// An invalid header or placeholder, or a file that can't be read. With redirects followed, an invalid host: the
    /// origin of a redirect could not be compared with it.
    pub(crate) fn new(settings: &Settings, server: &ServerUrl) -> Result<Self, Invalid> {
        let path = path(settings, server)?;
        let fields = fields(settings, server)?;
        let host = fields
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case("host"));
        let host = host.map_or(server.authority.as_str(), |(_, value)| value);
        let scheme = if server.tls { "https" } else { "http" };
        let bare = fields.iter().filter(|(name, _)| !is_of_content(name));
        let mut bodies: Vec<_> = bodies(settings)?.into_iter().map(Some).collect();
        if bodies.is_empty() {
            bodies.push(None);
        }
        let (method, lines_of_all) = (settings.method.clone(), lines(&fields));
        let text = |text: &str| Text::parse(HEAD, text.as_bytes());
        let mut requests = Self {
            target: text(&format!("{scheme}://{host}{path}"))?,
            head: text(&format!("{method} {path} HTTP/1.1\r\n{lines_of_all}"))?,
            fields: text(&lines_of_all)?,
            bare: text(&lines(bare))?,
            method,
            bodies,
            whole: Vec::new(),
        };
        if settings.follow > 0 && RedirectTarget::first(&requests.target(0)).is_none() {
            let problem = "is not a valid host, so the origin of a redirect can't be compared with it: correct it, or leave out --follow";
            let field = format!("driver.headers (--header \"Host: {host}\")");
            return Err(Invalid::new(field, problem));
        }
        let indices = 0..requests.bodies.len() as u64;
        requests.whole = indices.map(|index| requests.whole(index)).collect();
        Ok(requests)
    }

    /// Returns the bytes of an operation's next request: after a redirect `hop`'s, otherwise the first one. Writes
    /// them to `room`, unless they are the same for every number.
    pub(crate) fn bytes<'a>(
        &'a self,
        number: u64,
        hop: Option<&RedirectTarget>,
        room: &'a mut Vec<u8>,
    ) -> &'a [u8] {
        match (hop, &self.whole[self.index(number)]) {
            (None, Some(whole)) => whole,
            _ => {
                room.clear();
                self.render(number, hop, room);
                room
            }
        }
    }

    /// Renders the request with this number, if it contains no number.
    fn whole(&self, number: u64) -> Option<Box<[u8]>> {
        let is_fixed = self.head.is_fixed() && self.body(number).is_none_or(Text::is_fixed);
        is_fixed.then(|| {
            let mut bytes = Vec::new();
            self.render(number, None, &mut bytes);
            bytes.into()
        })
    }

    fn render(&self, number: u64, hop: Option<&RedirectTarget>, out: &mut Vec<u8>) {
        let is_bare = hop.is_some_and(|hop| hop.bare);
        match hop {
            None => self.head.render(number, out),
            Some(hop) => {
                let method = hop.method(&self.method);
                let _ = write!(out, "{method} {} HTTP/1.1\r\n", hop.target());
                let fields = if is_bare { &self.bare } else { &self.fields };
                fields.render(number, out);
            }
        }
        match self.body(number).filter(|_| !is_bare) {
            None => out.extend_from_slice(b"\r\n"),
            Some(body) => {
                let _ = write!(out, "Content-Length: {}\r\n\r\n", body.length(number));
                body.render(number, out);
            }
        }
    }

    /// Returns the target URI of the request with this number (RFC 9110 §7.1).
    pub(crate) fn target(&self, number: u64) -> String {
        let mut target = Vec::new();
        self.target.render(number, &mut target);
        String::from_utf8_lossy(&target).into_owned()
    }

    fn index(&self, number: u64) -> usize {
        (number % self.bodies.len() as u64) as usize
    }

    fn body(&self, number: u64) -> Option<&Text> {
        self.bodies[self.index(number)].as_ref()
    }

    /// Returns true if all requests are the same, so that all responses should be.
    pub(crate) fn are_alike(&self) -> bool {
        matches!(self.whole.as_slice(), [Some(_)])
    }
}

impl Text {
    pub(crate) fn parse(field: &str, mut rest: &[u8]) -> Result<Self, Invalid> {
        let (mut parts, mut before) = (Vec::new(), Vec::new());
        while let Some(index) = find(rest, ID.as_bytes()) {
            before.extend_from_slice(&rest[..index]);
            rest = &rest[index + ID.len()..];
            match id(rest) {
                Some((0, _)) => {
                    let problem = "{id:0}: there is no remainder by 0: use {id:1} or more";
                    return Err(Invalid::new(field, problem));
                }
                Some((modulus, after)) => {
                    parts.push(Part::Bytes(std::mem::take(&mut before).into()));
                    parts.push(Part::Id(modulus));
                    rest = after;
                }
                // These braces are JSON.
                None => before.extend_from_slice(ID.as_bytes()),
            }
        }
        before.extend_from_slice(rest);
        parts.push(Part::Bytes(before.into()));
        Ok(Self(parts))
    }

    pub(crate) fn is_fixed(&self) -> bool {
        self.0.len() == 1
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

    /// Returns the text with this number, without a copy if there is no number in it.
    pub(crate) fn bytes(&self, number: u64) -> Bytes {
        match self.0.as_slice() {
            [Part::Bytes(bytes)] => bytes.clone(),
            _ => {
                let mut bytes = Vec::with_capacity(self.length(number));
                self.render(number, &mut bytes);
                bytes.into()
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
pub(crate) fn path<'a>(settings: &'a Settings, server: &'a ServerUrl) -> Result<&'a str, Invalid> {
    let path = settings.path_at(server);
    if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        let problem = format!(
            "`{path}` is not a valid path: a path begins with /, and other characters than visible ASCII are percent-encoded, such as %20 for a space and %C3%BC for ü"
        );
        return Err(Invalid::new("driver.path (--path)", problem));
    }
    Ok(path)
}

/// Returns the header fields with their values, without the body's length.
pub(crate) fn fields<'a>(
    settings: &'a Settings,
    server: &'a ServerUrl,
) -> Result<Vec<(&'a str, &'a str)>, Invalid> {
    let typed: Vec<(&str, &str)> = settings
        .headers
        .iter()
        .map(|field| parse_field(field, refusal))
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

/// Renders fields as lines of a head.
fn lines<'a>(fields: impl IntoIterator<Item = &'a (&'a str, &'a str)>) -> String {
    let fields = fields.into_iter();
    fields
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect()
}

/// Returns why a field with this name may not be given.
fn refusal(name: &str) -> Option<&'static str> {
    match name {
        "content-length" => Some("its value is the length of the body: leave the field out"),
        "transfer-encoding" => Some("bodies are sent with their length: leave the field out"),
        _ => None,
    }
}

/// Returns the request bodies, used in turn; empty if the requests have none. A method that expects a body gets an
/// empty one, with a length of 0 (RFC 9110 §8.6): some servers respond with 411 otherwise.
pub(crate) fn bodies(settings: &Settings) -> Result<Vec<Text>, Invalid> {
    for (index, body) in settings.body.iter().enumerate() {
        if let Some(file) = body.strip_prefix('@') {
            let problem =
                format!("begins with @, which names no file here: write --body-file {file}");
            return Err(Invalid::new(
                format!("driver.body[{index}] (--body)"),
                problem,
            ));
        }
    }
    let mut bodies: Vec<Vec<u8>> = settings.body.iter().cloned().map(Into::into).collect();
    for path in &settings.body_files {
        bodies.push(std::fs::read(path).map_err(|error| {
            let field = format!("driver.body_files (--body-file {})", path.display());
            Invalid::new(field, format!("{error}: name a file that can be read"))
        })?);
    }
    if bodies.is_empty() && matches!(settings.method.as_str(), "POST" | "PUT" | "PATCH") {
        bodies.push(Vec::new());
    }
    let texts = bodies.iter().map(|body| Text::parse("driver.body", body));
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::parse_url;

    fn rendered(settings: &Settings, number: u64) -> String {
        let server = parse_url("http://127.0.0.1:80/x").unwrap();
        let requests = Requests::new(settings, &server).unwrap();
        let mut room = Vec::new();
        String::from_utf8(requests.bytes(number, None, &mut room).to_vec()).unwrap()
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
        let server = parse_url("http://127.0.0.1:80/").unwrap();
        for (field, remedy) in [
            ("nocolon", "Name: value"),
            ("bad name: x", "Name: value"),
            ("x: a\nb", "Name: value"),
            ("Content-Length: 5", "leave the field out"),
            ("transfer-encoding: chunked", "leave the field out"),
        ] {
            let settings = Settings {
                headers: vec![field.to_owned()],
                ..Settings::default()
            };
            let error = Requests::new(&settings, &server).unwrap_err().to_string();
            assert!(
                error.contains("--header") && error.contains(remedy),
                "{error}"
            );
        }
    }
}
