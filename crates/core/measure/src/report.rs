//! Reports: pure functions of results. A report of one run is a report of a suite of one.
//!
//! Sections build the content from the runs, and a format of [`FORMATS`] writes it.

mod cell;
mod charts;
mod columns;
mod compare;
mod comparison;
mod conditions;
mod distinct;
mod document;
mod error;
mod facts;
mod formats;
mod roles;
mod sections;
mod svg;
mod table;
mod text;

pub use error::Error;
pub use formats::{
    FORMATS, Format, Options, csv, github, hlog, html, json, junit, list_of_names, markdown, names,
    summary, terminal,
};
