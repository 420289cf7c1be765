//! The memory of one client: the values that it has taken from answers, and its cookies.

use crate::mix::MixRequest;
use crate::roles::checks::{Captured, Checks};
use crate::roles::cookies::Cookies;

/// The field with a cookie to keep, in lower case.
pub(crate) const SET_COOKIE: &str = "set-cookie";

/// The values and cookies of one client.
#[derive(Debug, Clone, Default)]
pub(crate) struct Session {
    /// By the index of the name; `None` before an answer had it.
    pub(crate) values: Vec<Option<Box<[u8]>>>,
    pub(crate) cookies: Cookies,
}

impl Session {
    /// Creates the memory of a client that has sent nothing, for this number of names.
    pub(crate) fn new(values: usize) -> Self {
        Self {
            values: vec![None; values],
            ..Self::default()
        }
    }

    /// Takes the values of a request from its answer. Returns the first capture that finds none.
    pub(crate) fn learn<'r>(
        &mut self,
        request: &'r MixRequest,
        checks: &Checks,
        captured: Option<&Captured>,
    ) -> Result<(), &'r str> {
        let (body, mut json) = (captured.map_or(&[][..], Captured::body), None);
        for (index, text, capture) in &request.captures {
            let field = |name: &str| checks.field(captured, name);
            let value = capture.take(body, &mut json, field);
            self.values[*index] = Some(value.ok_or(text.as_str())?);
        }
        if let Some(sent) = request.sent {
            self.values[sent] = Some(Box::default());
        }
        Ok(())
    }
}
