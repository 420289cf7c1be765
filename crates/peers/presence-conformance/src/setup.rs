//! Settings of a server that cases need.

use std::sync::LazyLock;

use harness::verify::conformance::Skip;

use crate::script;
use crate::server::Server;
use crate::websocket::WebSocket;

/// A combination of settings, a row of `setups.txt`. A launched server is started once for each combination.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) name: &'static str,
    /// The environment variables of a launched server.
    pub(crate) variables: Vec<(&'static str, &'static str)>,
    /// The reason to skip the cases of a server without the feature, and the steps that show the feature.
    feature: Option<(&'static str, &'static str)>,
}

static SETUPS: LazyLock<Vec<Setup>> = LazyLock::new(|| {
    let rows = include_str!("setups.txt").lines();
    let rows = rows.filter(|row| !row.starts_with('#'));
    rows.map(Setup::parse).collect()
});

impl Setup {
    /// Returns the setup of this name.
    pub(crate) fn named(name: &str) -> &'static Self {
        let setup = SETUPS.iter().find(|setup| setup.name == name);
        setup.unwrap_or_else(|| panic!("setups.txt has no {name}"))
    }

    fn parse(row: &'static str) -> Self {
        let mut cells = row.split('|').map(str::trim);
        let mut cell = || cells.next().unwrap_or_default();
        let name = cell();
        let variables = cell().split_whitespace();
        let variables = variables.filter_map(|variable| variable.split_once('='));
        let variables = variables.collect();
        let feature = (cell(), cell());
        Self {
            name,
            variables,
            feature: (!feature.1.is_empty()).then_some(feature),
        }
    }

    /// Returns the number of nodes of a launched server.
    pub(crate) fn node_count(&self) -> usize {
        1 + usize::from(self.name.starts_with("two-nodes"))
    }

    /// Returns a server on which the cases of this setup can run. A server that ignores a setting does not have the
    /// feature.
    ///
    /// # Errors
    /// [`Skip`] with the reason, or the server does not answer.
    pub(crate) fn checked(&self, server: Server, is_launched: bool) -> anyhow::Result<Server> {
        if self.node_count() > 1 && server.nodes().is_err() {
            return Err(NO_OTHER_NODE.into());
        }
        if !is_launched && !self.variables.is_empty() {
            return Err(Skip("it needs a server with other settings: use --daemon").into());
        }
        if let Some((reason, steps)) = self.feature
            && script::run(&server, steps).is_err()
        {
            // A server that does not answer at all is not skipped.
            WebSocket::session(&server)?;
            return Err(Skip(reason).into());
        }
        Ok(server)
    }
}

/// The reason to skip cases about several nodes.
pub(crate) const NO_OTHER_NODE: Skip = Skip(
    "it needs two nodes: use --daemon with a manifest that has a service, or give --url twice",
);
