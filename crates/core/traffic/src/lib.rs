//! Traffic that looks real, as data and without a language: requests by weight, rows of files, templates, values of
//! answers, and think time. It knows no protocol; a driver decides what a text is for.
//!
//! Everything that is random follows from the plan's seed and the number of the operation, so that a plan draws the same
//! in each run, however many workers share it.

mod capture;
mod draw;
mod repeat;
mod replay;
mod rows;
mod template;
mod think;
mod weights;

pub use capture::{Capture, Origin};
pub use repeat::Repeat;
pub use replay::{Replay, Times};
pub use rows::{Ignored, RowReader, Rows};
pub use template::{Encoding, Names, Source, Template, Values};
pub use think::ThinkTime;
pub use weights::{Choice, Weights};
