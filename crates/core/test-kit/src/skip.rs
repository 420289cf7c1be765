//! Tests that cannot run on this machine.

use std::env::var_os;
use std::fmt::Display;
use std::fs::File;
use std::io::Write as _;

use crate::test_name;

/// Reports that the running test is skipped because of what it needs: `skipped: NAME: needs chromium`. The caller
/// returns. The line is printed although the test passes, because the test runner captures only the print macros. It is
/// also appended to the file that `DROVER_SKIPPED` names: another runner prints nothing of a test that passes.
///
/// # Panics
/// `DROVER_REQUIRE_ALL=1` is set: a test that cannot run fails then.
#[track_caller]
pub fn skip(needs: impl Display) {
    let needs = needs.to_string();
    // What follows is how to install it.
    let needs = needs.lines().next().unwrap_or_default();
    let is_required = var_os("DROVER_REQUIRE_ALL").is_some_and(|value| value == "1");
    assert!(!is_required, "DROVER_REQUIRE_ALL=1: needs {needs}");
    let test = test_name();
    let _ = writeln!(std::io::stderr(), "skipped: {test}: needs {needs}");
    if let Some(file) = var_os("DROVER_SKIPPED") {
        let opened = File::options().create(true).append(true).open(file);
        let mut file = opened.expect("DROVER_SKIPPED names a file that can be written");
        // One call, so that tests which run at the same time do not mix their lines.
        let line = format!("{test}: needs {needs}\n");
        file.write_all(line.as_bytes())
            .expect("the list of skipped tests can be written");
    }
}
