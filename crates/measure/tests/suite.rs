//! The comparison of a suite made by hand, as text.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

#[path = "example/result.rs"]
mod result;
#[path = "example/suite.rs"]
mod suite;

use insta::assert_snapshot;
use measure::report::suite::{markdown, terminal};
use measure::suite::Suite;
use suite::{FOUR, Shape};

/// Two daemons, three levels, two runs; something goes wrong in every way that a report must show.
fn small() -> Suite {
    let mut suite = suite::of(&Shape {
        daemons: &FOUR[..1],
        levels: &[10_000, 100, 1_000],
        runs: 2,
        seconds: 10,
    });
    let rust = suite::of(&Shape {
        daemons: &FOUR[3..],
        levels: &[100, 1_000],
        runs: 1,
        seconds: 10,
    });
    suite.results.extend(rust.results);
    suite::invalidate(&mut suite.results[0]);
    suite::miss(&mut suite.results[0]);
    suite::kill(&mut suite.results[4]);
    suite
}

#[test]
fn a_comparison_says_everything_in_markdown() {
    assert_snapshot!(markdown(&small()).unwrap(), @"");
}

#[test]
fn shown() {
    println!("{}", markdown(&small()).unwrap());
    println!("{}", terminal(&small()).unwrap());
}

#[test]
fn write() {
    let big = suite::of(&Shape {
        daemons: FOUR,
        levels: &[100, 1_000, 5_000, 10_000, 19_000],
        runs: 5,
        seconds: 110,
    });
    let page = measure::report::suite::html(&big).unwrap();
    println!("{} bytes", page.len());
    std::fs::write("/tmp/htmlprobe/page.html", page).unwrap();
}
