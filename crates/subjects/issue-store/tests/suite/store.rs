//! Requests, and what the database holds after them.

use std::collections::HashSet;

use issue_store::{
    Changes, Code, Dependency, DependencyKind, Error, Filter, Group, IssueType, NewIssue, Patch,
    Stats, Status, Timestamp,
};

use crate::support::{Fixture, titled, titles};

#[test]
fn an_issue_is_read_as_it_was_created_and_changed() {
    let mut fixture = Fixture::new();
    let other = fixture.create("other");
    let new = NewIssue {
        title: "Ünï".to_owned(),
        description: "d".to_owned(),
        design: "e".to_owned(),
        acceptance_criteria: "f".to_owned(),
        assignee: "me".to_owned(),
        issue_type: IssueType::Bug,
        priority: 0,
        labels: vec!["b".to_owned(), "a".to_owned(), "a".to_owned()],
        dependencies: vec![Dependency {
            depends_on: other.clone(),
            kind: DependencyKind::Blocks,
        }],
        ..NewIssue::default()
    };
    let created = fixture.apply(|changes| changes.create("a", &new)).unwrap();
    assert_eq!(fixture.reader.show(&created.id).unwrap(), created);
    assert_eq!((created.title.as_str(), created.priority), ("Ünï", 0));
    assert_eq!(created.labels, ["a", "b"]);
    assert_eq!(created.dependencies, new.dependencies);
    let patch = Patch {
        title: Some("new".to_owned()),
        notes: Some("n".to_owned()),
        status: Some(Status::InProgress),
        set_labels: Some(vec!["c".to_owned(), "a".to_owned()]),
        add_labels: vec!["d".to_owned()],
        remove_labels: vec!["c".to_owned()],
        ..Patch::default()
    };
    let id = created.id.clone();
    let updated = fixture
        .apply(|changes| changes.update("b", &id, &patch))
        .unwrap();
    assert_eq!(fixture.reader.show(&id).unwrap(), updated);
    assert_eq!(
        (updated.title.as_str(), updated.notes.as_str()),
        ("new", "n")
    );
    assert_eq!(updated.labels, ["a", "d"]);
    assert_eq!(updated.description, "d");
    assert!(updated.updated_at > created.updated_at);
    assert_eq!(updated.created_at, created.created_at);
    let events = fixture.reader.events(0, 100).unwrap();
    let of_it: Vec<(&str, &str)> = events
        .iter()
        .filter(|event| event.issue == id)
        .map(|event| (event.kind.as_str(), event.value.as_str()))
        .collect();
    assert_eq!(
        of_it,
        [
            ("created", ""),
            ("updated", "title,notes,status"),
            ("label_removed", "b"),
            ("label_added", "c"),
            ("label_added", "d"),
            ("label_removed", "c"),
        ]
    );
    fixture.check();
}

#[test]
fn closed_and_closed_at_agree() {
    let mut fixture = Fixture::new();
    let id = fixture.create("a");
    let closed = fixture
        .apply(|changes| changes.close("a", &id, "done"))
        .unwrap();
    assert_eq!(
        (closed.status, closed.closed_at.is_some()),
        (Status::Closed, true)
    );
    // Closing twice keeps the first time.
    let again = fixture
        .apply(|changes| changes.close("a", &id, ""))
        .unwrap();
    assert_eq!(again, closed);
    let reopened = fixture.apply(|changes| changes.reopen("a", &id)).unwrap();
    assert_eq!((reopened.status, reopened.closed_at), (Status::Open, None));
    let patch = Patch {
        status: Some(Status::Closed),
        ..Patch::default()
    };
    let closed = fixture
        .apply(|changes| changes.update("a", &id, &patch))
        .unwrap();
    assert!(closed.closed_at.is_some());
    fixture.check();
}

