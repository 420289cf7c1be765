//! What the daemons in Rust have in common, and no protocol: the call, the signals, the page of metrics.

mod call;
pub mod pages;
mod signals;

pub use self::call::{WRONG_CALL, name_variable, options, parse_address};
pub use self::signals::Signals;
