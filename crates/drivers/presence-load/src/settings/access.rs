//! The credentials that a server may ask for.

use harness::cli::lines_of_files;
use load::net::http1::parse_field;
use load::plan::Invalid;
use serde_json::{Map, Value};

use super::Settings;
use crate::protocol::transport::Access;

/// The names of settings, for messages.
pub(crate) const AUTH: &str = "driver.auth (--auth)";
pub(crate) const HEADERS: &str = "driver.headers (--header)";
/// Names of fields that the handshake or the transport sets.
const OWN_FIELDS: [&str; 6] = [
    "connection",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
    "upgrade",
];

impl Settings {
    /// Replaces `@FILE` by the content of the file.
    ///
    /// # Errors
    /// A file that can't be read.
    pub(crate) fn read_secrets(&mut self) -> Result<(), Invalid> {
        let headers = std::mem::take(&mut self.headers);
        self.headers = lines_of_files(HEADERS, headers)?;
        if let Some(auth) = self.auth.take() {
            let lines = lines_of_files(AUTH, vec![auth])?;
            self.auth = Some(lines.join("\n"));
        }
        Ok(())
    }

    /// Returns what clients send so that a server admits them.
    ///
    /// # Errors
    /// A value that can't be sent, with the remedy.
    pub(crate) fn access(&self) -> Result<Access, Invalid> {
        let mut fields = String::new();
        for field in &self.headers {
            let (name, value) = check_field(field)?;
            fields.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(name) = self.subprotocols.iter().find(|name| !is_token(name)) {
            let problem = format!("`{name}` is not a name: give letters, digits, `.`, `-` or `_`");
            return Err(Invalid::new("driver.subprotocols (--subprotocol)", problem));
        }
        Ok(Access {
            fields,
            subprotocols: self.subprotocols.join(", "),
            namespace: self.namespace()?,
            auth: self.auth_object()?,
        })
    }

    fn namespace(&self) -> Result<String, Invalid> {
        let name = self.namespace.as_deref().unwrap_or("/");
        let is_name =
            name.starts_with('/') && !name.contains(|it: char| it == ',' || it.is_control());
        match name {
            "/" => Ok(String::new()),
            name if is_name => Ok(name.to_owned()),
            _ => {
                let problem =
                    format!("`{name}` is not a namespace: begin it with /, without a comma");
                Err(Invalid::new("driver.namespace (--namespace)", problem))
            }
        }
    }

    /// Returns the object in one line.
    pub(crate) fn auth_object(&self) -> Result<String, Invalid> {
        let Some(auth) = &self.auth else {
            return Ok(String::new());
        };
        let object: Result<Map<String, Value>, _> = serde_json::from_str(auth);
        let object = object.map_err(|error| {
            let problem =
                format!("is not a JSON object ({error}): write it as '{{\"token\":\"abc\"}}'");
            Invalid::new(AUTH, problem)
        })?;
        Ok(Value::Object(object).to_string())
    }
}

/// Parses a field of requests, `Name: value`.
///
/// # Errors
/// The field without its secret, with the remedy.
pub(crate) fn check_field(field: &str) -> Result<(&str, &str), Invalid> {
    parse_field(field, |name| {
        let is_own = OWN_FIELDS.contains(&name) || name.starts_with("sec-websocket-");
        is_own.then_some("is set by the driver: leave it out, or use --subprotocol")
    })
}

/// Returns true for a token (RFC 9110 §5.6.2).
fn is_token(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_written_as_they_are_sent() {
        let settings = Settings {
            auth: Some("{ \"token\" : \"abc\" }".to_owned()),
            headers: vec!["Cookie: a=1".to_owned(), "X-A:b".to_owned()],
            namespace: Some("/admin".to_owned()),
            subprotocols: vec!["a".to_owned(), "b.1".to_owned()],
            ..Settings::default()
        };
        let expected = Access {
            fields: "Cookie: a=1\r\nX-A: b\r\n".to_owned(),
            subprotocols: "a, b.1".to_owned(),
            namespace: "/admin".to_owned(),
            auth: "{\"token\":\"abc\"}".to_owned(),
        };
        assert_eq!(settings.access(), Ok(expected));
        assert_eq!(Settings::default().access(), Ok(Access::default()));
    }

    #[test]
    fn credentials_that_cannot_be_sent_are_named_without_their_secret() {
        let with = |change: fn(&mut Settings)| {
            let mut settings = Settings::default();
            change(&mut settings);
            settings.access().unwrap_err().to_string()
        };
        for (error, option) in [
            (with(|it| it.auth = Some("[1]".to_owned())), "--auth"),
            (
                with(|it| it.namespace = Some("admin".to_owned())),
                "--namespace",
            ),
            (
                with(|it| it.namespace = Some("/a,b".to_owned())),
                "--namespace",
            ),
            (
                with(|it| it.subprotocols = vec!["a b".to_owned()]),
                "--subprotocol",
            ),
            (with(|it| it.headers = vec!["X".to_owned()]), "--header"),
            (
                with(|it| it.headers = vec!["Host: a".to_owned()]),
                "--header",
            ),
            (
                with(|it| it.headers = vec!["Authorization: s3cret\n".to_owned()]),
                "--header",
            ),
        ] {
            assert!(
                error.contains(option) && !error.contains("s3cret"),
                "{error}"
            );
        }
    }
}
