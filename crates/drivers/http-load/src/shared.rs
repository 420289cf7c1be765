//! What all workers of a run share: settings, servers and requests, prepared before the load starts.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Once, OnceLock};

use harness::output;
use hyper::http::uri::Authority;
use load::driver::{Address, Target};
use load::net::pool::PoolConfig;
use load::net::sources;
use load::net::url::{ServerUrl, resolve};
use load::plan::{Group, Invalid, Plan};

use crate::content::Expected;
use crate::outcome;
use crate::requests::Requests;
use crate::roles::checks::Checks;
use crate::roles::redirect::LOCATION;
use crate::settings::Settings;

/// The state that workers share, the same for both engines. It changes only while the first responses are learned.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    /// True for each group that is a closed loop.
    pub(crate) closed: Vec<bool>,
    /// The connections of the groups with a rate.
    pub(crate) pool: PoolConfig,
    pub(crate) servers: Vec<ServerUrl>,
    pub(crate) requests: Vec<Requests>,
    pub(crate) sources: Vec<IpAddr>,
    pub(crate) checks: Checks,
    logged: Once,
    /// The length of every response body, known after the first one; `None` if requests differ.
    length: Option<OnceLock<u64>>,
    /// The body of every response, known after two equal ones; only if all requests are alike.
    pub(crate) content: OnceLock<Expected>,
}

impl Shared {
    /// Prepares the load of a plan on a target, and chooses the engine.
    pub(crate) fn new(plan: &Plan<Settings>, target: &Target) -> Result<Self, Invalid> {
        let mut settings = plan.driver.clone();
        let mut servers = Vec::new();
        for address in &target.addresses {
            servers.extend(servers_at(address, &settings.connect_to)?);
        }
        settings.choose_engine();
        let requests = servers.iter();
        let requests = requests.map(|server| Requests::new(&settings, server));
        let requests: Vec<Requests> = requests.collect::<Result<_, _>>()?;
        let alike = requests.iter().all(Requests::are_alike);
        let mut checks = Checks::parse(&settings.checks)?;
        if settings.follow > 0 {
            checks.capture_field(LOCATION);
        }
        let content = settings.expect_body.as_deref().map(Expected::named);
        let content = content.transpose()?;
        let connections = Settings::connection_count(plan);
        let peers = || servers.iter().map(|server| &server.peer);
        let named = &settings.source_addresses;
        sources::check_ports(named, connections, sources::server_ports(peers()))?;
        Ok(Self {
            sources: sources::addresses(named, connections, peers())?,
            closed: plan.groups.iter().map(Group::is_closed).collect(),
            pool: PoolConfig {
                size: Settings::pool_size(plan),
                rate: settings.connect_rate,
                keep_alive: settings.keep_alive,
            },
            checks,
            servers,
            requests,
            logged: Once::new(),
            length: match (&content, settings.expect_length) {
                (Some(content), _) => Some(OnceLock::from(content.length)),
                (None, Some(length)) => Some(OnceLock::from(length)),
                (None, None) => (alike && !settings.any_content).then(OnceLock::new),
            },
            content: content.map_or_else(OnceLock::new, OnceLock::from),
            settings,
        })
    }

    /// Returns the number of the server that a connection with this index goes to.
    pub(crate) fn server_of(&self, index: u32) -> usize {
        index as usize % self.servers.len()
    }

    /// Returns true for a group without a rate, whose clients have a connection each.
    pub(crate) fn is_closed_loop(&self, group: u16) -> bool {
        self.closed[usize::from(group)]
    }

    /// Returns true if all responses must have one length, known or not.
    pub(crate) fn has_one_length(&self) -> bool {
        self.length.is_some()
    }

    /// Returns the required length of a body, once it is known.
    pub(crate) fn expected_length(&self) -> Option<u64> {
        self.length.as_ref()?.get().copied()
    }

    /// Checks a body length against the expected one. The first response sets the expectation.
    pub(crate) fn has_expected_length(&self, length: u64) -> bool {
        let expected = self.length.as_ref();
        expected.is_none_or(|expected| *expected.get_or_init(|| length) == length)
    }

    /// Returns true if the body of this operation's response is to be compared with the expected one.
    pub(crate) fn compares(&self, index: u64) -> bool {
        let content = self.content.get();
        content.is_some_and(|expected| expected.compares(index))
    }

    /// Returns the failure kind of a complete response; `None` if it is as expected. Checks play no part. `sum` is the
    /// checksum of a compared body.
    pub(crate) fn outcome(
        &self,
        status: u16,
        length: u64,
        sum: Option<u32>,
    ) -> Option<&'static str> {
        let differs = |sum| {
            let content = self.content.get();
            content.is_some_and(|expected| !expected.has_sum(sum))
        };
        if !self.settings.expects(status) {
            Some(outcome::STATUS)
        } else if !self.has_expected_length(length) {
            Some(outcome::LENGTH)
        } else if sum.is_some_and(differs) {
            Some(outcome::BODY)
        } else {
            None
        }
    }

    /// Prints an error that would not show up in the counters, once per run.
    pub(crate) fn log_once(&self, why: &str) {
        self.logged
            .call_once(|| output::note(&format!("error: {why}")));
    }

    pub(crate) fn is_head(&self) -> bool {
        self.settings.method == "HEAD"
    }
}

/// Returns the servers at an address: one, or one for each address to connect to instead.
fn servers_at(address: &Address, connect_to: &[String]) -> Result<Vec<ServerUrl>, Invalid> {
    let url = match address {
        Address::Url(url) if !connect_to.is_empty() => {
            let servers = connect_to.iter().map(|to| {
                ServerUrl::parse_with(url, SCHEMES, REMEDY, |_, port| resolve_as(to, port))
            });
            return servers.collect();
        }
        Address::Url(url) => url.clone(),
        Address::Socket(path) => format!("unix:{}", path.display()),
    };
    Ok(vec![parse_url(&url)?])
}

/// Resolves the address to connect to instead of the URL's, whose port is the default.
fn resolve_as(connect_to: &str, port: u16) -> Result<SocketAddr, String> {
    let named = |problem: String| format!("--connect-to {connect_to}: {problem}");
    let authority = connect_to.parse::<Authority>();
    let authority = authority.map_err(|error| {
        named(format!(
            "{error}: write HOST or HOST:PORT, and an IPv6 address in brackets"
        ))
    })?;
    let host = authority.host().trim_matches(['[', ']']);
    resolve(host, authority.port_u16().unwrap_or(port)).map_err(named)
}

const SCHEMES: &[(&str, bool)] = &[("http", false), ("https", true), ("unix", false)];
const REMEDY: &str = "write http://host:port/path, https://… or unix:/path/of.socket:/path";

/// Parses the URL of a server.
///
/// # Errors
/// An invalid URL, or a host that can't be resolved.
pub(crate) fn parse_url(url: &str) -> Result<ServerUrl, Invalid> {
    ServerUrl::parse(url, SCHEMES, REMEDY)
}
