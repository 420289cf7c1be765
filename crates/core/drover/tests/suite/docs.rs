//! Tests the README and the book: their links, their calls, their tables, and their step-by-step pages; and what the
//! programs publish about themselves.

mod calls;
mod faults;
mod help;
mod links;
mod markdown;
mod pages;
mod programs;
mod schemas;
mod shape;
mod steps;
mod tables;
mod words;
