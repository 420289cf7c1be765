//! Requests that concern very many issues, while all other writes wait.

use issue_store::{
    Changes, Code, DependencyKind, Error, NewIssue, OnConflict, Options, ReadyFilter, Store,
    Timestamp, Writer,
};

/// The issues `0`, `1`, … with dependencies that SQL gives.
struct Fixture {
    _folder: tempfile::TempDir,
    store: Store,
    writer: Writer,
}

impl Fixture {
    fn new(issues: usize, dependencies: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("issues.db"), Options::default()).unwrap();
        let writer = store.writer().unwrap();
        let insert = format!(
            "INSERT INTO issues (num, id, title, status, priority, issue_type, created_at, updated_at)
                 WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers LIMIT {issues})
                 SELECT n, n, 'a', 0, 2, 2, 1, 1 FROM numbers;
             UPDATE counters SET issues = {issues} WHERE status = 0;
             INSERT INTO dependencies {dependencies};
             UPDATE issues SET blockers = (SELECT count(*) FROM dependencies WHERE issue = num AND kind = 0);"
        );
        writer.connection().execute_batch(&insert).unwrap();
        Self {
            _folder: folder,
            store,
            writer,
        }
    }

    fn apply<T>(
        &mut self,
        request: impl FnOnce(&mut Changes<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.writer.apply(Timestamp(1), request)
    }

    /// Adds a dependency that blocks. Returns its error.
    fn depend(&mut self, id: &str, on: &str) -> Option<Code> {
        let added =
            self.apply(|changes| changes.add_dependency("a", id, on, DependencyKind::Blocks));
        added.err().map(|error| error.code())
    }

    fn check(&self) {
        let differences = self.store.reader().unwrap().check().unwrap();
        assert_eq!(differences, Vec::<String>::new());
    }
}

#[test]
fn an_epic_of_too_many_children_is_neither_blocked_nor_unblocked() {
    let children = "SELECT num, 1, 2 FROM issues WHERE num >= 2";
    let mut fixture = Fixture::new(10_002, children);
    assert_eq!(fixture.depend("1", "0"), Some(Code::Validation));
    fixture.check();
    let remove =
        |changes: &mut Changes<'_>, child| changes.remove_dependency("a", child, "1", None);
    for child in ["2", "3"] {
        fixture.apply(|changes| remove(changes, child)).unwrap();
    }
    assert_eq!(fixture.depend("1", "0"), None);
    for child in ["2", "3"] {
        let kind = DependencyKind::ParentChild;
        fixture
            .apply(|changes| changes.add_dependency("a", child, "1", kind))
            .unwrap();
    }
    let close = |changes: &mut Changes<'_>| changes.close("a", "0", "");
    let error = fixture.apply(close).unwrap_err();
    assert!(error.to_string().contains("10000 issues"), "{error}");
    fixture.apply(|changes| remove(changes, "2")).unwrap();
    fixture.apply(close).unwrap();
    fixture.check();
}

#[test]
fn an_issue_that_blocks_too_many_is_neither_closed_nor_deleted() {
    let blocked = "SELECT num, 0, 0 FROM issues WHERE num >= 1";
    let mut fixture = Fixture::new(10_002, blocked);
    for request in [
        |changes: &mut Changes<'_>| changes.close("a", "0", "").map(drop),
        |changes: &mut Changes<'_>| changes.delete("a", "0", true),
    ] {
        assert_eq!(fixture.apply(request).unwrap_err().code(), Code::Validation);
    }
    fixture.check();
}

#[test]
fn the_search_for_a_circle_ends_at_its_limit_and_is_left_out_where_none_can_be() {
    let chain = "SELECT num, num - 1, 0 FROM issues WHERE num >= 1";
    let mut fixture = Fixture::new(100_001, chain);
    assert_eq!(fixture.depend("0", "99999"), Some(Code::Cycle));
    assert_eq!(fixture.depend("0", "100000"), Some(Code::Validation));
    let twice = fixture.apply(|changes| {
        let add = |changes: &mut Changes<'_>| {
            changes.add_dependency("a", "0", "60000", DependencyKind::Blocks)
        };
        assert_eq!(changes.nested(add).unwrap_err().code(), Code::Cycle);
        add(changes)
    });
    assert_eq!(twice.unwrap_err().code(), Code::Validation);
    let new = fixture
        .apply(|changes| {
            let title = "nothing waits for it".to_owned();
            changes.create(
                "a",
                &NewIssue {
                    title,
                    ..NewIssue::default()
                },
            )
        })
        .unwrap();
    assert_eq!(fixture.depend(&new.id, "100000"), None);
    fixture.check();
}

#[test]
fn an_import_of_what_is_there_searches_for_no_circle() {
    let chain = "SELECT num, num - 1, 0 FROM issues WHERE num >= 1";
    let mut fixture = Fixture::new(1_000, chain);
    let page = fixture.store.reader().unwrap().export(-1, 1_000, false);
    let mut records = page.unwrap().records;
    // Each of these depends on one that stays, and one that stays depends on each.
    records.retain(|record| record.num % 2 == 1);
    let mut new = records[0].clone();
    new.issue.id = "new".to_owned();
    records.push(new);
    let imported = fixture.apply(|changes| changes.import("a", &records, OnConflict::Replace));
    let imported = imported.unwrap();
    assert_eq!((imported.replaced, imported.created), (500, 1));
    fixture.check();
}

#[test]
fn a_request_claims_a_limited_number() {
    let mut fixture = Fixture::new(2, "SELECT 0, 1, 1");
    for (limit, claimed) in [(None, None), (Some(1_001), None), (Some(1_000), Some(2))] {
        let filter = ReadyFilter {
            limit,
            ..ReadyFilter::default()
        };
        let ready = fixture.apply(|changes| changes.claim_ready("a", &filter, "me"));
        assert_eq!(ready.ok().map(|issues| issues.len()), claimed, "{limit:?}");
    }
}
