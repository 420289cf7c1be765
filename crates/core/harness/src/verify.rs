//! Verifies the answers of daemons, apart from runs: [`check`] compares all daemons of a protocol, and [`conformance`]
//! runs functional cases on one, which [`script`] reads from text.

pub mod check;
pub mod conformance;
pub mod script;

/// Help text on the exit codes of `check` and `conformance`.
pub const EXIT_CODES: &str = "Exit codes: 0 fine, 1 a check failed, 2 the call is wrong.";
