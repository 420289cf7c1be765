//! Lists: their conditions, their order and their pages.

use std::collections::HashSet;

use issue_store::{
    Code, Filter, IssuePage, NewIssue, PageSize, Patch, ReadyFilter, Sort, Status, Timestamp,
};
use proptest::prelude::*;

use crate::support::{Fixture, titled, titles};

#[test]
fn lists_have_their_order_their_conditions_and_their_limit() {
    let mut fixture = Fixture::new();
    for (title, priority, label) in [("a", 2, "x"), ("b", 0, "y"), ("c", 2, "x"), ("d", 4, "z")] {
        let new = NewIssue {
            priority,
            labels: vec![label.to_owned()],
            ..titled(title)
        };
        fixture.apply(|changes| changes.create("a", &new)).unwrap();
    }
    let reader = &fixture.reader;
    assert_eq!(titles(reader, &Filter::default()), ["b", "c", "a", "d"]);
    assert_eq!(fixture.ready(), ["b", "a", "c", "d"]);
    let any = Filter {
        labels_any: vec!["x".to_owned(), "z".to_owned()],
        limit: Some(2),
        ..Filter::default()
    };
    assert_eq!(titles(reader, &any), ["c", "a"]);
    assert_eq!(reader.count(&any).unwrap(), 3);
    let query = Filter {
        query: Some("%".to_owned()),
        ..Filter::default()
    };
    assert_eq!(titles(reader, &query), Vec::<String>::new());
    let after = Filter {
        created_after: Some(Timestamp(4_000_000)),
        status: Some(Status::Open),
        ..Filter::default()
    };
    assert_eq!(titles(reader, &after), ["c", "d"]);
    let ready = ReadyFilter {
        labels: vec!["x".to_owned()],
        limit: Some(1),
        ..ReadyFilter::default()
    };
    assert_eq!(reader.ready(&ready).unwrap().issues[0].title, "a");
    let stale = reader
        .stale(Timestamp(4_000_000), None, None)
        .unwrap()
        .issues;
    assert_eq!(stale.len(), 2);
}

#[test]
fn too_many_ids_or_labels_are_invalid() {
    let mut fixture = Fixture::new();
    let many = |number: usize| (0..number).map(|id| id.to_string()).collect::<Vec<_>>();
    let reader = fixture.store.reader().unwrap();
    let code = |filter: &Filter| match (reader.list(filter), reader.count(filter)) {
        (Err(one), Err(other)) if one.code() == other.code() => Some(one.code()),
        (Ok(listed), Ok(0)) if listed.issues.is_empty() => None,
        other => panic!("{other:?}"),
    };
    for (number, expected) in [(100, None), (40_000, Some(Code::Validation))] {
        let (ids, labels) = (many(number), many(number));
        let default = Filter::default;
        assert_eq!(code(&Filter { ids, ..default() }), expected);
        let labels_any = labels.clone();
        assert_eq!(
            code(&Filter {
                labels_any,
                ..default()
            }),
            expected
        );
        assert_eq!(
            code(&Filter {
                labels,
                ..default()
            }),
            expected
        );
        let ready = ReadyFilter {
            labels: many(number),
            ..ReadyFilter::default()
        };
        let ready = reader.ready(&ready).map_err(|error| error.code());
        assert_eq!(ready.err(), expected);
    }
    let new = NewIssue {
        labels: many(101),
        ..titled("a")
    };
    let refused = fixture.apply(|changes| changes.create("a", &new));
    let refused = refused.unwrap_err().to_string();
    assert_eq!(refused, "labels: 101 are too many: 100 are allowed");
}

