//! Exchanges: their bindings, and the routing of messages.

use std::collections::HashMap;
use std::rc::Rc;

use amq_protocol::types::{AMQPValue, FieldTable};

use crate::arena::Id;
use crate::topic::Topics;

pub(crate) type Name = Rc<str>;
pub(crate) type QueueId = Id<'q'>;

/// The types of exchanges (AMQP 0-9-1, 3.1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Kind {
    #[default]
    Direct,
    Fanout,
    Topic,
    Headers,
}

impl Kind {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        [Self::Direct, Self::Fanout, Self::Topic, Self::Headers]
            .into_iter()
            .find(|kind| kind.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Fanout => "fanout",
            Self::Topic => "topic",
            Self::Headers => "headers",
        }
    }
}

/// A queue or an exchange that is bound to an exchange.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Destination {
    Queue(QueueId),
    Exchange(Name),
}

/// The routing key and the arguments of a binding.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Binding {
    pub(crate) key: Box<[u8]>,
    pub(crate) arguments: FieldTable,
}

impl Binding {
    pub(crate) fn new(key: &str, arguments: FieldTable) -> Self {
        Self {
            key: key.as_bytes().into(),
            arguments,
        }
    }
}

/// The properties of exchange.declare.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct ExchangeSettings {
    pub(crate) kind: Kind,
    pub(crate) durable: bool,
    pub(crate) auto_delete: bool,
    pub(crate) internal: bool,
    pub(crate) arguments: FieldTable,
}

#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) settings: ExchangeSettings,
    /// The log ticket of its record; 0 if it was restored at the start, or is not stored.
    pub(crate) ticket: u64,
    pub(crate) alternate: Option<Name>,
    bindings: HashMap<Destination, Vec<Binding>>,
    router: Router,
    /// True if it ever had a binding; an auto-delete exchange is deleted with its last binding, not before its first.
    pub(crate) was_bound: bool,
}

/// A structure to look bindings up by key, for the types that do.
#[derive(Debug)]
enum Router {
    Direct(HashMap<Box<[u8]>, Vec<Destination>>),
    Topic(Topics<Destination>),
    /// All bindings are looked at.
    None,
}

impl Exchange {
    pub(crate) fn new(settings: ExchangeSettings) -> Self {
        let alternate = settings.arguments.inner().get("alternate-exchange");
        let alternate = alternate.and_then(AMQPValue::as_long_string);
        let alternate = alternate.map(|name| name.to_string().into());
        let router = match settings.kind {
            Kind::Direct => Router::Direct(HashMap::new()),
            Kind::Topic => Router::Topic(Topics::new()),
            Kind::Fanout | Kind::Headers => Router::None,
        };
        Self {
            settings,
            ticket: 0,
            alternate,
            bindings: HashMap::new(),
            router,
            was_bound: false,
        }
    }

    /// Returns true if there are bindings.
    pub(crate) fn is_used(&self) -> bool {
        !self.bindings.is_empty()
    }

    /// Returns all bindings with their destinations.
    pub(crate) fn bindings(&self) -> impl Iterator<Item = (&Destination, &Binding)> {
        self.bindings
            .iter()
            .flat_map(|(to, bindings)| bindings.iter().map(move |binding| (to, binding)))
    }

    /// Returns true if there is such a binding.
    pub(crate) fn has(&self, to: &Destination, binding: &Binding) -> bool {
        let bindings = self.bindings.get(to);
        bindings.is_some_and(|bindings| bindings.contains(binding))
    }

    /// Adds a binding. Returns true if it is new.
    pub(crate) fn bind(&mut self, to: &Destination, binding: &Binding) -> bool {
        let bindings = self.bindings.entry(to.clone()).or_default();
        if bindings.contains(binding) {
            return false;
        }
        bindings.push(binding.clone());
        self.was_bound = true;
        let key = &binding.key;
        match &mut self.router {
            Router::Direct(keys) => keys.entry(key.clone()).or_default().push(to.clone()),
            Router::Topic(topics) => topics.insert(key, to.clone()),
            Router::None => {}
        }
        true
    }

    /// Removes a binding. Returns true if it existed.
    pub(crate) fn unbind(&mut self, to: &Destination, binding: &Binding) -> bool {
        let Some(bindings) = self.bindings.get_mut(to) else {
            return false;
        };
        if !remove_first(bindings, |other| other == binding) {
            return false;
        }
        if bindings.is_empty() {
            self.bindings.remove(to);
        }
        self.unroute(to, binding);
        true
    }

    /// Removes all bindings to a destination, and returns them.
    pub(crate) fn forget(&mut self, to: &Destination) -> Vec<Binding> {
        let bindings = self.bindings.remove(to).unwrap_or_default();
        for binding in &bindings {
            self.unroute(to, binding);
        }
        bindings
    }

    fn unroute(&mut self, to: &Destination, binding: &Binding) {
        match &mut self.router {
            Router::Direct(keys) => {
                if let Some(all) = keys.get_mut(&binding.key) {
                    remove_first(all, |other| other == to);
                    if all.is_empty() {
                        keys.remove(&binding.key);
                    }
                }
            }
            Router::Topic(topics) => topics.remove(&binding.key, to),
            Router::None => {}
        }
    }

