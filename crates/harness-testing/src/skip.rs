//! Tests that cannot run on this machine.

use std::fmt::Display;
use std::io::Write as _;

/// Reports that the running test is skipped because of what it needs: `skipped: NAME: needs chromium`. The caller
/// returns. The line is shown although the test passes, because the test runner captures only the print macros.
///
/// # Panics
/// `DROVER_REQUIRE_ALL=1` is set: a test that cannot run fails then.
#[track_caller]
pub fn skip(needs: impl Display) {
    let is_required = std::env::var_os("DROVER_REQUIRE_ALL").is_some_and(|value| value == "1");
    assert!(!is_required, "DROVER_REQUIRE_ALL=1: needs {needs}");
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let _ = writeln!(std::io::stderr(), "skipped: {test}: needs {needs}");
}
