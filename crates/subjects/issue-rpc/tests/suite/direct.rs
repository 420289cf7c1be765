//! Operations on a database, as the daemon and direct mode perform them.

use std::path::PathBuf;

use issue_rpc::{Code, Direct, Read, Request};
use issue_store::{Filter, Options, PageSize, Store, Timestamp};
use serde_json::{Value, json};
use test_kit::assert_contains;

struct Database {
    direct: Direct,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Database {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("issues.db");
        Self {
            direct: Direct::open(&path, Options::default()).unwrap(),
            path,
            _folder: folder,
        }
    }

    fn send(&mut self, request: &Value) -> Value {
        let answer = match Request::parse(request.to_string().as_bytes()) {
            Ok(request) => self.direct.call(request),
            Err(rejection) => rejection.answer,
        };
        serde_json::from_str(&answer.line(None)).unwrap()
    }

    fn call(&mut self, operation: &str, args: impl Into<Value>) -> Value {
        let args = args.into();
        self.send(&json!({"operation": operation, "args": args, "actor": "me"}))
    }

    fn data(&mut self, operation: &str, args: impl Into<Value>) -> Value {
        let answer = self.call(operation, args);
        assert_eq!(answer["success"], true, "{operation}: {answer}");
        answer["data"].clone()
    }

    fn create(&mut self, title: &str) -> String {
        let issue = self.data("create", json!({"title": title}));
        issue["id"].as_str().unwrap().to_owned()
    }

    fn count(&mut self) -> u64 {
        self.data("count", json!({}))["count"].as_u64().unwrap()
    }
}

