//! Tests the README and the book: their links, their calls, their tables, and their step-by-step pages.

mod calls;
mod links;
mod markdown;
mod programs;
mod shape;
mod steps;
mod tables;
mod words;
