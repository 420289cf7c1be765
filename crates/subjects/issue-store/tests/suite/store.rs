//! Requests, and what the database holds after them.

use issue_store::{
    Changes, Code, Dependency, DependencyKind, Error, Filter, IssueType, NewIssue, Options, Patch,
    Reader, ReadyFilter, Sort, Stats, Status, Store, Timestamp, Writer,
};

/// A database in a folder of its own.
struct Fixture {
    _folder: tempfile::TempDir,
    store: Store,
    writer: Writer,
    reader: Reader,
    now: i64,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            prefix: Some("t".to_owned()),
            ..Options::default()
        };
        let store = Store::open(&folder.path().join("issues.db"), options).unwrap();
        Self {
            writer: store.writer().unwrap(),
            reader: store.reader().unwrap(),
            store,
            _folder: folder,
            now: 1_000_000,
        }
    }

    /// Performs a request, each a second after the one before.
    fn apply<T>(
        &mut self,
        request: impl FnOnce(&mut Changes<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.now += 1_000_000;
        self.writer.apply(Timestamp(self.now), request)
    }

    fn create(&mut self, title: &str) -> String {
        let new = titled(title);
        self.apply(|changes| changes.create("a", &new)).unwrap().id
    }

    fn depend(&mut self, id: &str, on: &str, kind: DependencyKind) -> Result<bool, Error> {
        self.apply(|changes| changes.add_dependency("a", id, on, kind))
    }

    fn close(&mut self, id: &str) {
        self.apply(|changes| changes.close("a", id, "")).unwrap();
    }

    fn reopen(&mut self, id: &str) {
        self.apply(|changes| changes.reopen("a", id)).unwrap();
    }

    fn ready(&self) -> Vec<String> {
        let ready = self.reader.ready(&ReadyFilter::default()).unwrap();
        ready.into_iter().map(|issue| issue.title).collect()
    }

    /// Asserts that all that is stored twice agrees.
    fn check(&self) {
        assert_eq!(self.reader.check().unwrap(), Vec::<String>::new());
    }
}

fn titled(title: &str) -> NewIssue {
    NewIssue {
        title: title.to_owned(),
        ..NewIssue::default()
    }
}

fn titles(reader: &Reader, filter: &Filter) -> Vec<String> {
    let listed = reader.list(filter).unwrap();
    listed.into_iter().map(|issue| issue.title).collect()
}

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
    let blocked = fixture.reader.blocked().unwrap();
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
    assert_eq!(reader.ready(&ready).unwrap()[0].title, "a");
    let stale = reader.stale(Timestamp(4_000_000), None).unwrap();
    assert_eq!(stale.len(), 2);
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
fn processes_queue_for_the_write_lock_and_lose_nothing() {
    let fixture = Fixture::new();
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            // Each has a lock file and a connection of its own, as a process has.
            let store = fixture.store.clone();
            std::thread::spawn(move || {
                let mut writer = store.writer().unwrap();
                let titles = (0..50).map(|number| format!("{thread}-{number}"));
                let create = |title: String| {
                    let created = writer.apply(Timestamp::now(), |changes| {
                        changes.create("a", &titled(&title))
                    });
                    created.unwrap().id
                };
                titles.map(create).collect::<Vec<_>>()
            })
        })
        .collect();
    let mut ids: Vec<String> = threads
        .into_iter()
        .flat_map(|thread| thread.join().unwrap())
        .collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 200);
    assert_eq!(fixture.reader.stats().unwrap().total, 200);
    fixture.check();
}

