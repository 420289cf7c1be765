//! An operation whose instructions are counted: the line of an issue request is written, parsed and answered, and the
//! answer read.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

#[path = "support/direct.rs"]
mod direct;

use std::hint::black_box;

use direct::{create, open, perform};
use issue_rpc::Call;
use serde_json::{Value, json};
use test_kit::operations;

/// Issues in the database.
const ISSUES: usize = 100;

fn main() {
    operations::run(&[("issue", show)]);
}

/// Shows an issue, which takes a read of the database and writes nothing.
fn show(count: u64) {
    let folder = tempfile::tempdir().unwrap();
    let mut direct = open(&folder.path().join("issues.db"), Some(1));
    for _ in 1..ISSUES {
        perform(&mut direct, &create());
    }
    let created = perform(&mut direct, &create());
    let created: Value = serde_json::from_str(created.get()).unwrap();
    let show = Call::new("show", json!({"id": created["id"]}));
    for _ in 0..count {
        black_box(perform(&mut direct, black_box(&show)));
    }
}