#[test]
fn an_issue_is_ready_unless_it_or_an_ancestor_is_blocked() {
    let mut fixture = Fixture::new();
    let [blocker, blocked, child, grandchild] =
        ["blocker", "blocked", "child", "grandchild"].map(|title| fixture.create(title));
    use DependencyKind::{Blocks, DiscoveredFrom, ParentChild, Related};
    fixture.depend(&child, &blocked, ParentChild).unwrap();
    fixture.depend(&grandchild, &child, ParentChild).unwrap();
    assert_eq!(
        fixture.ready(),
        ["blocker", "blocked", "child", "grandchild"]
    );
    fixture.depend(&blocked, &blocker, Blocks).unwrap();
    assert_eq!(fixture.ready(), ["blocker"]);
    fixture.close(&blocker);
    assert_eq!(fixture.ready(), ["blocked", "child", "grandchild"]);
    fixture.reopen(&blocker);
    assert_eq!(fixture.ready(), ["blocker"]);
    fixture.check();
    // A closed parent that is blocked still has blocked children.
    fixture.close(&blocked);
    assert_eq!(fixture.ready(), ["blocker"]);
    fixture
        .apply(|changes| changes.remove_dependency("a", &child, &blocked, None))
        .unwrap();
    assert_eq!(fixture.ready(), ["blocker", "child", "grandchild"]);
    fixture.depend(&child, &blocker, Related).unwrap();
    fixture
        .depend(&grandchild, &blocker, DiscoveredFrom)
        .unwrap();
    assert_eq!(fixture.ready(), ["blocker", "child", "grandchild"]);
    fixture.check();
    let blocked = fixture.reader.blocked(None).unwrap().issues;
    assert_eq!(blocked.len(), 0, "a closed issue is finished");
}

#[test]
fn dependencies_have_no_circles_and_both_ends() {
    let mut fixture = Fixture::new();
    let [a, b, c] = ["a", "b", "c"].map(|title| fixture.create(title));
    use DependencyKind::{Blocks, ParentChild};
    fixture.depend(&a, &b, Blocks).unwrap();
    fixture.depend(&b, &c, ParentChild).unwrap();
    fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> Code {
        result.unwrap_err().code()
    }
    assert_eq!(code(fixture.depend(&c, &a, Blocks)), Code::Cycle);
    assert_eq!(code(fixture.depend(&c, &a, ParentChild)), Code::Cycle);
    assert_eq!(code(fixture.depend(&a, &a, Blocks)), Code::Validation);
    assert_eq!(code(fixture.depend(&a, "t-none", Blocks)), Code::NotFound);
    assert_eq!(code(fixture.depend("t-none", &a, Blocks)), Code::NotFound);
    assert!(!fixture.depend(&a, &b, Blocks).unwrap());
    let none = fixture.apply(|changes| changes.remove_dependency("a", &c, &a, None));
    assert_eq!(code(none), Code::NotFound);
    fixture.check();
    let tree = fixture.reader.tree(&a, 9).unwrap();
    let shown: Vec<(u32, &str)> = tree
        .iter()
        .map(|node| (node.depth, node.title.as_str()))
        .collect();
    assert_eq!(shown, [(0, "a"), (1, "b"), (2, "c")]);
}

#[test]
fn a_request_that_fails_takes_nothing_of_the_others_with_it() {
    let mut fixture = Fixture::new();
    let before = fixture.create("before");
    let now = Timestamp(9_000_000);
    let mut group = fixture.writer.begin().unwrap();
    group
        .apply(now, |changes| changes.create("a", &titled("first")))
        .unwrap();
    let wrong = NewIssue {
        labels: vec!["kept".to_owned(), String::new()],
        ..titled("second")
    };
    let failed = group.apply(now, |changes| changes.create("a", &wrong));
    assert_eq!(failed.unwrap_err().code(), Code::Validation);
    group
        .apply(now, |changes| {
            changes.add_dependency("a", &before, "t-none", DependencyKind::Blocks)
        })
        .unwrap_err();
    group
        .apply(now, |changes| changes.create("a", &titled("third")))
        .unwrap();
    // Nothing is visible before the commit.
    assert_eq!(fixture.reader.stats().unwrap().total, 1);
    group.commit().unwrap();
    let stats = Stats {
        total: 3,
        open: 3,
        ready: 3,
        ..Stats::default()
    };
    assert_eq!(fixture.reader.stats().unwrap(), stats);
    let filter = Filter {
        labels: vec!["kept".to_owned()],
        ..Filter::default()
    };
    assert_eq!(titles(&fixture.reader, &filter), Vec::<String>::new());
    // A group that is dropped stores nothing.
    let mut group = fixture.writer.begin().unwrap();
    group
        .apply(now, |changes| changes.create("a", &titled("fourth")))
        .unwrap();
    drop(group);
    assert_eq!(fixture.reader.stats().unwrap(), stats);
    fixture.check();
}

