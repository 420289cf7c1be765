//! The key of the backend, which is never printed.

use std::env;

use hyper::header::HeaderValue;

/// The variables that may contain the key, in order of precedence. There is no option for it, since everyone can read
/// the arguments of a process.
pub(crate) const VARIABLES: [&str; 2] = ["DAEMON_OPENAI_KEY", "OPENAI_API_KEY"];

/// A bearer token. Its `Debug` output does not show it.
#[derive(Debug, Clone)]
pub struct Key(HeaderValue);

impl Key {
    /// Creates a key from a token.
    ///
    /// # Errors
    /// The token contains characters that are invalid in a header. The message does not show it.
    pub fn new(token: &str) -> Result<Self, String> {
        let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| {
            "the key contains characters that are not allowed in an HTTP header".to_owned()
        })?;
        value.set_sensitive(true);
        Ok(Self(value))
    }

    /// Reads the token from the environment, if there is one.
    ///
    /// # Errors
    /// The variable, the problem, and the remedy.
    pub(crate) fn from_environment() -> Result<Option<Self>, String> {
        let set = VARIABLES
            .into_iter()
            .filter_map(|name| Some((name, env::var_os(name)?)));
        let Some((name, value)) = set.into_iter().find(|(_, value)| !value.is_empty()) else {
            return Ok(None);
        };
        let token = value.to_str().unwrap_or("\n");
        let key = Self::new(token.trim())
            .map_err(|wrong| format!("{name}: {wrong}; set it to the key alone, or unset it"))?;
        Ok(Some(key))
    }

    pub(crate) fn header(&self) -> &HeaderValue {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_sent_and_not_shown() {
        let key = Key::new("sk-123").unwrap();
        assert_eq!(key.header().as_bytes(), b"Bearer sk-123");
        assert!(!format!("{key:?}").contains("123"));
        let error = Key::new("sk-123\nX: y").unwrap_err();
        assert!(!error.contains("123"), "{error}");
    }
}
