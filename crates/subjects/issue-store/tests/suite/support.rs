//! A database with a clock of its own.

use issue_store::{
    Changes, DependencyKind, Error, Filter, NewIssue, Options, Reader, ReadyFilter, Store,
    Timestamp, Writer,
};

/// A database in a folder of its own.
pub(crate) struct Fixture {
    _folder: tempfile::TempDir,
    pub(crate) store: Store,
    pub(crate) writer: Writer,
    pub(crate) reader: Reader,
    pub(crate) now: i64,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            prefix: Some("t".to_owned()),
            checkpoint_pages: Some(3_000),
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
    pub(crate) fn apply<T>(
        &mut self,
        request: impl FnOnce(&mut Changes<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.now += 1_000_000;
        self.writer.apply(Timestamp(self.now), request)
    }

    pub(crate) fn create(&mut self, title: &str) -> String {
        let new = titled(title);
        self.apply(|changes| changes.create("a", &new)).unwrap().id
    }

    pub(crate) fn depend(
        &mut self,
        id: &str,
        on: &str,
        kind: DependencyKind,
    ) -> Result<bool, Error> {
        self.apply(|changes| changes.add_dependency("a", id, on, kind))
    }

    pub(crate) fn close(&mut self, id: &str) {
        self.apply(|changes| changes.close("a", id, "")).unwrap();
    }

    pub(crate) fn reopen(&mut self, id: &str) {
        self.apply(|changes| changes.reopen("a", id)).unwrap();
    }

    pub(crate) fn ready(&self) -> Vec<String> {
        let ready = self.reader.ready(&ReadyFilter::default()).unwrap();
        ready.issues.into_iter().map(|issue| issue.title).collect()
    }

    /// Asserts that all that is stored twice agrees.
    pub(crate) fn check(&self) {
        assert_eq!(self.reader.check().unwrap(), Vec::<String>::new());
    }
}

pub(crate) fn titled(title: &str) -> NewIssue {
    NewIssue {
        title: title.to_owned(),
        ..NewIssue::default()
    }
}

pub(crate) fn titles(reader: &Reader, filter: &Filter) -> Vec<String> {
    let listed = reader.list(filter).unwrap();
    listed.issues.into_iter().map(|issue| issue.title).collect()
}
