//! Reads the resources that a plan needs from the plan.

use std::path::Path;

use load::plan::{self, Group, Level, Plan};
use serde::{Deserialize, Serialize};
use subject::manifest::{Manifest, Roots};

/// File descriptors that a process keeps open besides its load.
const OWN_DESCRIPTORS: u64 = 100;

/// The needs of a plan at its highest level.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Needs {
    /// The plan's name.
    pub(crate) name: String,
    /// Its daemons.
    pub(crate) daemons: Vec<String>,
    /// Streams that may be open at once; 0 for a rate, whose streams depend on the daemon.
    pub(crate) streams: u64,
    /// Streams of one daemon, if several share them.
    pub(crate) share: u64,
    /// Clients that arrive at the same instant.
    pub(crate) burst: u64,
    /// Clients that are TCP connections from this machine.
    pub(crate) tcp_clients: u64,
}

impl Needs {
    /// Reads a plan at all of its levels.
    ///
    /// # Errors
    /// The plan can't be read.
    pub(crate) fn from_plan(file: &Path) -> anyhow::Result<Self> {
        let base: Plan<toml::Table> = plan::load(file, &[])?;
        let suite = base.suite.as_ref();
        let daemons = suite.map_or_else(
            || base.daemon.iter().cloned().collect(),
            |suite| suite.daemons.clone(),
        );
        let levels = suite.iter().flat_map(|suite| &suite.levels);
        let searched = suite
            .and_then(|suite| suite.capacity.as_ref())
            .map(|search| vec![search.setting(search.most)]);
        let settings: Vec<Vec<String>> = levels.map(Level::settings).chain(searched).collect();
        if settings.is_empty() {
            return Self::at_settings(file, daemons, [Vec::new()]);
        }
        Self::at_settings(file, daemons, settings)
    }

    /// Reads a plan with each of some settings.
    ///
    /// # Errors
    /// The plan can't be read.
    pub(crate) fn at_settings(
        file: &Path,
        daemons: Vec<String>,
        settings: impl IntoIterator<Item = Vec<String>>,
    ) -> anyhow::Result<Self> {
        let mut needs = Self {
            name: String::new(),
            daemons,
            streams: 0,
            share: 0,
            burst: 0,
            tcp_clients: 0,
        };
        for set in settings {
            let plan = plan::load(file, &set)?;
            needs.add(&plan);
            needs.name = plan.name;
        }
        Ok(needs)
    }

    /// Returns the needs of one of several shards.
    pub(crate) fn of_shard(&self, shards: u64) -> Self {
        let share = |amount: u64| amount.div_ceil(shards);
        Self {
            name: self.name.clone(),
            daemons: Vec::new(),
            streams: share(self.streams),
            share: share(self.streams),
            burst: share(self.burst),
            tcp_clients: share(self.tcp_clients),
        }
    }

    fn add(&mut self, plan: &Plan<toml::Table>) {
        let streams: u64 = plan.groups.iter().map(Group::most_clients).sum();
        let at_once = plan.groups.iter().filter(|group| group.ramp.is_zero());
        self.streams = self.streams.max(streams);
        self.share = self.share.max(streams.div_ceil(plan.instances.max(1)));
        self.burst = self.burst.max(at_once.map(|group| group.clients).sum());
        let is_tcp = plan.driver.get("client").and_then(toml::Value::as_str) == Some("tcp");
        if is_tcp {
            self.tcp_clients = self.tcp_clients.max(streams);
        }
    }

    /// Returns the number of files that one daemon has open with its share.
    pub(crate) fn open_files(&self) -> u64 {
        match self.share {
            0 => 0,
            share => share + OWN_DESCRIPTORS,
        }
    }

    /// Returns true if a daemon of the plan needs this tool.
    pub(crate) fn uses(&self, root: &Roots, tool: &str) -> bool {
        let needs_it = |daemon: &Manifest| {
            let tools = daemon.needs.iter().filter_map(|command| command.first());
            tools.map(String::as_str).any(|it| it == tool)
        };
        self.daemons
            .iter()
            .any(|name| Manifest::load(root, name).is_ok_and(|daemon| needs_it(&daemon)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = "name = 'p'\n[timeline]\nmeasure = '1s'\ndrain = '1s'\n[[groups]]\nname = 'g'\nclients = 10\n\
        [driver]\nclient = 'tcp'\n[suite]\ndaemons = ['a', 'b']\n";

    fn needs(more: &str) -> Needs {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plan.toml");
        std::fs::write(&file, format!("{PLAN}{more}")).unwrap();
        Needs::from_plan(&file).unwrap()
    }

    #[test]
    fn the_highest_level_counts() {
        let needs = needs(
            "levels = [{ name = 'x', set = { 'groups.0.clients' = 500 } }, { name = 'y', set = { 'groups.0.clients' = 50, instances = 2 } }]",
        );
        assert_eq!(
            (
                needs.streams,
                needs.burst,
                needs.tcp_clients,
                needs.open_files()
            ),
            (500, 500, 500, 600)
        );
        assert_eq!(needs.daemons, ["a", "b"]);
    }

    #[test]
    fn each_level_has_its_own_instances_and_the_plan_without_a_level_is_never_run() {
        let needs = needs(
            "levels = [{ name = 'x', set = { 'groups.0.clients' = 900, instances = 3 } }, { name = 'y', set = { 'groups.0.clients' = 4 } }]",
        );
        assert_eq!((needs.streams, needs.share), (900, 300));
        let base = self::needs("levels = [{ name = 'y', set = { 'groups.0.clients' = 4 } }]");
        assert_eq!((base.streams, base.share), (4, 4));
    }

    #[test]
    fn of_a_search_the_most_counts() {
        let needs = needs("capacity = { set = 'groups.0.clients', from = 20, most = 70 }");
        assert_eq!(needs.streams, 70);
    }
}
