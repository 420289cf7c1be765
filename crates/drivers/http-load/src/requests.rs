//! The requests of a run, built before it starts. In the loop, a request is a slice, or a few slices with numbers, columns
//! and values between them.

use std::io::Write as _;

use load::net::http1::parse_field;
use load::net::url::ServerUrl;
use load::plan::Invalid;
use traffic::{Encoding, Names, Source, Template, Values};

use crate::roles::cookies::Cookies;
use crate::roles::redirect::{RedirectTarget, is_of_content};
use crate::settings::Settings;

/// The settings whose text is in the head of a request, for messages.
pub(crate) const HEAD: &str = "driver.path or driver.headers";

/// The requests to one server, in rotation.
#[derive(Debug, Clone)]
pub(crate) struct Requests {
    method: String,
    /// The target URI of the first request of an operation (RFC 9110 §7.1).
    target: Template,
    /// The request line and the fields of the first request, without the body's length.
    head: Template,
    /// The fields of a request after a redirect, with a body and without.
    fields: Template,
    bare: Template,
    /// `None` if the method has no body.
    bodies: Vec<Option<Template>>,
    /// True if responses have no body.
    pub(crate) is_head: bool,
    /// True if they have columns of rows in them.
    pub(crate) use_rows: bool,
    /// The complete requests, if they are the same for every operation.
    whole: Vec<Option<Box<[u8]>>>,
}

