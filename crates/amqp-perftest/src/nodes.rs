//! The nodes of a broker, over which connections are spread.

use harness::plan::Invalid;

use crate::session::{Broker, Session, SessionError};
use crate::settings::Settings;

/// At least one node.
#[derive(Debug, Clone)]
pub(crate) struct Nodes(Vec<Broker>);

impl Nodes {
    /// Those with these URIs; `None` without any.
    ///
    /// # Errors
    /// What is wrong with one of them, and the remedy.
    pub(crate) fn of_run<'a>(
        uris: impl Iterator<Item = &'a str>,
        settings: &Settings,
    ) -> Result<Option<Self>, Invalid> {
        let nodes = uris
            .map(|uri| Broker::of_run(uri, settings))
            .collect::<Result<Vec<_>, _>>()?;
        Ok((!nodes.is_empty()).then_some(Self(nodes)))
    }

    /// The node of a connection, in turn by its number; after attempts that failed the next one, since this one may be
    /// gone.
    pub(crate) fn of(&self, number: u64, failed: u64) -> &Broker {
        let place = number.wrapping_add(failed) % self.0.len() as u64;
        &self.0[place as usize]
    }

    /// The first one that `open` finds.
    ///
    /// # Errors
    /// That of the last node, with its node.
    pub(crate) fn first(
        &self,
        open: impl Fn(&Broker) -> Result<Session, SessionError>,
    ) -> Result<Session, (&Broker, SessionError)> {
        let (last, others) = self.0.split_last().expect("there is one");
        let found = others.iter().find_map(|node| open(node).ok());
        found.map_or_else(|| open(last).map_err(|error| (last, error)), Ok)
    }
}
