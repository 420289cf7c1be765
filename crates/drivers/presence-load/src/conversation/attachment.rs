//! Binary attachments, as a plan names them: `{binary:1024}`, `{binary:base64:AAEC}` or `{binary:file:PATH}`.

use std::hash::{DefaultHasher, Hasher as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use load::plan::Invalid;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};

/// The start and the end of an attachment's text.
const OPEN: &str = "{binary:";
const CLOSE: &str = "}";
/// Maximum number of bytes.
const MOST: usize = 100 << 20;
/// The forms, for messages.
const FORMS: &str =
    "write {binary:1024} (a number of random bytes), {binary:base64:AAEC} or {binary:file:PATH}";

/// Reads an attachment; `None` if the text is none.
///
/// # Errors
/// It has another form, or its file can't be read; `field` is where the text stands.
pub(super) fn parse(field: &str, text: &str) -> Result<Option<Box<[u8]>>, Invalid> {
    let Some(start) = text.find(OPEN) else {
        return Ok(None);
    };
    let wrong = |problem: &str| Invalid::new(field, format!("`{text}` {problem}"));
    let source = text[start + OPEN.len()..].strip_suffix(CLOSE);
    let Some(source) = source.filter(|_| start == 0) else {
        return Err(wrong(
            "has an attachment besides other text: give it a string of its own",
        ));
    };
    let bytes = match source.split_once(':') {
        Some(("base64", text)) => STANDARD
            .decode(text)
            .map_err(|error| wrong(&format!("is not base64 ({error}): {FORMS}")))?,
        Some(("file", path)) => std::fs::read(path).map_err(|error| {
            wrong(&format!(
                "can't be read ({error}): name a file that can be read"
            ))
        })?,
        _ => match source.parse() {
            Ok(size) if size <= MOST => random(size),
            Ok(_) => return Err(wrong("is more than 100 MiB: send less at once")),
            Err(_) => return Err(wrong(&format!("is not an attachment: {FORMS}"))),
        },
    };
    Ok(Some(bytes.into()))
}

/// Returns true if a value has an attachment.
pub(super) fn is_in(value: &Value) -> bool {
    value.to_string().contains(OPEN)
}

/// Returns the hash by which the bytes of an attachment are compared.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Returns the object that stands for an attachment with this hash in an answer.
pub(super) fn placeholder(hash: u64) -> Value {
    json!({"_placeholder": true, "hash": hash})
}

/// Replaces the attachments of an expected value by the objects that stand for them.
///
/// # Errors
/// As [`parse`].
pub(super) fn replace(field: &str, value: &mut Value) -> Result<(), Invalid> {
    match value {
        Value::String(text) => {
            if let Some(bytes) = parse(field, text)? {
                *value = placeholder(hash(&bytes));
            }
            Ok(())
        }
        Value::Array(values) => values
            .iter_mut()
            .try_for_each(|value| replace(field, value)),
        Value::Object(fields) => fields
            .values_mut()
            .try_for_each(|value| replace(field, value)),
        _ => Ok(()),
    }
}

/// Returns bytes that no compression makes shorter, the same in each run.
fn random(size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    StdRng::seed_from_u64(size as u64).fill_bytes(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attachment_has_a_size_or_bytes_of_its_own() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [0, 255]).unwrap();
        let file = format!("{{binary:file:{}}}", file.path().display());
        for (text, bytes) in [("{binary:base64:AAEC}", &[0, 1, 2][..]), (&file, &[0, 255])] {
            assert_eq!(parse("data", text).unwrap().as_deref(), Some(bytes));
        }
        let random = parse("data", "{binary:1000}").unwrap().unwrap();
        assert_eq!(random.len(), 1_000);
        assert!(random.iter().any(|byte| *byte != random[0]));
        assert_eq!(parse("data", "{id} is binary").unwrap(), None);
        for (text, problem) in [
            ("a {binary:1}", "a string of its own"),
            ("{binary:1", "a string of its own"),
            ("{binary:1kB}", "write {binary:1024}"),
            ("{binary:base64:?}", "is not base64"),
            ("{binary:file:/no}", "name a file that can be read"),
            ("{binary:1000000000}", "more than 100 MiB"),
        ] {
            let error = parse("data", text).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