impl Requests {
    /// Builds the requests to one server from the settings.
    ///
    /// # Errors
    /// An invalid header or placeholder, or a file that can't be read. With redirects followed, an invalid host: the
    /// origin of a redirect could not be compared with it.
    pub(crate) fn new(
        settings: &Settings,
        server: &ServerUrl,
        names: &Names,
    ) -> Result<Self, Invalid> {
        let path = path(settings, server)?;
        let fields = fields(settings, server)?;
        let host = fields
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case("host"));
        let host = host.map_or(server.authority.as_str(), |(_, value)| value);
        let scheme = if server.tls { "https" } else { "http" };
        let bare = fields.iter().filter(|(name, _)| !is_of_content(name));
        let mut bodies: Vec<_> = bodies(settings, names)?.into_iter().map(Some).collect();
        if bodies.is_empty() {
            bodies.push(None);
        }
        let method = settings.method.clone();
        let field = |text: &str| Template::parse(HEAD, text.as_bytes(), names, Encoding::Field);
        let path = Template::parse(HEAD, path.as_bytes(), names, Encoding::Path)?;
        let lines_of_all = field(&lines(&fields))?;
        let mut target = field(&format!("{scheme}://{host}"))?;
        target.append(path.clone());
        let mut head = Template::fixed(&format!("{method} "));
        head.append(path);
        head.append(Template::fixed(" HTTP/1.1\r\n"));
        head.append(lines_of_all.clone());
        let mut requests = Self {
            target,
            head,
            fields: lines_of_all,
            bare: field(&lines(bare))?,
            method,
            bodies,
            use_rows: false,
            is_head: settings.method == "HEAD",
            whole: Vec::new(),
        };
        let is_column = |source| matches!(source, Source::Column(_));
        let use_rows = requests.sources().any(is_column);
        requests.use_rows = use_rows;
        if settings.follow > 0 && RedirectTarget::first(&requests.target(0)).is_none() {
            let problem = "is not a valid host, so the origin of a redirect can't be compared with it: correct it, or leave out --follow";
            let field = format!("driver.headers (--header \"Host: {host}\")");
            return Err(Invalid::new(field, problem));
        }
        let indices = 0..requests.bodies.len() as u64;
        requests.whole = indices.map(|index| requests.whole(index)).collect();
        Ok(requests)
    }

    /// Returns the columns and values that they use.
    pub(crate) fn sources(&self) -> impl Iterator<Item = Source> {
        let bodies = self.bodies.iter().flatten();
        let texts = [&self.head, &self.fields].into_iter().chain(bodies);
        texts.flat_map(Template::sources)
    }

    /// Returns true if a request after a redirect has columns of rows in it: the place that an answer names replaces the path.
    pub(crate) fn use_rows_after_redirect(&self) -> bool {
        let texts = self.bodies.iter().flatten().chain([&self.fields]);
        let mut sources = texts.flat_map(Template::sources);
        sources.any(|source| matches!(source, Source::Column(_)))
    }

    /// Returns the bytes of the first request of an operation, if they are the same for every operation.
    #[inline]
    pub(crate) fn fixed(&self, number: u64) -> Option<&[u8]> {
        self.whole[self.index(number)].as_deref()
    }

    /// Returns the bytes of an operation's next request: after a redirect `hop`'s, otherwise the first one. Writes
    /// them to `room`, unless they are the same for every operation.
    pub(crate) fn bytes<'a>(
        &'a self,
        values: Values<'_>,
        hop: Option<&RedirectTarget>,
        room: &'a mut Vec<u8>,
    ) -> &'a [u8] {
        match (hop, self.fixed(values.number)) {
            (None, Some(whole)) => whole,
            _ => {
                room.clear();
                self.render(values, Cookies::NONE, hop, room);
                room
            }
        }
    }

    /// Renders the request with this number, if it contains no number, column or value.
    fn whole(&self, number: u64) -> Option<Box<[u8]>> {
        let is_fixed = self.head.is_fixed() && self.body(number).is_none_or(Template::is_fixed);
        is_fixed.then(|| {
            let mut bytes = Vec::new();
            self.render(Values::from_number(number), Cookies::NONE, None, &mut bytes);
            bytes.into()
        })
    }

    /// Appends an operation's next request, with the cookies of its path.
    pub(crate) fn render(
        &self,
        values: Values<'_>,
        cookies: &Cookies,
        hop: Option<&RedirectTarget>,
        out: &mut Vec<u8>,
    ) {
        let is_bare = hop.is_some_and(|hop| hop.bare);
        // The head tells the length of the body, so the body is written first, and then moved behind the head.
        let body = self.body(values.number).filter(|_| !is_bare);
        if let Some(body) = body {
            body.render(values, out);
        }
        let length = out.len();
        match hop {
            None => self.head.render(values, out),
            Some(hop) => {
                let method = hop.method(&self.method);
                let _ = write!(out, "{method} {} HTTP/1.1\r\n", hop.target());
                let fields = if is_bare { &self.bare } else { &self.fields };
                fields.render(values, out);
            }
        }
        let cookie = cookies.of_path(target_of(&out[length..]));
        if !cookie.is_empty() {
            let _ = write!(out, "Cookie: {cookie}\r\n");
        }
        if body.is_some() {
            let _ = write!(out, "Content-Length: {length}\r\n");
        }
        out.extend_from_slice(b"\r\n");
        out.rotate_left(length);
    }

    /// Returns the target URI of the request with this number (RFC 9110 §7.1).
    pub(crate) fn target(&self, number: u64) -> String {
        let mut target = Vec::new();
        self.target.render(Values::from_number(number), &mut target);
        String::from_utf8_lossy(&target).into_owned()
    }

    fn index(&self, number: u64) -> usize {
        (number % self.bodies.len() as u64) as usize
    }

    fn body(&self, number: u64) -> Option<&Template> {
        self.bodies[self.index(number)].as_ref()
    }

    /// Returns true if all requests are the same, so that all responses should be.
    pub(crate) fn are_alike(&self) -> bool {
        matches!(self.whole.as_slice(), [Some(_)])
    }
}

/// Returns the target in a request line.
fn target_of(head: &[u8]) -> &[u8] {
    head.split(|byte| *byte == b' ').nth(1).unwrap_or_default()
}

/// Returns the path to request, checked.
pub(crate) fn path<'a>(settings: &'a Settings, server: &'a ServerUrl) -> Result<&'a str, Invalid> {
    let path = settings.path_at(server);
    if !path.starts_with(['/', '{']) || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
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
pub(crate) fn bodies(settings: &Settings, names: &Names) -> Result<Vec<Template>, Invalid> {
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
    let parse = |body: &Vec<u8>| Template::parse("driver.body", body, names, Encoding::Body);
    bodies.iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::parse_url;

    fn rendered(settings: &Settings, number: u64) -> String {
        let server = parse_url("http://127.0.0.1:80/x").unwrap();
        let requests = Requests::new(settings, &server, &Names::default()).unwrap();
        let (values, mut room) = (Values::from_number(number), Vec::new());
        String::from_utf8(requests.bytes(values, None, &mut room).to_vec()).unwrap()
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
            let refused = Requests::new(&settings, &server, &Names::default());
            let error = refused.unwrap_err().to_string();
            assert!(
                error.contains("--header") && error.contains(remedy),
                "{error}"
            );
        }
    }
}