#[test]
fn a_list_is_sorted_as_asked_and_leaves_out_a_status() {
    let mut fixture = Fixture::new();
    let [second, _, first] = ["b", "c", "a"].map(|title| fixture.create(title));
    fixture
        .apply(|changes| changes.add_label("a", &second, "x"))
        .unwrap();
    fixture.close(&first);
    let sorted = |sort| {
        let filter = Filter {
            sort,
            ..Filter::default()
        };
        titles(&fixture.reader, &filter).join("")
    };
    assert_eq!(sorted(Sort::Priority), "acb");
    assert_eq!(sorted(Sort::Created), "acb");
    assert_eq!(sorted(Sort::Updated), "abc");
    assert_eq!(sorted(Sort::Title), "abc");
    let unfinished = Filter {
        exclude_status: Some(Status::Closed),
        ..Filter::default()
    };
    assert_eq!(titles(&fixture.reader, &unfinished), ["c", "b"]);
}

fn ids(page: &IssuePage) -> Vec<String> {
    page.issues.iter().map(|issue| issue.id.clone()).collect()
}

#[test]
fn a_page_ends_after_a_number_of_issues_or_bytes() {
    let mut fixture = Fixture::new();
    for title in ["a,b", "c", "d"] {
        fixture.create(title);
    }
    let pages = |issues, bytes| {
        let reader = fixture.store.reader().unwrap();
        let reader = reader.with_page_size(PageSize { issues, bytes });
        let (mut sizes, mut filter) = (Vec::new(), Filter::default());
        loop {
            let page = reader.list(&filter).unwrap();
            sizes.push(page.issues.len());
            filter.after = page.next;
            if filter.after.is_none() {
                return sizes;
            }
        }
    };
    assert_eq!(pages(2, 1_000), [2, 1]);
    assert_eq!(pages(100, 4), [3, 0], "they have 5 bytes");
    assert_eq!(pages(100, 2), [2, 1, 0]);
    assert_eq!(pages(100, 0), [1, 1, 1, 0]);
    let reader = fixture.store.reader().unwrap();
    let reader = reader.with_page_size(PageSize {
        issues: 100,
        bytes: 4,
    });
    let page = reader.export(0, 100, false).unwrap();
    assert_eq!((page.records.len(), page.next), (2, Some(2)));
    let page = reader.export(2, 100, false).unwrap();
    assert_eq!((page.records.len(), page.next), (1, None));
    assert_eq!(reader.events(0, 101).unwrap_err().code(), Code::Validation);
}

#[test]
fn a_text_is_found_as_it_is_written_but_for_the_case_of_letters() {
    let mut fixture = Fixture::new();
    for title in ["100 % of a_b", r"C:\dir", "abc", "ABC d"] {
        fixture.create(title);
    }
    // Rare ones and common ones are found in other ways.
    for (query, expected) in [
        ("100 %", &["100 % of a_b"][..]),
        ("A_B", &["100 % of a_b"]),
        (r":\D", &[r"C:\dir"]),
        ("aBc", &["ABC d", "abc"]),
        ("", &["ABC d", "abc", r"C:\dir", "100 % of a_b"]),
        ("a%c", &[]),
    ] {
        let filter = Filter {
            query: Some(query.to_owned()),
            ..Filter::default()
        };
        assert_eq!(titles(&fixture.reader, &filter), expected, "{query}");
    }
    let filter = Filter {
        query: Some("%".repeat(1_001)),
        ..Filter::default()
    };
    let error = fixture.reader.list(&filter).unwrap_err().to_string();
    assert_eq!(error, "query: has 1001 bytes: 1000 are allowed");
    let longest = Filter {
        query: Some("%".repeat(1_000)),
        ..Filter::default()
    };
    assert_eq!(titles(&fixture.reader, &longest), Vec::<String>::new());
}

#[test]
fn a_key_of_another_order_is_invalid() {
    let fixture = Fixture::new();
    for (sort, after) in [
        (Sort::Priority, "1,2"),
        (Sort::Priority, "1,x,3"),
        (Sort::Created, ""),
        (Sort::Title, "a,b"),
    ] {
        let filter = Filter {
            sort,
            after: Some(after.to_owned()),
            ..Filter::default()
        };
        let error = fixture.reader.list(&filter).unwrap_err();
        assert_eq!(error.code(), Code::Validation);
        assert!(error.to_string().starts_with("after: "), "{error}");
    }
}

