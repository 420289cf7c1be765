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
use load::recorder::Recorder;

use crate::content::Expected;
use crate::events::RecordScan;
use crate::mix::{self, Mix, NamedRequest, Needs, columns_of};
use crate::outcome;
use crate::requests::Requests;
use crate::roles::checks::Checks;
use crate::roles::operation::Operation;
use crate::roles::redirect::LOCATION;
use crate::roles::session::SET_COOKIE;
use crate::settings::Settings;

/// The state that workers share, the same for both engines. It changes only while the first responses are learned.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) seed: u64,
    /// True for each group that is a closed loop.
    pub(crate) closed: Vec<bool>,
    /// The connections of the groups with a rate.
    pub(crate) pool: PoolConfig,
    pub(crate) servers: Vec<ServerUrl>,
    /// True if a name has several addresses, and messages about those that are not used.
    pub(crate) are_spread: bool,
    pub(crate) unused: Vec<String>,
    /// The requests of the plan, and the columns of rows that they use.
    pub(crate) mix: Mix,
    /// True if the plan names no requests, so that there is one, which takes no values: the hot loop then costs no more than
    /// without them.
    pub(crate) is_single: bool,
    pub(crate) columns: Vec<usize>,
    pub(crate) needs: Needs,
    pub(crate) has_needs: bool,
    /// The request `setup` to the first server, and the values that it has given; empty before it was sent.
    pub(crate) setup_requests: Option<Requests>,
    setup_values: OnceLock<Vec<Option<Box<[u8]>>>>,
    /// The requests of the plan to each server.
    requests: Vec<Vec<Requests>>,
    /// The content that is expected of the responses to each request of the plan.
    pub(crate) contents: Vec<ExpectedContent>,
    /// True if the responses to any request must have one length.
    pub(crate) has_lengths: bool,
    pub(crate) sources: Vec<IpAddr>,
    pub(crate) checks: Checks,
    pub(crate) scan: RecordScan,
    logged: Once,
}

/// The content that is expected of the responses to one request of the plan.
#[derive(Debug)]
pub(crate) struct ExpectedContent {
    /// The length of every response body, known after the first one; `None` if requests differ.
    length: Option<OnceLock<u64>>,
    /// The body of every response, known after two equal ones; only if all requests are alike.
    pub(crate) body: OnceLock<Expected>,
}

impl ExpectedContent {
    fn new(settings: &Settings, are_alike: bool) -> Result<Self, Invalid> {
        let body = settings.expect_body.as_deref().map(Expected::named);
        let body = body.transpose()?;
        let length = match (&body, settings.expect_length) {
            (Some(body), _) => Some(OnceLock::from(body.length)),
            (None, Some(length)) => Some(OnceLock::from(length)),
            (None, None) => {
                let has_one = are_alike && !settings.any_content && !settings.events;
                has_one.then(OnceLock::new)
            }
        };
        Ok(Self {
            length,
            body: body.map_or_else(OnceLock::new, OnceLock::from),
        })
    }

    /// Returns true if all responses must have one length, known or not.
    pub(crate) fn has_one_length(&self) -> bool {
        self.length.is_some()
    }

    /// Returns the required length of a body, once it is known.
    pub(crate) fn length(&self) -> Option<u64> {
        self.length.as_ref()?.get().copied()
    }

    /// Checks a body length against the expected one. The first response sets the expectation.
    pub(crate) fn has_expected_length(&self, length: u64) -> bool {
        let expected = self.length.as_ref();
        expected.is_none_or(|expected| *expected.get_or_init(|| length) == length)
    }
}

