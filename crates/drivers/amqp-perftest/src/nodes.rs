//! The nodes of a broker, over which connections are spread.

use load::plan::Invalid;

use crate::settings::Settings;
use amqp_client::{Broker, Session, SessionError};

/// At least one node.
#[derive(Debug)]
pub(crate) struct Nodes(Vec<Broker>);

impl Nodes {
    /// Parses the nodes with these URIs; `None` if there are none.
    pub(crate) fn of_run<'a>(
        uris: impl Iterator<Item = &'a str>,
        settings: &Settings,
    ) -> Result<Option<Self>, Invalid> {
        let options = settings.tls();
        let nodes = uris
            .map(|uri| Broker::with_tls(uri, &options))
            .collect::<Result<Vec<_>, _>>()?;
        Ok((!nodes.is_empty()).then_some(Self(nodes)))
    }

    /// Returns the node of a connection, round robin by its number. After failed attempts it is the next node, since
    /// this one may be down.
    pub(crate) fn node(&self, number: u64, failed: u64) -> &Broker {
        let index = number.wrapping_add(failed) % self.0.len() as u64;
        &self.0[index as usize]
    }

    /// Returns the first session that `open` establishes, with its node, or the last node with its error.
    pub(crate) fn first(
        &self,
        open: impl Fn(&Broker) -> Result<Session, SessionError>,
    ) -> Result<(&Broker, Session), (&Broker, SessionError)> {
        let attempt = |node| match open(node) {
            Ok(session) => Ok((node, session)),
            Err(error) => Err((node, error)),
        };
        let (last, others) = self.0.split_last().expect("there is at least one node");
        let found = others.iter().find_map(|node| attempt(node).ok());
        found.map_or_else(|| attempt(last), Ok)
    }
}
