//! Time of single requests of one client: through the daemon, directly on an open database, and directly on a database
//! that is opened for each request. Each write is synced, so creates and updates include the disk.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

#[path = "support/direct.rs"]
mod direct;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use criterion::{Criterion, criterion_group, criterion_main};
use direct::{create, open, perform};
use issue_rpc::{Call, Client, socket_path};
use serde_json::json;

/// A daemon that is killed when this is dropped.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn start(database: &Path) -> (Daemon, Client) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_issue-daemon"))
        .arg("--db")
        .arg(database)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let client = Client::connect(&socket_path(database), "bench").unwrap();
    (Daemon(child), client)
}

fn requests(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let [served, own] = ["served", "own"].map(|name| folder.path().join(name));
    for path in [&served, &own] {
        std::fs::create_dir(path).unwrap();
    }
    let [served, own] = [served, own].map(|path| path.join("issues.db"));
    let (_daemon, mut client) = start(&served);
    let mut direct = open(&own, None);
    let create = create();
    for _ in 0..1_000 {
        client.call(&create).unwrap();
        perform(&mut direct, &create);
    }
    criterion.bench_function("ping, daemon", |bencher| {
        let call = Call::new("ping", json!({}));
        bencher.iter(|| client.call(&call).unwrap());
    });
    for (name, call) in [
        ("list 50", Call::new("list", json!({"limit": 50}))),
        ("create", create),
    ] {
        let mut group = criterion.benchmark_group(name);
        group.bench_function("daemon", |bencher| {
            bencher.iter(|| client.call(&call).unwrap())
        });
        group.bench_function("direct", |bencher| {
            bencher.iter(|| perform(&mut direct, &call))
        });
        group.bench_function("direct, opened for each", |bencher| {
            bencher.iter(|| perform(&mut open(&own, None), &call));
        });
        group.finish();
    }
}

criterion_group!(benches, requests);
criterion_main!(benches);
