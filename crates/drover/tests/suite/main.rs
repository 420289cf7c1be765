//! The program as it is typed.

mod calls;
mod capacity;
mod endings;
mod import;
mod pages;
mod runs;
mod streaming;
mod support;