#[test]
fn ids_share_their_beginning_in_a_transaction_only() {
    let mut fixture = Fixture::new();
    let beginning = |id: &str| id["t-".len()..].chars().next();
    let each: HashSet<_> = (0..20).map(|_| beginning(&fixture.create("a"))).collect();
    assert!(each.len() > 1, "{each:?}");
    let together: HashSet<_> = fixture
        .apply(|changes| {
            let ids = (0..20).map(|_| changes.create("a", &titled("a")).map(|issue| issue.id));
            ids.map(|id| Ok(beginning(&id?))).collect()
        })
        .unwrap();
    assert_eq!(together.len(), 1);
}

#[test]
fn ids_are_short_and_children_are_numbered() {
    let mut fixture = Fixture::new();
    let parent = fixture.create("parent");
    assert_eq!(parent.len(), "t-".len() + 4);
    let child = NewIssue {
        parent: Some(parent.clone()),
        ..titled("child")
    };
    let ids = [1, 2].map(|_| {
        fixture
            .apply(|changes| changes.create("a", &child))
            .unwrap()
            .id
    });
    assert_eq!(ids, [format!("{parent}.1"), format!("{parent}.2")]);
    let first = fixture.reader.show(&ids[0]).unwrap();
    assert_eq!(first.dependencies[0].kind, DependencyKind::ParentChild);
    let taken = NewIssue {
        id: Some(parent.clone()),
        ..titled("again")
    };
    let error = fixture
        .apply(|changes| changes.create("a", &taken))
        .unwrap_err();
    assert_eq!(error.code(), Code::Conflict);
    let reader = &fixture.reader;
    assert_eq!(reader.resolve(&parent).unwrap(), parent);
    assert_eq!(
        reader.resolve(&parent[2..]).unwrap_err().code(),
        Code::Validation
    );
    assert_eq!(reader.resolve(&ids[0][2..]).unwrap(), ids[0]);
    assert!(matches!(
        reader.resolve("t-").unwrap_err(),
        Error::Ambiguous { .. }
    ));
    assert_eq!(reader.resolve("zzzzz").unwrap_err().code(), Code::NotFound);
}

#[test]
fn an_answer_is_stored_with_its_request_or_not_at_all() {
    let mut fixture = Fixture::new();
    fixture
        .apply(|changes| {
            changes.create("a", &titled("kept"))?;
            changes.keep_answer("key", "answer")
        })
        .unwrap();
    let failed = fixture.apply(|changes| {
        changes.keep_answer("other", "answer")?;
        changes.create("a", &titled(""))
    });
    assert!(failed.is_err());
    let answers = fixture.apply(|changes| Ok([changes.answer("key")?, changes.answer("other")?]));
    assert_eq!(answers.unwrap(), [Some("answer".to_owned()), None]);
    let keep = |changes: &mut Changes<'_>| {
        (0..1_000).try_for_each(|number| changes.keep_answer(&number.to_string(), ""))
    };
    fixture.apply(keep).unwrap();
    let now = fixture.now;
    for is_last in [false, true] {
        let forgotten = fixture.apply(|changes| changes.forget_answers(Timestamp(now + 1)));
        assert_eq!(forgotten.unwrap(), is_last);
    }
    let answer = fixture.apply(|changes| changes.answer("key"));
    assert_eq!(answer.unwrap(), None);
}

