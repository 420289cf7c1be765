//! The key of the backend: held, sent, never shown.

use std::env;

use hyper::header::HeaderValue;

/// The variables that may hold the key, the first one first. There is no option for it: the
/// arguments of a process are there for all to read.
pub(crate) const VARIABLES: [&str; 2] = ["DAEMON_OPENAI_KEY", "OPENAI_API_KEY"];

/// A bearer token. Its `Debug` does not show it.
#[derive(Debug, Clone)]
pub struct Key(HeaderValue);

impl Key {
    /// Takes a token.
    ///
    /// # Errors
    /// That it holds what no header may hold, without showing it.
    pub fn new(token: &str) -> Result<Self, String> {
        let mut value = HeaderValue::try_from(format!("Bearer {token}"))
            .map_err(|_| "the key holds characters that no HTTP header may hold".to_owned())?;
        value.set_sensitive(true);
        Ok(Self(value))
    }

    /// Takes the token from the environment, if there is one.
    ///
    /// # Errors
    /// The variable, what is wrong with it, and the remedy.
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
