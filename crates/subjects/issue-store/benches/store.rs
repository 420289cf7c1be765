//! CPU time of the store: creates in groups, updates, and reads of a database of 100,000 issues with 200,000
//! dependencies. Nothing is synced, so the disk does not count.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use issue_store::{
    Dependency, DependencyKind, Durability, Filter, NewIssue, Options, Patch, ReadyFilter, Store,
    Timestamp, Writer,
};
use tempfile::TempDir;

const ISSUES: usize = 100_000;
/// Writes after which the log is moved into the database, as the daemon does.
const GROUP: usize = 1_000;

fn store() -> (TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        durability: Durability::Os,
        seed: Some(1),
        ..Options::default()
    };
    let store = Store::open(&folder.path().join("issues.db"), options).unwrap();
    (folder, store)
}

fn issue(number: usize, ids: &[String]) -> NewIssue {
    let dependency = |distance: usize| {
        Some(Dependency {
            depends_on: ids.get(number.checked_sub(distance)?)?.clone(),
            kind: DependencyKind::Blocks,
        })
    };
    NewIssue {
        title: format!("issue {number}"),
        priority: (number % 5) as u8,
        labels: vec!["bench".to_owned()],
        dependencies: [GROUP, 2 * GROUP]
            .into_iter()
            .filter_map(dependency)
            .collect(),
        ..NewIssue::default()
    }
}

/// Creates issues in one group. Returns their ids.
fn create(writer: &mut Writer, issues: &[NewIssue]) -> Vec<String> {
    let mut group = writer.begin().unwrap();
    let created = issues.iter().map(|issue| {
        let created = group.apply(Timestamp::now(), |changes| changes.create("bench", issue));
        created.unwrap().id
    });
    let ids = created.collect();
    group.commit().unwrap();
    writer.checkpoint_if_due().unwrap();
    ids
}

fn writes(criterion: &mut Criterion) {
    let (_folder, store) = store();
    let mut writer = store.writer().unwrap();
    let mut group = criterion.benchmark_group("create");
    for size in [1, 8, 64] {
        let issues: Vec<NewIssue> = (0..size).map(|number| issue(number, &[])).collect();
        group.throughput(Throughput::Elements(size as u64));
        group.bench_function(format!("in a group of {size}"), |bencher| {
            bencher.iter(|| create(&mut writer, &issues));
        });
    }
    group.finish();
    let id = create(&mut writer, &[issue(0, &[])]).remove(0);
    let mut priority = 0;
    criterion.bench_function("update, in a group of 1", |bencher| {
        bencher.iter(|| {
            priority = (priority + 1) % 5;
            let patch = Patch {
                priority: Some(priority),
                ..Patch::default()
            };
            let mut group = writer.begin().unwrap();
            let updated = group.apply(Timestamp::now(), |changes| {
                changes.update("bench", &id, &patch)
            });
            black_box(updated.unwrap());
            group.commit().unwrap();
            writer.checkpoint_if_due().unwrap();
        });
    });
}

fn reads(criterion: &mut Criterion) {
    let (_folder, store) = store();
    let mut writer = store.writer().unwrap();
    let mut ids = Vec::with_capacity(ISSUES);
    while ids.len() < ISSUES {
        let issues: Vec<NewIssue> = (ids.len()..ids.len() + GROUP)
            .map(|number| issue(number, &ids))
            .collect();
        ids.extend(create(&mut writer, &issues));
    }
    let reader = store.reader().unwrap();
    let mut group = criterion.benchmark_group("of 100,000 issues with 200,000 dependencies");
    let mut next = 0;
    group.bench_function("show", |bencher| {
        bencher.iter(|| {
            next = (next + 7_919) % ISSUES;
            reader.show(&ids[next]).unwrap()
        });
    });
    let filter = Filter {
        limit: Some(50),
        ..Filter::default()
    };
    group.bench_function("list 50", |bencher| {
        bencher.iter(|| reader.list(&filter).unwrap())
    });
    let filter = ReadyFilter {
        limit: Some(50),
        ..ReadyFilter::default()
    };
    group.bench_function("ready 50", |bencher| {
        bencher.iter(|| reader.ready(&filter).unwrap())
    });
    group.finish();
}

criterion_group!(benches, writes, reads);
criterion_main!(benches);