#[test]
fn times_do_not_go_back_when_the_clock_does() {
    let mut fixture = Fixture::new();
    fixture.now = 1_000_000_000;
    let id = fixture.create("a");
    let created = fixture.reader.show(&id).unwrap();
    fixture.now = 0;
    let patch = Patch {
        priority: Some(1),
        ..Patch::default()
    };
    let updated = fixture
        .apply(|changes| changes.update("a", &id, &patch))
        .unwrap();
    assert_eq!(updated.updated_at, created.created_at);
    fixture.close(&id);
    let closed = fixture.reader.show(&id).unwrap();
    assert_eq!(
        (closed.closed_at, closed.updated_at),
        (Some(created.created_at), created.created_at)
    );
    fixture.reopen(&id);
    assert_eq!(fixture.reader.show(&id).unwrap().closed_at, None);
    // Ids that were drawn before the clock went back are not drawn again.
    let others: Vec<String> = (0..100).map(|_| fixture.create("b")).collect();
    assert!(!others.contains(&id));
    fixture.check();
}

#[test]
fn of_many_claims_of_an_issue_one_succeeds() {
    let mut fixture = Fixture::new();
    let jobs: Vec<String> = (0..20).map(|_| fixture.create("job")).collect();
    let agents: Vec<_> = (0..8)
        .map(|agent| {
            let (store, jobs) = (fixture.store.clone(), jobs.clone());
            std::thread::spawn(move || {
                let mut writer = store.writer().unwrap();
                let name = format!("agent-{agent}");
                let mut claim = |job: &&String| {
                    let claimed =
                        writer.apply(Timestamp::now(), |changes| changes.claim(&name, job, &name));
                    match claimed {
                        Ok(issue) => issue.assignee == name,
                        Err(error) => {
                            assert_eq!(error.code(), Code::Conflict, "{error}");
                            false
                        }
                    }
                };
                jobs.iter().filter(&mut claim).count()
            })
        })
        .collect();
    let claims: usize = agents.into_iter().map(|agent| agent.join().unwrap()).sum();
    assert_eq!(claims, jobs.len());
    assert_eq!(fixture.ready(), Vec::<String>::new());
    fixture.check();
}

#[test]
fn a_claim_is_of_an_open_issue_and_can_be_repeated_by_its_holder() {
    let mut fixture = Fixture::new();
    let id = fixture.create("a");
    let mut claim = |id: &str, name: &str| {
        let claimed = fixture.apply(|changes| changes.claim("actor", id, name));
        claimed.map_err(|error| (error.code(), error.to_string()))
    };
    assert_eq!(claim(&id, "").unwrap_err().0, Code::Validation);
    assert_eq!(claim("t-none", "ann").unwrap_err().0, Code::NotFound);
    let claimed = claim(&id, "ann").unwrap();
    assert_eq!(
        (claimed.status, claimed.assignee.as_str()),
        (Status::InProgress, "ann")
    );
    assert_eq!(claim(&id, "ann").unwrap(), claimed);
    let (code, problem) = claim(&id, "bob").unwrap_err();
    assert_eq!(code, Code::Conflict);
    assert!(
        problem.contains("is in_progress and assigned to ann"),
        "{problem}"
    );
    let events = fixture.reader.events(0, 9).unwrap();
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["created", "claimed"], "a repetition is no change");
    fixture.close(&id);
    let closed = fixture.apply(|changes| changes.claim("a", &id, "ann"));
    assert_eq!(closed.unwrap_err().code(), Code::Conflict);
}

