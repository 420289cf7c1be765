//! The comparison of whatever results are given, as one page of HTML.

use super::Error;
use crate::result::RunResult;
use crate::suite::Suite;

/// Results as a suite named as the plan of the first.
///
/// # Errors
/// A stored histogram that can't be decoded.
pub fn render(results: &[RunResult]) -> Result<String, Error> {
    let name = results
        .first()
        .and_then(|result| result.plan.get("name")?.as_str());
    super::suite::html(&Suite {
        name: name.unwrap_or("results").to_owned(),
        question: None,
        command: None,
        results: results.to_vec(),
        unreached: Vec::new(),
    })
}
