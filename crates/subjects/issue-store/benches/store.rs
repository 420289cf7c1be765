//! CPU time of the store: creates in groups, updates, and reads of a database of 100,000 issues, half of which
//! are ready. Nothing is synced, so the disk does not count.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use issue_store::{
    Dependency, DependencyKind, Durability, Filter, NewIssue, Options, Patch, ReadyFilter, Status,
    Store, Timestamp, Writer,
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
            .filter(|_| number % 2 == 1)
            .filter_map(dependency)
            .collect(),
        ..NewIssue::default()
    }
}

/// Returns an issue with a label, an assignee and a text of a fifth of all issues, of a thousandth, or of the others.
fn issue_with_attributes(number: usize, ids: &[String]) -> NewIssue {
    // Apart from the priority, which is the first key of the order.
    let rank = number / 10;
    let share = match (rank % 5, rank % 1_000) {
        (0, _) => "common",
        (_, 1) => "rare",
        _ => "other",
    };
    let mut issue = issue(number, ids);
    issue.labels.push(share.to_owned());
    issue.labels.push(format!("of {}", number % 10));
    issue.assignee = share.to_owned();
    issue.description = format!("Its description of {} has {share} words.", number % 10);
    issue
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
            .map(|number| issue_with_attributes(number, &ids))
            .collect();
        ids.extend(create(&mut writer, &issues));
    }
    let reader = store.reader().unwrap();
    let mut group = criterion.benchmark_group("of 100,000 issues");
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
    // A tenth of all issues, which come last.
    for share in ["common", "of 4", "rare", "absent"] {
        let filters = [
            ("label", vec![share.to_owned()], None, None),
            ("assignee", Vec::new(), Some(share.to_owned()), None),
            ("text", Vec::new(), None, Some(share.to_owned())),
        ];
        for (name, labels, assignee, query) in filters {
            if (share, name) == ("of 4", "assignee") {
                continue;
            }
            let filter = Filter {
                labels,
                assignee,
                query,
                exclude_status: Some(Status::Closed),
                limit: Some(50),
                ..Filter::default()
            };
            group.bench_function(format!("list 50 by {share} {name}"), |bencher| {
                bencher.iter(|| reader.list(&filter).unwrap());
            });
            if filter.query.is_some() {
                continue;
            }
            let filter = ReadyFilter {
                labels: filter.labels,
                assignee: filter.assignee,
                limit: Some(50),
                ..ReadyFilter::default()
            };
            group.bench_function(format!("ready 50 by {share} {name}"), |bencher| {
                bencher.iter(|| reader.ready(&filter).unwrap());
            });
        }
    }
    group.finish();
}

criterion_group!(benches, writes, reads);
criterion_main!(benches);