/// A change between two pages.
#[derive(Debug, Clone, Copy)]
enum Change {
    Create(u8),
    Close(usize),
    SetPriority(usize, u8),
    SetTitle(usize, usize),
    Delete(usize),
}

/// Titles, some with the comma that separates the parts of a key.
const TITLES: [&str; 5] = ["", ",", "b", "b,1", "1,2,3"];

fn change() -> impl Strategy<Value = Change> {
    let issue = 0..20_usize;
    prop_oneof![
        (0..5_u8).prop_map(Change::Create),
        issue.clone().prop_map(Change::Close),
        (issue.clone(), 0..5_u8).prop_map(|(issue, to)| Change::SetPriority(issue, to)),
        (issue.clone(), 0..TITLES.len()).prop_map(|(issue, to)| Change::SetTitle(issue, to)),
        issue.prop_map(Change::Delete),
    ]
}

fn one_of_titles(title: usize, priority: u8) -> NewIssue {
    NewIssue {
        priority,
        ..titled(&format!("t{}", TITLES[title]))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_pages_of_a_list_are_the_list_whatever_others_write(
        issues in prop::collection::vec((0..TITLES.len(), 0..5_u8, 0..2_i64), 1..20),
        changes in prop::collection::vec(change(), 0..20),
        order in 0..5_usize,
        limit in 1..6_u32,
    ) {
        let mut fixture = Fixture::new();
        let mut now = 0;
        for (title, priority, later) in &issues {
            // Some are created at the same time.
            now += later;
            let new = one_of_titles(*title, *priority);
            fixture.writer.apply(Timestamp(now), |changes| changes.create("a", &new)).unwrap();
        }
        let sort = [Sort::Priority, Sort::Created, Sort::Updated, Sort::Title].get(order);
        let list = |limit, after: Option<String>| match sort {
            Some(sort) => fixture.reader.list(&Filter { sort: *sort, limit, after, ..Filter::default() }),
            None => fixture.reader.ready(&ReadyFilter { limit, after, ..ReadyFilter::default() }),
        };
        let whole = ids(&list(None, None).unwrap());
        prop_assert_eq!(whole.len(), issues.len());
        let (mut listed, mut changed) = (Vec::new(), HashSet::new());
        let (mut after, mut changes) = (None, changes.into_iter());
        loop {
            let page = list(Some(limit), after).unwrap();
            prop_assert!(page.issues.len() <= limit as usize);
            listed.extend(ids(&page));
            after = page.next;
            if after.is_none() {
                break;
            }
            let Some(change) = changes.next() else { continue };
            now += 1;
            let id = |issue: usize| whole[issue % whole.len()].clone();
            let changed_id = fixture.writer.apply(Timestamp(now), |changes| match change {
                Change::Create(priority) => Ok(changes.create("a", &one_of_titles(0, priority))?.id),
                Change::Close(issue) => Ok(changes.close("a", &id(issue), "")?.id),
                Change::SetPriority(issue, to) => {
                    let patch = Patch { priority: Some(to), ..Patch::default() };
                    Ok(changes.update("a", &id(issue), &patch)?.id)
                }
                Change::SetTitle(issue, to) => {
                    let patch = Patch { title: Some(one_of_titles(to, 0).title), ..Patch::default() };
                    Ok(changes.update("a", &id(issue), &patch)?.id)
                }
                Change::Delete(issue) => changes.delete("a", &id(issue), true).map(|()| id(issue)),
            });
            // An issue that was deleted before cannot be changed.
            changed.extend(changed_id);
        }
        let unchanged = |ids: Vec<String>| ids.into_iter().filter(|id| !changed.contains(id)).collect::<Vec<_>>();
        prop_assert_eq!(unchanged(listed), unchanged(whole));
    }
}
