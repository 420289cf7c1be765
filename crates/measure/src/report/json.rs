//! The results as JSON: an object for one, an array for several.

use super::Error;
use crate::result::RunResult;

/// Renders results as pretty-printed JSON.
///
/// # Errors
/// None.
pub fn render(results: &[RunResult]) -> Result<String, Error> {
    let text = match results {
        [one] => serde_json::to_string_pretty(one),
        several => serde_json::to_string_pretty(several),
    };
    Ok(text.expect("a result has string keys and no value that JSON lacks") + "\n")
}