impl Shared {
    /// Prepares the load of a plan on a target, and chooses the engine.
    pub(crate) fn new(plan: &Plan<Settings>, target: &Target) -> Result<Self, Invalid> {
        let settings = plan.driver.clone();
        let mut servers = Servers::default();
        for address in &target.addresses {
            servers.add(address, &settings.connect_to)?;
        }
        let Servers {
            all: servers,
            are_spread,
            unused,
        } = servers;
        let mut mix = Mix::new(plan)?;
        let requests = servers.iter();
        let requests = requests.map(|server| mix.requests_to(server, &settings.requests));
        let requests: Vec<Vec<Requests>> = requests.collect::<Result<_, _>>()?;
        let setup_requests = mix.setup_requests(&servers[0])?;
        let columns = columns_of(requests.iter().flatten().chain(&setup_requests));
        mix.check_rows(&columns)?;
        let contents = mix.requests.iter().enumerate().map(|(index, request)| {
            let are_alike = requests.iter().all(|requests| requests[index].are_alike());
            let content = ExpectedContent::new(&request.settings, are_alike);
            content.map_err(|error| mix::at(&settings.requests, index, error))
        });
        let contents: Vec<ExpectedContent> = contents.collect::<Result<_, _>>()?;
        let needs = Needs::new(plan, &mix, &requests[0])?;
        let mut checks = Checks::parse(&settings.checks)?;
        let all = mix.requests.iter().chain(&mix.setup);
        all.for_each(|request| request.capture_by(&mut checks));
        if settings.cookies {
            checks.capture_field(SET_COOKIE);
        }
        if settings.follow > 0 {
            checks.capture_field(LOCATION);
        }
        let connections = Settings::connection_count(plan);
        let peers = || servers.iter().map(|server| &server.peer);
        let named = &settings.source_addresses;
        sources::check_ports(named, connections, sources::server_ports(peers()))?;
        Ok(Self {
            seed: plan.seed,
            sources: sources::addresses(named, connections, peers())?,
            closed: plan.groups.iter().map(Group::is_closed).collect(),
            pool: PoolConfig {
                size: Settings::pool_size(plan),
                rate: settings.connect_rate,
                keep_alive: settings.keep_alive,
            },
            checks,
            scan: RecordScan::default(),
            servers,
            are_spread,
            unused,
            requests,
            logged: Once::new(),
            has_lengths: contents.iter().any(ExpectedContent::has_one_length),
            contents,
            columns,
            is_single: settings.requests.is_empty(),
            has_needs: !needs.is_empty(),
            needs,
            setup_requests,
            setup_values: OnceLock::new(),
            mix,
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

    /// Returns the requests to the server of a connection with this index, by their index in the plan.
    #[inline]
    pub(crate) fn requests_of(&self, request: u16, index: u32) -> &Requests {
        &self.requests[self.server_of(index)][usize::from(request)]
    }

    /// Returns the requests to a server.
    pub(crate) fn requests_to(&self, server: usize) -> &[Requests] {
        &self.requests[server]
    }

    /// Returns the values that all clients share.
    #[inline]
    pub(crate) fn setup_values(&self) -> &[Option<Box<[u8]>>] {
        self.setup_values.get().map_or(&[], Vec::as_slice)
    }

    /// Takes the values that all clients share, once.
    pub(crate) fn set_values(&self, values: Vec<Option<Box<[u8]>>>) {
        let _ = self.setup_values.set(values);
    }

    /// Returns the measurements of a request by its name, if the plan names requests.
    #[inline]
    pub(crate) fn named(&self, request: u16) -> Option<&NamedRequest> {
        if self.is_single {
            return None;
        }
        self.mix.requests[usize::from(request)].named.as_ref()
    }

    /// Counts the failure of an operation by the name of its request.
    pub(crate) fn count_failure(&self, record: &Recorder, operation: &Operation) {
        if let Some(named) = self.named(operation.request).filter(|_| operation.counted) {
            record.count_by_name(&named.failed, 1);
        }
    }

    #[inline]
    fn content(&self, request: u16) -> &ExpectedContent {
        &self.contents[usize::from(request)]
    }

    /// Returns the required length of the body of a response, once it is known.
    pub(crate) fn expected_length(&self, request: u16) -> Option<u64> {
        self.content(request).length()
    }

    /// Returns true if the body of this operation's response is to be compared with the expected one.
    pub(crate) fn compares(&self, operation: &Operation) -> bool {
        let body = self.content(operation.request).body.get();
        body.is_some_and(|expected| expected.compares(operation.index))
    }

    /// Returns the failure kind of a complete response; `None` if it is as expected. Checks play no part. `sum` is the
    /// checksum of a compared body.
    #[inline]
    pub(crate) fn outcome(
        &self,
        request: u16,
        status: u16,
        length: u64,
        sum: Option<u32>,
    ) -> Option<&'static str> {
        let content = self.content(request);
        let differs = |sum| {
            let body = content.body.get();
            body.is_some_and(|expected| !expected.has_sum(sum))
        };
        if !self.settings_of(request).expects(status) {
            Some(outcome::STATUS)
        } else if !content.has_expected_length(length) {
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

    /// Says which of several addresses a connection could not be opened to, once per run.
    pub(crate) fn log_unconnected(&self, index: u32) {
        let count = self.servers.len();
        if count > 1 {
            let peer = &self.servers[self.server_of(index)].peer;
            self.log_once(&format!(
                "no connection to {peer}, one of {count} addresses"
            ));
        }
    }

    pub(crate) fn is_head(&self, request: u16) -> bool {
        self.requests[0][usize::from(request)].is_head
    }

    /// Returns the settings of a request.
    pub(crate) fn settings_of(&self, request: u16) -> &Settings {
        &self.mix.requests[usize::from(request)].settings
    }
}

/// The servers of a run, each at one address.
#[derive(Debug, Default)]
struct Servers {
    all: Vec<ServerUrl>,
    /// True if a name has several addresses.
    are_spread: bool,
    /// Messages about addresses of names that are not used.
    unused: Vec<String>,
}

impl Servers {
    /// Adds the servers at an address: one for each address of the URL's host, or of the hosts of `connect_to` instead.
    fn add(&mut self, address: &Address, connect_to: &[String]) -> Result<(), Invalid> {
        let (url, connect_to) = match address {
            Address::Url(url) => (url.clone(), connect_to),
            Address::Socket(path) => (format!("unix:{}", path.display()), &[][..]),
        };
        let mut addresses = Vec::new();
        let server = ServerUrl::parse_with(&url, SCHEMES, REMEDY, |host, port| {
            if connect_to.is_empty() {
                addresses = self.resolve(host, port)?;
            }
            for to in connect_to {
                let added = parse_authority(to, port).and_then(|(host, port)| {
                    let host = host.trim_matches(['[', ']']);
                    self.resolve(host, port)
                });
                let named = |problem| format!("--connect-to {to}: {problem}");
                addresses.extend(added.map_err(named)?);
            }
            Ok(addresses[0])
        })?;
        if addresses.is_empty() {
            self.all.push(server);
        } else {
            let each = addresses.into_iter().map(|address| server.at(address));
            self.all.extend(each);
        }
        Ok(())
    }

    fn resolve(&mut self, host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
        let resolved = resolve(host, port)?;
        self.are_spread |= resolved.used.len() > 1;
        let unused = resolved.unused.into_iter().map(|(address, error)| {
            format!("{host} has the address {address}, which is not used: {error}")
        });
        self.unused.extend(unused);
        Ok(resolved.used)
    }
}

/// Parses an address to connect to instead of the URL's, whose port is the default.
fn parse_authority(to: &str, port: u16) -> Result<(String, u16), String> {
    let authority = to.parse::<Authority>().map_err(|error| {
        format!("{error}: write HOST or HOST:PORT, and an IPv6 address in brackets")
    })?;
    let port = authority.port_u16().unwrap_or(port);
    Ok((authority.host().to_owned(), port))
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