#[test]
fn dependencies_that_do_not_block_may_form_a_cycle_and_stand_beside_those_that_do() {
    let mut fixture = Fixture::new();
    let [work, bug] = ["work", "bug"].map(|title| fixture.create(title));
    use DependencyKind::{Blocks, DiscoveredFrom, Related};
    // A bug that was found during the work blocks it.
    fixture.depend(&bug, &work, DiscoveredFrom).unwrap();
    assert!(fixture.depend(&work, &bug, Blocks).unwrap());
    assert!(fixture.depend(&work, &bug, Related).unwrap());
    assert!(fixture.depend(&bug, &work, Related).unwrap());
    assert_eq!(fixture.ready(), ["bug"]);
    assert_eq!(fixture.reader.tree(&work, 9).unwrap().len(), 5);
    let kinds = |fixture: &Fixture| {
        let dependencies = fixture.reader.show(&work).unwrap().dependencies;
        let kinds = dependencies.into_iter().map(|dependency| dependency.kind);
        kinds.collect::<Vec<_>>()
    };
    assert_eq!(kinds(&fixture), [Blocks, Related]);
    let remove = |fixture: &mut Fixture, kind| {
        fixture
            .apply(|changes| changes.remove_dependency("a", &work, &bug, kind))
            .unwrap();
    };
    remove(&mut fixture, Some(Blocks));
    assert_eq!(kinds(&fixture), [Related]);
    assert_eq!(fixture.ready(), ["work", "bug"]);
    fixture.depend(&work, &bug, Blocks).unwrap();
    remove(&mut fixture, None);
    assert_eq!(kinds(&fixture), []);
    fixture.check();
}

#[test]
fn a_deleted_issue_leaves_nothing_and_blocks_nobody() {
    let mut fixture = Fixture::new();
    let [first, second, third] = ["first", "second", "third"].map(|title| fixture.create(title));
    use DependencyKind::{Blocks, ParentChild};
    fixture.depend(&second, &first, Blocks).unwrap();
    fixture.depend(&third, &second, ParentChild).unwrap();
    fixture
        .apply(|changes| changes.add_label("a", &second, "x"))
        .unwrap();
    fixture
        .apply(|changes| changes.comment("a", &second, "text"))
        .unwrap();
    let mut delete =
        |id: &str, force: bool| fixture.apply(|changes| changes.delete("a", id, force));
    let refused = delete(&first, false).unwrap_err();
    assert_eq!(refused.code(), Code::Conflict);
    assert!(refused.to_string().contains(&second), "{refused}");
    delete(&first, true).unwrap();
    assert_eq!(delete(&first, true).unwrap_err().code(), Code::NotFound);
    delete(&second, true).unwrap();
    assert_eq!(fixture.ready(), ["third"]);
    let events = fixture.reader.events(0, 99).unwrap();
    assert!(events.iter().all(|event| event.issue == third));
    fixture.check();
}

#[test]
fn an_epic_is_blocked_with_all_of_its_children() {
    let mut fixture = Fixture::new();
    let [blocker, epic] = ["blocker", "epic"].map(|title| fixture.create(title));
    let child = NewIssue {
        parent: Some(epic.clone()),
        ..titled("child")
    };
    let create = |changes: &mut Changes<'_>| {
        for _ in 0..300 {
            changes.create("a", &child)?;
        }
        Ok(())
    };
    fixture.apply(create).unwrap();
    fixture
        .depend(&epic, &blocker, DependencyKind::Blocks)
        .unwrap();
    assert_eq!(fixture.ready(), ["blocker"]);
    fixture.check();
    fixture.close(&blocker);
    assert_eq!(fixture.ready().len(), 301);
    fixture.check();
}

#[test]
fn a_failure_without_a_savepoint_tears_the_group_only_if_it_had_changed_something() {
    let mut fixture = Fixture::new();
    let now = Timestamp(1);
    let create = |group: &mut Group<'_>, title: &str, label: Option<&str>| {
        let new = NewIssue {
            labels: label.map(str::to_owned).into_iter().collect(),
            ..titled(title)
        };
        group
            .apply(now, |changes| changes.create("a", &new))
            .is_ok()
    };
    let mut group = fixture.writer.begin().unwrap().without_savepoints();
    assert!(create(&mut group, "before", None));
    let closed = group.apply(now, |changes| changes.close("a", "nobody", ""));
    assert!(closed.is_err() && !group.is_torn());
    // Its label is refused after its row is stored.
    assert!(!create(&mut group, "half", Some("")) && group.is_torn());
    group.restart().unwrap();
    assert!(create(&mut group, "after", Some("l")));
    assert!(!create(&mut group, "half", Some("")) && !group.is_torn());
    group.commit().unwrap();
    assert_eq!(titles(&fixture.reader, &Filter::default()), ["after"]);
    fixture.check();
}