    /// Calls `found` for each destination of a message, possibly more than once for some. `headers` is called only by a
    /// headers exchange.
    pub(crate) fn route(
        &self,
        key: &[u8],
        headers: impl FnOnce() -> FieldTable,
        mut found: impl FnMut(&Destination),
    ) {
        match &self.router {
            Router::Direct(keys) => keys.get(key).into_iter().flatten().for_each(found),
            Router::Topic(topics) => topics.matches(key, found),
            Router::None if self.settings.kind == Kind::Fanout => {
                self.bindings.keys().for_each(found);
            }
            Router::None => {
                let headers = headers();
                let wanted = self.bindings();
                wanted
                    .filter(|(_, binding)| has_headers(&binding.arguments, &headers))
                    .for_each(|(to, _)| found(to));
            }
        }
    }
}

/// Removes the first value that is meant; the last one takes its place. Returns false if there is none.
pub(crate) fn remove_first<T>(all: &mut Vec<T>, is_meant: impl FnMut(&T) -> bool) -> bool {
    let at = all.iter().position(is_meant);
    at.map(|at| all.swap_remove(at)).is_some()
}

/// Returns true if a message has the headers that a binding requires. Names that begin with `x-` are ignored, unless
/// `x-match` is `all-with-x` or `any-with-x`; a header without value only needs to be present (as RabbitMQ).
fn has_headers(wanted: &FieldTable, headers: &FieldTable) -> bool {
    let mode = match wanted.inner().get("x-match") {
        Some(AMQPValue::LongString(mode)) => mode.as_bytes(),
        _ => b"all",
    };
    let with_x = mode.ends_with(b"-with-x");
    let mut asked = wanted.inner().iter().filter(|(name, _)| {
        name.as_str() != "x-match" && (with_x || !name.as_str().starts_with("x-"))
    });
    let is_there = |(name, value): (&_, &AMQPValue)| {
        let found = headers
            .inner()
            .get::<amq_protocol::types::ShortString>(name);
        found.is_some_and(|found| *value == AMQPValue::Void || found == value)
    };
    if mode.starts_with(b"any") {
        asked.any(is_there)
    } else {
        asked.all(is_there)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(kind: Kind) -> Exchange {
        Exchange::new(ExchangeSettings {
            kind,
            ..ExchangeSettings::default()
        })
    }

    fn binding(key: &str, arguments: &[(&str, &str)]) -> Binding {
        let mut table = FieldTable::default();
        for (name, value) in arguments {
            table.insert((*name).into(), AMQPValue::LongString((*value).into()));
        }
        Binding::new(key, table)
    }

    fn to(name: &str) -> Destination {
        Destination::Exchange(name.into())
    }

    fn route(exchange: &Exchange, key: &str, headers: &[(&str, &str)]) -> Vec<String> {
        let mut found = Vec::new();
        let headers = binding("", headers).arguments;
        exchange.route(
            key.as_bytes(),
            || headers,
            |destination| {
                if let Destination::Exchange(name) = destination {
                    found.push(name.to_string());
                }
            },
        );
        found.sort_unstable();
        found
    }

    #[test]
    fn each_type_routes_in_its_own_way() {
        for (kind, expected) in [
            (Kind::Direct, vec!["a"]),
            (Kind::Fanout, vec!["a", "b", "c"]),
            (Kind::Topic, vec!["a", "b"]),
        ] {
            let mut exchange = exchange(kind);
            for (name, key) in [("a", "x.y"), ("b", "x.*"), ("c", "z.#")] {
                assert!(exchange.bind(&to(name), &binding(key, &[])));
                assert!(!exchange.bind(&to(name), &binding(key, &[])));
            }
            assert_eq!(route(&exchange, "x.y", &[]), expected);
        }
    }

    #[test]
    fn headers_match_all_or_any_and_ignore_x() {
        let mut exchange = exchange(Kind::Headers);
        let wanted = [("a", "1"), ("b", "2"), ("x-c", "3")];
        exchange.bind(&to("all"), &binding("", &wanted));
        let any = [("x-match", "any"), ("a", "1"), ("b", "2")];
        exchange.bind(&to("any"), &binding("", &any));
        exchange.bind(&to("every"), &binding("", &[]));
        let strict = [("x-match", "all-with-x"), ("x-c", "3")];
        exchange.bind(&to("strict"), &binding("", &strict));
        assert_eq!(
            route(&exchange, "", &[("a", "1"), ("b", "2")]),
            ["all", "any", "every"]
        );
        assert_eq!(
            route(&exchange, "", &[("a", "1"), ("x-c", "3")]),
            ["any", "every", "strict"]
        );
        assert_eq!(route(&exchange, "", &[("a", "2")]), ["every"]);
    }

    #[test]
    fn an_unbound_queue_gets_nothing_more() {
        for kind in [Kind::Direct, Kind::Fanout, Kind::Topic, Kind::Headers] {
            let mut exchange = exchange(kind);
            exchange.bind(&to("a"), &binding("k", &[]));
            exchange.bind(&to("a"), &binding("k", &[("n", "1")]));
            exchange.bind(&to("b"), &binding("k", &[]));
            assert!(exchange.unbind(&to("a"), &binding("k", &[])));
            assert!(!exchange.unbind(&to("a"), &binding("k", &[])));
            exchange.forget(&to("b"));
            assert_eq!(route(&exchange, "k", &[("n", "1")]), ["a"], "{kind:?}");
            exchange.forget(&to("a"));
            assert!(!exchange.is_used());
            assert!(route(&exchange, "k", &[("n", "1")]).is_empty());
        }
    }
}
