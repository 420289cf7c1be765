//! Tests that cannot run on this machine, reported as `harness_testing::skip` does. `measure` cannot use that crate,
//! which is above it.

use std::fmt::Display;
use std::io::Write as _;

/// Reports that the running test is skipped because of what it needs. The line is shown although the test passes,
/// because the test runner captures only the print macros.
#[track_caller]
pub(crate) fn skip(needs: impl Display) {
    let is_required = std::env::var_os("DROVER_REQUIRE_ALL").is_some_and(|value| value == "1");
    assert!(!is_required, "DROVER_REQUIRE_ALL=1: needs {needs}");
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let _ = writeln!(std::io::stderr(), "skipped: {test}: needs {needs}");
}
