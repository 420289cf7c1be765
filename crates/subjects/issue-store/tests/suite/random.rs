//! Random requests: what the store notes about blocked issues agrees with a model that knows only the rules.

use std::collections::BTreeSet;

use issue_store::{
    DependencyKind, NewIssue, Options, Patch, ReadyFilter, Status, Store, Timestamp,
};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Request {
    Create,
    Link(usize, usize, usize),
    /// Of one kind, or of all.
    Unlink(usize, usize, Option<usize>),
    SetStatus(usize, usize),
}

fn request() -> impl Strategy<Value = Request> {
    let issue = 0..12_usize;
    prop_oneof![
        2 => Just(Request::Create),
        6 => (issue.clone(), issue.clone(), 0..4_usize).prop_map(|(a, b, kind)| Request::Link(a, b, kind)),
        2 => (issue.clone(), issue.clone(), proptest::option::of(0..4_usize))
            .prop_map(|(a, b, kind)| Request::Unlink(a, b, kind)),
        4 => (issue, 0..4_usize).prop_map(|(a, status)| Request::SetStatus(a, status)),
    ]
}

/// The issues and their dependencies.
#[derive(Debug, Default)]
struct Model {
    status: Vec<Status>,
    links: BTreeSet<(usize, usize, DependencyKind)>,
}

impl Model {
    fn reaches(&self, from: usize, to: usize) -> bool {
        let next = self
            .links
            .iter()
            .filter(|(issue, _, kind)| *issue == from && blocks(*kind));
        from == to || next.into_iter().any(|(_, on, _)| self.reaches(*on, to))
    }

    fn is_blocked(&self, issue: usize) -> bool {
        let links = self.links.iter().filter(|(from, _, _)| *from == issue);
        links.into_iter().any(|(_, on, kind)| match kind {
            DependencyKind::Blocks => self.status[*on] != Status::Closed,
            DependencyKind::ParentChild => self.is_blocked(*on),
            DependencyKind::Related | DependencyKind::DiscoveredFrom => false,
        })
    }

    fn ready(&self) -> BTreeSet<usize> {
        let all = 0..self.status.len();
        all.filter(|issue| self.status[*issue] == Status::Open && !self.is_blocked(*issue))
            .collect()
    }
}

fn blocks(kind: DependencyKind) -> bool {
    matches!(kind, DependencyKind::Blocks | DependencyKind::ParentChild)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ready_issues_agree_with_the_rules(requests in prop::collection::vec(request(), 1..80)) {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { durability: issue_store::Durability::None, ..Options::default() };
        let store = Store::open(&folder.path().join("issues.db"), options).unwrap();
        let (mut writer, reader) = (store.writer().unwrap(), store.reader().unwrap());
        let mut model = Model::default();
        let id = |issue: usize| format!("i-{issue}");
        for (now, request) in requests.into_iter().enumerate() {
            let known = model.status.len();
            let fits = |issue: usize| issue < known;
            let applied = writer.apply(Timestamp(now as i64), |changes| match &request {
                Request::Create => {
                    let new = NewIssue { id: Some(id(known)), title: "t".to_owned(), ..NewIssue::default() };
                    changes.create("a", &new).map(drop)
                }
                Request::Link(from, on, kind) => {
                    let kind = DependencyKind::ALL[*kind];
                    changes.add_dependency("a", &id(*from), &id(*on), kind).map(drop)
                }
                Request::Unlink(from, on, kind) => {
                    let kind = kind.map(|kind| DependencyKind::ALL[kind]);
                    changes.remove_dependency("a", &id(*from), &id(*on), kind)
                }
                Request::SetStatus(issue, status) => {
                    let patch = Patch { status: Some(Status::ALL[*status]), ..Patch::default() };
                    changes.update("a", &id(*issue), &patch).map(drop)
                }
            });
            let allowed = match request {
                Request::Create => {
                    model.status.push(Status::Open);
                    true
                }
                Request::Link(from, on, kind) => {
                    let kind = DependencyKind::ALL[kind];
                    let is_allowed = fits(from)
                        && fits(on)
                        && from != on
                        && !(blocks(kind) && model.reaches(on, from));
                    if is_allowed {
                        model.links.insert((from, on, kind));
                    }
                    is_allowed
                }
                Request::Unlink(from, on, kind) => {
                    let kind = kind.map(|kind| DependencyKind::ALL[kind]);
                    let before = model.links.len();
                    model.links.retain(|link| {
                        (link.0, link.1) != (from, on) || kind.is_some_and(|kind| kind != link.2)
                    });
                    model.links.len() < before
                }
                Request::SetStatus(issue, status) => {
                    if fits(issue) {
                        model.status[issue] = Status::ALL[status];
                    }
                    fits(issue)
                }
            };
            prop_assert_eq!(applied.is_ok(), allowed, "{:?}", applied);
        }
        let ready = reader.ready(&ReadyFilter::default()).unwrap();
        let ready: BTreeSet<String> = ready.issues.into_iter().map(|issue| issue.id).collect();
        prop_assert_eq!(ready, model.ready().into_iter().map(id).collect());
        prop_assert_eq!(reader.check().unwrap(), Vec::<String>::new());
    }
}