#[test]
fn another_program_s_database_and_a_later_version_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE t (a)").unwrap();
    let error = Store::open(&path, Options::default()).unwrap_err();
    assert!(error.to_string().contains("another program"), "{error}");
    let path = folder.path().join("later.db");
    let store = Store::open(&path, Options::default()).unwrap();
    let writer = store.writer().unwrap();
    writer
        .connection()
        .pragma_update(None, "user_version", 99)
        .unwrap();
    let error = Store::open(&path, Options::default()).unwrap_err();
    assert!(error.to_string().contains("newer program"), "{error}");
    let path = folder.path().join("text.db");
    std::fs::write(&path, "no database ".repeat(1_000)).unwrap();
    let error = Store::open(&path, Options::default()).unwrap_err();
    assert!(error.to_string().contains("not a database"), "{error}");
}

#[test]
fn a_checkpoint_empties_the_log_unless_somebody_reads() {
    let mut fixture = Fixture::new();
    for number in 0..100 {
        fixture.create(&format!("{number}"));
    }
    assert_eq!(fixture.writer.checkpoint().unwrap(), 0);
    let log = fixture.store.path().with_extension("db-wal");
    let before = std::fs::metadata(&log).unwrap().len();
    fixture.create("one more");
    // The log begins at its start again.
    assert_eq!(std::fs::metadata(&log).unwrap().len(), before);
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
fn what_does_not_block_may_form_a_circle_and_stand_beside_what_does() {
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
fn too_many_ids_or_labels_are_invalid() {
    let mut fixture = Fixture::new();
    let many = |number: usize| (0..number).map(|id| id.to_string()).collect::<Vec<_>>();
    let reader = fixture.store.reader().unwrap();
    let code = |filter: &Filter| match (reader.list(filter), reader.count(filter)) {
        (Err(one), Err(other)) if one.code() == other.code() => Some(one.code()),
        (Ok(listed), Ok(0)) if listed.is_empty() => None,
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
fn a_database_remembers_the_prefix_of_its_ids() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("issues.db");
    let create = |prefix: Option<&str>| {
        let options = Options {
            prefix: prefix.map(str::to_owned),
            ..Options::default()
        };
        let mut writer = Store::open(&path, options).unwrap().writer().unwrap();
        let created = writer.apply(Timestamp::now(), |changes| {
            changes.create("a", &titled("title"))
        });
        created.unwrap().id.split_once('-').unwrap().0.to_owned()
    };
    assert_eq!(create(Some("web")), "web");
    assert_eq!(create(None), "web");
    assert_eq!(create(Some("other")), "other", "for this program");
    assert_eq!(create(None), "web");
}

#[test]
fn a_database_with_another_name_is_refused() {
    let fixture = Fixture::new();
    let path = fixture.store.path();
    let other = path.with_file_name("other.db");
    std::fs::hard_link(path, &other).unwrap();
    for path in [path, &other] {
        let error = Store::open(path, Options::default()).unwrap_err();
        assert!(error.to_string().contains("hard links"), "{error}");
    }
    std::fs::remove_file(&other).unwrap();
    Store::open(path, Options::default()).unwrap();
}

#[test]
fn the_log_is_cut_after_a_long_reader_and_statements_leave_no_files() {
    let mut fixture = Fixture::new();
    let connection = fixture.writer.connection();
    let temporary: i64 = connection
        .pragma_query_value(None, "temp_store", |row| row.get(0))
        .unwrap();
    assert_eq!(temporary, 2, "in memory");
    let log = fixture.store.path().with_extension("db-wal");
    let bytes = || std::fs::metadata(&log).unwrap().len();
    // A reader of another program keeps the log from starting again.
    let long = rusqlite::Connection::open(fixture.store.path()).unwrap();
    long.execute_batch("BEGIN; SELECT count(*) FROM issues")
        .unwrap();
    let large = NewIssue {
        description: "x".repeat(4 << 20),
        ..titled("large")
    };
    while bytes() < 20 << 20 {
        fixture
            .apply(|changes| changes.create("a", &large))
            .unwrap();
    }
    long.execute_batch("COMMIT").unwrap();
    assert_eq!(fixture.writer.checkpoint().unwrap(), 0);
    fixture.create("one more");
    assert!(bytes() <= 16 << 20, "{}", bytes());
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
