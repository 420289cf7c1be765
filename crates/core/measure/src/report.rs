//! Reports: pure functions of results. A report of one run is a report of a suite of one.
//!
//! Sections build the content from the runs, and a format of [`FORMATS`] writes it.

mod cell;
mod charts;
mod columns;
mod compare;
mod comparison;
mod conditions;
mod contest;
mod control;
mod deciding;
mod document;
mod error;
mod facts;
mod formats;
mod history;
mod ramp;
mod roles;
mod sections;
mod sides;
mod svg;
mod table;

pub use control::{Judgement, against_control};
pub use error::Error;
pub use formats::{
    FORMATS, Format, Options, csv, github, hlog, html, json, junit, list_of_names, markdown, names,
    summary, terminal,
};
pub use history::{Figure, deciding_figures, figure};
pub use sides::{Selection, Source, combine};

/// Replaces what would control a terminal, or the direction of text, by spaces: a daemon or host chose the text.
#[must_use]
pub fn plain(text: &str) -> String {
    let controls = |letter: char| {
        letter.is_control() && letter != '\n'
            || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.replace(controls, " ")
}

/// Returns each item once, in the order of its first appearance.
fn distinct<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for item in items {
        if !distinct.contains(&item) {
            distinct.push(item);
        }
    }
    distinct
}
