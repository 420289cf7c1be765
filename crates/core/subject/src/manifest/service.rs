//! Describes a service: a server that all instances of a daemon share, such as a Redis.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Manifest, Ready, Stop, placeholders};

/// The name before the dot in the placeholders of the daemon that a manifest's key `behind` names.
pub const BEHIND: &str = "behind";

/// A server that a daemon needs. A run starts it once, before the first instance of the daemon.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Commands that must succeed before anything else. They show which tool is missing.
    #[serde(default)]
    pub needs: Vec<Vec<String>>,
    /// The command whose first line of output is the version; empty if there is none.
    #[serde(default)]
    pub version: Vec<String>,
    /// The command that runs it in the foreground.
    pub run: Vec<String>,
    /// The environment of its commands, in addition to the few variables that every daemon gets.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Names of variables of the caller that its commands get too.
    #[serde(default)]
    pub pass_env: Vec<String>,
    /// The condition that shows that it takes connections.
    pub ready: Ready,
    /// The way in which it is stopped.
    #[serde(default)]
    pub stop: Stop,
}

impl Service {
    /// Returns the manifest with which the service `name` of `daemon` is launched, as a daemon is.
    pub(crate) fn to_manifest(&self, name: &str, daemon: &Manifest) -> Manifest {
        Manifest {
            about: format!("the service `{name}`"),
            serves: Vec::new(),
            needs: self.needs.clone(),
            program: daemon.program.clone(),
            build: Vec::new(),
            test: Vec::new(),
            version: self.version.clone(),
            run: self.run.clone(),
            env: self.env.clone(),
            pass_env: self.pass_env.clone(),
            cwd: daemon.cwd.clone(),
            ready: self.ready.clone(),
            url: None,
            urls: BTreeMap::new(),
            metrics: None,
            counters: Vec::new(),
            stop: self.stop,
            behind: None,
            services: BTreeMap::new(),
        }
    }
}

impl Manifest {
    /// Returns the placeholders of its services, such as `redis.port`: those that have a value. The ones of the daemon
    /// behind it are all known here: its manifest is another file.
    pub(crate) fn service_placeholders(&self) -> Vec<String> {
        let of_service = |(name, service): (&String, &Service)| {
            let service = service.to_manifest(name, self);
            names_of(name, service.ports(), service.has_socket())
        };
        let behind = self.behind.iter();
        let behind = behind.flat_map(|_| names_of(BEHIND, placeholders::MOST_PORTS, true));
        let services = self.services.iter().flat_map(of_service);
        services.chain(behind).collect()
    }
}

/// Returns the placeholders of a service.
fn names_of(name: &str, ports: usize, has_socket: bool) -> Vec<String> {
    let ports = (1..=ports).map(|number| match number {
        1 => "port".to_owned(),
        number => format!("port{number}"),
    });
    let socket = has_socket.then(|| "socket".to_owned());
    let own = ports.chain(socket).chain(["scratch".to_owned()]);
    own.map(|own| format!("{name}.{own}")).collect()
}