#[test]
fn each_operation_does_what_its_name_says() {
    let mut database = Database::new();
    let (a, b) = (database.create("first"), database.create("second"));
    let updated = database.data(
        "update",
        json!({"id": a, "status": "in_progress", "add_labels": ["x"]}),
    );
    assert_eq!(
        (&updated["status"], &updated["labels"]),
        (&json!("in_progress"), &json!(["x"]))
    );
    assert_eq!(
        database.data("dep_add", json!({"id": b, "depends_on": a})),
        json!({"added": true})
    );
    assert_eq!(
        database.data("dep_add", json!({"id": b, "depends_on": a})),
        json!({"added": false})
    );
    assert_eq!(
        database.call("dep_add", json!({"id": a, "depends_on": b}))["code"],
        "cycle"
    );
    assert_eq!(database.data("ready", json!({})), json!({"issues": []}));
    let blocked = database.data("blocked", Value::Null);
    assert_eq!(blocked["issues"][0]["blocked_by"], json!([a]));
    assert_eq!(
        database.data("dep_tree", json!({"id": b}))["nodes"][1]["id"],
        json!(a)
    );
    database.data("close", json!({"id": a, "reason": "done"}));
    assert_eq!(
        database.data("ready", json!({}))["issues"][0]["id"],
        json!(b)
    );
    database.data("reopen", json!({"id": a}));
    database.data("dep_remove", json!({"id": b, "depends_on": a}));
    assert_eq!(
        database.data("label_remove", json!({"id": a, "label": "x"}))["labels"],
        Value::Null
    );
    assert_eq!(
        database.data("label_add", json!({"id": a, "label": "y"}))["labels"],
        json!(["y"])
    );
    let comment = database.data("comment_add", json!({"id": a, "text": "hello"}));
    assert_eq!(comment["author"], "me");
    assert_eq!(
        database.data("comment_list", json!({"id": a}))["comments"],
        json!([comment])
    );
    assert_eq!(
        database.data("resolve_id", json!({"id": &a[..a.len() - 1]})),
        json!({"id": a})
    );
    assert_eq!(database.data("stats", json!({}))["total"], 2);
    assert_eq!(
        database.data("list", json!({"labels": ["y"]}))["issues"][0]["id"],
        json!(a)
    );
    assert_eq!(
        database.data("stale", json!({"since": "2100-01-01T00:00:00Z"}))["issues"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    let events = database.data("get_mutations", json!({"limit": 2}));
    assert_eq!(events["events"][1]["issue"], json!(b));
    assert_eq!(
        database.call("show", json!({"id": "none"}))["code"],
        "not_found"
    );
    assert_eq!(
        database.call("ping", json!({}))["code"],
        "unknown_operation"
    );
}

#[test]
fn a_batch_keeps_what_its_mode_says() {
    let mut database = Database::new();
    let batch = |mode: &str| {
        json!({"mode": mode, "operations": [
            {"operation": "create", "args": {"title": "one"}},
            {"operation": "create", "args": {"title": ""}},
            {"operation": "list"},
            {"operation": "create", "args": {"title": "three"}},
        ]})
    };
    for (mode, kept, results) in [("stop", 1, 2), ("atomic", 0, 2), ("continue", 2, 4)] {
        let before = database.count();
        let answer = database.call("batch", batch(mode));
        assert_eq!(
            (&answer["success"], &answer["code"]),
            (&json!(false), &json!("validation")),
            "{answer}"
        );
        assert_eq!(answer["data"]["kept"], kept, "{answer}");
        assert_eq!(
            answer["data"]["results"].as_array().unwrap().len(),
            results,
            "{answer}"
        );
        assert_eq!(database.count() - before, kept, "{mode}");
    }
    let whole = json!({"mode": "atomic", "operations": [
        {"operation": "create", "args": {"title": "one", "id": "x-1"}},
        {"operation": "show", "args": {"id": "x-1"}},
    ]});
    let answer = database.data("batch", whole);
    assert_eq!(
        answer["results"][1]["data"]["title"], "one",
        "a batch reads its own writes"
    );
}

#[test]
fn an_idempotency_key_makes_a_write_happen_once() {
    let mut database = Database::new();
    let request = |title: &str, key: &str| json!({"operation": "create", "args": {"title": title}, "idempotency_key": key});
    let first = database.send(&request("a", "k"));
    assert_eq!(database.send(&request("a", "k")), first);
    assert_eq!(database.count(), 1);
    assert_eq!(database.send(&request("b", "k"))["code"], "conflict");
    assert_ne!(database.send(&request("a", "other")), first);
    // A refused request has stored nothing, so its key can be used again.
    assert_eq!(database.send(&request("", "again"))["success"], false);
    assert_eq!(database.send(&request("c", "again"))["success"], true);
    // The failure of a batch is stored, because a part of it was kept.
    let batch = json!({"operation": "batch", "idempotency_key": "b", "args": {"operations": [
        {"operation": "create", "args": {"title": "kept"}}, {"operation": "create", "args": {"title": ""}}]}});
    let failed = database.send(&batch);
    assert_eq!(database.send(&batch), failed);
    assert_eq!(database.count(), 4);
}

#[test]
fn a_request_is_not_begun_after_its_deadline() {
    let mut database = Database::new();
    let answer = database.send(&json!({"operation": "create", "args": {"title": "a"}, "deadline_ms": 1_000_000_000_001_u64}));
    assert_eq!(answer["code"], "timeout");
    assert_eq!(database.count(), 0);
}

#[test]
fn an_export_can_be_imported_elsewhere() {
    let mut from = Database::new();
    let (a, b) = (from.create("first"), from.create("second"));
    // The first depends on the second, so the order of an export is not the order of dependencies.
    from.data("dep_add", json!({"id": a, "depends_on": b}));
    from.data("comment_add", json!({"id": a, "text": "hello"}));
    from.data("label_add", json!({"id": b, "label": "x"}));
    from.data("close", json!({"id": b, "reason": "fixed in abc"}));
    let one = from.data("export", json!({"limit": 1, "events": true}));
    let two = from.data(
        "export",
        json!({"limit": 1, "after": one["next"], "events": true}),
    );
    assert_eq!(two["records"][0]["close_reason"], "fixed in abc");
    let end = from.data("export", json!({"limit": 1, "after": two["next"]}));
    assert_eq!((&end["records"], &end["next"]), (&json!([]), &Value::Null));
    let records = json!([one["records"][0], two["records"][0]]);

    let mut to = Database::new();
    let imported = to.data("import", json!({"records": records}));
    assert_eq!(
        imported,
        json!({"created": 2, "skipped": 0, "replaced": 0, "kept": []})
    );
    let without_numbers = |mut page: Value| {
        for record in page["records"].as_array_mut().unwrap() {
            for comment in record["comments"].as_array_mut().into_iter().flatten() {
                comment["id"] = Value::Null;
            }
        }
        page
    };
    let exported = to.data("export", json!({}));
    assert_eq!(
        without_numbers(exported),
        without_numbers(from.data("export", json!({})))
    );

    let events = |database: &mut Database| {
        let page = database.data("export", json!({"events": true}));
        let records = page["records"].as_array().unwrap().clone();
        let events = records
            .iter()
            .flat_map(|record| record["events"].as_array().unwrap());
        let kinds = events.map(|event| (event["kind"].clone(), event["at"].clone()));
        kinds
            .filter(|(kind, _)| kind != "imported")
            .collect::<Vec<_>>()
    };
    assert_eq!(events(&mut to), events(&mut from));
    assert_eq!(
        to.call("import", json!({"records": records}))["code"],
        "conflict"
    );
    let mut changed = records.clone();
    changed[1]["status"] = json!("open");
    changed[0]["title"] = json!("changed");
    let skipped = to.data("import", json!({"records": changed, "on_conflict": "skip"}));
    assert_eq!(skipped["skipped"], 2);
    assert_eq!(to.data("show", json!({"id": a}))["title"], "first");
    to.data(
        "import",
        json!({"records": changed, "on_conflict": "replace"}),
    );
    assert_eq!(to.data("show", json!({"id": a}))["title"], "changed");
    let ready = to.data("ready", json!({}));
    assert_eq!(
        ready["issues"].as_array().unwrap().len(),
        1,
        "the second is open again, and blocks the first"
    );
    let store = issue_store::Store::open(&to.path, Options::default()).unwrap();
    assert_eq!(
        store.reader().unwrap().check().unwrap(),
        Vec::<String>::new()
    );
}

#[test]
fn an_issue_is_claimed_once_and_by_its_expected_state() {
    let mut database = Database::new();
    let id = database.create("job");
    let claimed = database.data("claim", json!({"id": id, "assignee": "ann"}));
    assert_eq!(
        (&claimed["status"], &claimed["assignee"]),
        (&json!("in_progress"), &json!("ann"))
    );
    let refused = database.call("claim", json!({"id": id}));
    assert_eq!(
        refused["code"], "conflict",
        "the actor is not ann: {refused}"
    );
    let update = |expected: Value| {
        let mut args = json!({"id": id, "status": "open", "assignee": ""});
        let members = expected.as_object().unwrap().clone();
        args.as_object_mut().unwrap().extend(members);
        args
    };
    for expected in [
        json!({"expected_status": "open"}),
        json!({"expected_assignee": ""}),
        json!({"expected_status": "in_progress", "expected_assignee": "bob"}),
    ] {
        let refused = database.call("update", update(expected));
        assert_eq!(refused["code"], "conflict", "{refused}");
    }
    let expected = json!({"expected_status": "in_progress", "expected_assignee": "ann"});
    assert_eq!(database.data("update", update(expected))["status"], "open");
    // The actor of these requests is the assignee if none is named. The second claim of the batch is of its own issue.
    let batch = json!({"mode": "atomic", "operations": [
        {"operation": "claim", "args": {"id": id}},
        {"operation": "claim", "args": {"id": id}},
        {"operation": "update", "args": {"id": id, "status": "closed", "expected_status": "in_progress"}},
    ]});
    let results = database.data("batch", batch);
    assert_eq!(results["results"][0]["data"]["assignee"], "me");
    assert_eq!(results["results"][2]["data"]["status"], "closed");
}

#[test]
fn ready_issues_are_handed_out_once() {
    let mut database = Database::new();
    let ids = ["one", "two", "three"].map(|title| database.create(title));
    database.data("update", json!({"id": ids[1], "assignee": "ann"}));
    let mut claim = |args: Value| {
        let data = database.data("ready", args);
        let issues = data["issues"].as_array().unwrap().clone();
        issues
            .iter()
            .map(|issue| issue["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(claim(json!({"claim": true})), [ids[0].clone()]);
    // The second is ann's.
    assert_eq!(claim(json!({"claim": true, "limit": 9})), [ids[2].clone()]);
    assert_eq!(claim(json!({"claim": true})), Vec::<String>::new());
    assert_eq!(claim(json!({})), [ids[1].clone()]);
}

#[test]
fn a_lock_that_another_process_holds_is_busy_at_the_deadline() {
    let mut database = Database::new();
    let store = Store::open(&database.path, Options::default()).unwrap();
    let mut writer = store.writer().unwrap();
    let create = || {
        let deadline_ms = Timestamp::now().0 / 1_000 + 50;
        json!({"operation": "create", "args": {"title": "a"}, "deadline_ms": deadline_ms})
    };
    let held = writer.begin().unwrap();
    for _ in 0..2 {
        let answer = database.send(&create());
        assert_eq!(answer["code"], "busy", "{answer}");
    }
    drop(held);
    // The wait that was given up keeps the lock from nobody.
    writer
        .apply(Timestamp::now(), |changes| {
            changes.forget_answers(Timestamp(0))
        })
        .unwrap();
    database.create("b");
    assert_eq!(database.count(), 1);
}

#[test]
fn requests_with_the_names_of_bd_are_understood() {
    let mut database = Database::new();
    let batch = json!({"operations": [
        {"operation": "create", "args": {"id": "x-1", "title": "Issue 1", "issue_type": "task", "priority": 2}},
        {"operation": "create", "args": {"id": "x-2", "title": "Issue 2", "dependencies": ["x-1"], "labels": ["a"]}},
        {"operation": "update", "args": {"id": "x-1", "status": "in_progress"}},
        {"operation": "dep_add", "args": {"from_id": "x-1", "to_id": "x-2", "dep_type": "related"}},
    ]});
    database.data("batch", batch);
    let blocked_by = json!([{"depends_on": "x-1", "kind": "blocks"}]);
    assert_eq!(
        database.data("show", json!({"id": "x-2"}))["dependencies"],
        blocked_by
    );
    let listed = database.data("list", json!({"label": "a"}));
    assert_eq!(listed["issues"][0]["id"], "x-2");
    database.data(
        "dep_remove",
        json!({"from_id": "x-1", "to_id": "x-2", "dep_type": "related"}),
    );
    assert_eq!(
        database.data("show", json!({"id": "x-1"}))["dependencies"],
        Value::Null
    );
    let wrong = database.call(
        "create",
        json!({"title": "a", "dependencies": [{"kind": "blocks"}]}),
    );
    assert!(
        wrong["error"]
            .as_str()
            .unwrap()
            .contains("an id, or an object"),
        "{wrong}"
    );

    let store = Store::open(&database.path, Options::default()).unwrap();
    let reader = store.reader().unwrap();
    let read = |line: &str| {
        let Ok(Request {
            operation: issue_rpc::Operation::Read(read),
            ..
        }) = Request::parse(line.as_bytes())
        else {
            panic!("{line} is a read");
        };
        let answer = issue_rpc::read(&reader, &read, true).line(None);
        serde_json::from_str::<Value>(&answer).unwrap()["data"].clone()
    };
    assert_eq!(
        read(r#"{"operation":"list","args":{"label":"a"}}"#)[0]["id"],
        "x-2"
    );
    assert_eq!(read(r#"{"operation":"ready"}"#), json!([]));
    assert_eq!(read(r#"{"operation":"stats"}"#)["total_issues"], 2);
    assert_eq!(read(r#"{"operation":"count"}"#)["count"], 2);

    let small = PageSize {
        issues: u32::MAX,
        bytes: 1,
    };
    let reader = reader.with_page_size(small);
    for (limit, code) in [(None, Some(Code::TooLarge)), (Some(1), None)] {
        let filter = Filter {
            limit,
            ..Filter::default()
        };
        let answer = issue_rpc::read(&reader, &Read::List(filter), true);
        assert_eq!(answer.code(), code, "{answer:?}");
    }
}

#[test]
fn stale_and_blocked_issues_are_answered_in_pages() {
    let mut database = Database::new();
    database.create("one");
    database.create("two");
    let stale = json!({"since": "2100-01-01", "limit": 1});
    let first = database.data("stale", stale.clone());
    let mut second = stale;
    second["after"] = first["next"].clone();
    let second = database.data("stale", second);
    assert_ne!(first["issues"][0]["id"], second["issues"][0]["id"]);
    assert_eq!(database.data("blocked", json!({})), json!({"issues": []}));
    let wrong = database.call("blocked", json!({"after": "1"}));
    assert_eq!(wrong["code"], "validation", "{wrong}");
}

#[test]
fn an_export_of_bd_comes_in() {
    let mut database = Database::new();
    // The shape of its lines: times with offsets, and dependencies with other names.
    let records = json!([
        {"id": "bd-1", "title": "first", "description": "", "status": "closed", "priority": 1, "issue_type": "task",
            "created_at": "2025-10-14T22:30:00.123456789-07:00", "updated_at": "2025-10-15T01:00:00-07:00",
            "closed_at": "2025-10-15T01:00:00-07:00", "close_reason": "fixed in abc", "content_hash": "0"},
        {"id": "bd-2", "title": "second", "status": "open", "priority": 2, "issue_type": "epic",
            "created_at": "2025-10-15T05:30:00Z", "updated_at": "2025-10-15T05:30:00Z", "dependencies": [
                {"issue_id": "bd-2", "depends_on_id": "bd-1", "type": "discovered-from",
                    "created_at": "2025-10-15T05:30:00Z", "created_by": "ann"}],
            "comments": [{"id": 1, "issue_id": "bd-2", "author": "ann", "text": "hello", "created_at": "2025-10-15T05:30:00Z"}]},
    ]);
    database.data("import", json!({"records": records}));
    let first = database.data("show", json!({"id": "bd-1"}));
    assert_eq!(first["created_at"], "2025-10-15T05:30:00.123456Z");
    assert_eq!(first["close_reason"], "fixed in abc");
    let second = database.data("show", json!({"id": "bd-2"}));
    let dependencies = json!([{"depends_on": "bd-1", "kind": "discovered-from"}]);
    assert_eq!(second["dependencies"], dependencies);
    assert_eq!(second["comments"][0]["text"], "hello");
}

#[test]
fn a_request_that_would_keep_others_waiting_is_refused_with_its_limit() {
    let mut database = Database::new();
    let create = json!({"operation": "create", "args": {"title": "a"}});
    let batch = |number: usize| json!({"operations": vec![create.clone(); number]});
    let answer = database.call("batch", batch(1_001));
    assert_eq!(answer["code"], "validation");
    let error = answer["error"].as_str().unwrap();
    assert_contains(error, &["operations: 1001 are too many", "at most 1000"]);
    assert_eq!(database.count(), 0);
    database.data("batch", batch(1_000));
    let page = database.data("export", json!({}));
    let answer = database.call(
        "import",
        json!({"records": page["records"], "on_conflict": "skip"}),
    );
    assert!(
        answer["error"].as_str().unwrap().contains("at most 500"),
        "{answer}"
    );
}
