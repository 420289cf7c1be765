//! Requests that follow a redirect, built when its target is known. Their fields are those of the operation's first
//! request.

use std::io::Write as _;

use load::plan::Invalid;

use super::{Text, fields, lines, path};
use crate::redirect::{RedirectTarget, is_of_content};
use crate::settings::Settings;
use crate::target::Server;

const HEAD: &str = "driver.path or driver.headers";

/// The parts that such requests are built from.
#[derive(Debug, Clone)]
pub(super) struct Redirected {
    method: String,
    /// The target URI of the first request (RFC 9110 §7.1).
    target: Text,
    fields: Text,
    /// The fields of a request without a body.
    bare: Text,
}

impl Redirected {
    /// Prepares the requests to a server.
    ///
    /// # Errors
    /// With redirects followed, an invalid host: the origin of a redirect could not be compared with it.
    pub(super) fn new(settings: &Settings, server: &Server) -> Result<Self, Invalid> {
        let fields = fields(settings, server)?;
        let host = fields
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case("host"));
        let host = host.map_or(server.authority.as_str(), |(_, value)| value);
        let bare = fields.iter().copied();
        let bare = bare.filter(|(name, _)| !is_of_content(name));
        let scheme = if server.tls { "https" } else { "http" };
        let target = format!("{scheme}://{host}{}", path(settings, server)?);
        let made = Self {
            method: settings.method.clone(),
            target: Text::parse(HEAD, target.as_bytes())?,
            fields: Text::parse(HEAD, &lines(fields.clone()))?,
            bare: Text::parse(HEAD, &lines(bare))?,
        };
        if settings.follow > 0 && RedirectTarget::first(&made.target(0)).is_none() {
            let problem = "is not a valid host, so the origin of a redirect can't be compared with it: correct it, or leave out --follow";
            let field = format!("driver.headers (--header \"Host: {host}\")");
            return Err(Invalid::new(field, problem));
        }
        Ok(made)
    }

    /// Returns the target URI of the first request with this number.
    pub(super) fn target(&self, number: u64) -> String {
        let mut target = Vec::new();
        self.target.render(number, &mut target);
        String::from_utf8_lossy(&target).into_owned()
    }

    /// Appends the request line and the fields, without the body's length and the empty line.
    pub(super) fn render(&self, number: u64, hop: &RedirectTarget, out: &mut Vec<u8>) {
        let _ = write!(
            out,
            "{} {} HTTP/1.1\r\n",
            hop.method(&self.method),
            hop.target()
        );
        let fields = if hop.bare { &self.bare } else { &self.fields };
        fields.render(number, out);
    }
}
