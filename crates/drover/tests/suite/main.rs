//! Tests the program by its command line.

mod calls;
mod capacity;
mod endings;
mod import;
mod pages;
mod runs;
mod streaming;
mod support;
mod tool_output;
