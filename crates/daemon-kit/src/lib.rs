//! Shared parts of the daemons written in Rust: command line, signals, metrics page. It contains no protocol code.

mod call;
pub mod pages;
mod signals;

pub use self::call::{WRONG_CALL, name_variable, options, parse_address};
pub use self::signals::Signals;
