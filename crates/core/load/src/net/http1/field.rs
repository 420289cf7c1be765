//! Header fields as users type them.

use http::{HeaderName, HeaderValue};

use crate::plan::Invalid;
use crate::redact;

/// Parses a field of requests, `Name: value` on one line (RFC 9110 §5). `refusal` says why a field with this name, in
/// lower case, may not be given.
///
/// # Errors
/// The field without its secret, with the remedy.
pub fn parse_field(
    field: &str,
    refusal: impl FnOnce(&str) -> Option<&'static str>,
) -> Result<(&str, &str), Invalid> {
    let invalid = |problem: &str| {
        let shown = format!("driver.headers (--header {:?})", redact::field(field));
        Err(Invalid::new(shown, problem))
    };
    let wrong = |problem: &str| invalid(&format!("{problem}: write it as \"Name: value\""));
    let Some((name, value)) = field.split_once(':') else {
        return wrong("has no colon");
    };
    if name.parse::<HeaderName>().is_err() {
        return wrong("the name before the colon is not a valid field name");
    }
    if value.parse::<HeaderValue>().is_err() {
        return wrong("the value contains bytes that are not allowed");
    }
    match refusal(&name.to_ascii_lowercase()) {
        Some(problem) => invalid(problem),
        None => Ok((name, value.trim())),
    }
}
