//! The driver: servers and requests, prepared before the load starts.

use std::net::IpAddr;
use std::sync::{Once, OnceLock};

use anyhow::Context as _;
use harness::cli;
use harness::output;
use load::driver::{Address, Checked, Description, Driver, Findings, Target, Worker};
use load::plan::{Group, Invalid, Plan};
use measure::result::{AuditInputs, RunResult};
use measure::spec::Spec;
use measure::tally::{Series, Tally};
use measure::warning::Warning;
use serde::{Deserialize, Serialize};

use crate::checks::Checks;
use crate::content::Expected;
use crate::preflight::{self, Sample};
use crate::requests::Requests;
use crate::settings::{self, Engine, Pacing, Settings};
use crate::spec::SPEC;
use crate::target::Server;
use crate::{hyper, k6, outcome, redirect};
use crate::{series, source, summary, wire};

/// The load on one server or several. Shared by all workers and the same for both engines.
#[derive(Debug)]
pub struct HttpLoad {
    pub(crate) settings: Settings,
    /// True for each group that is a closed loop.
    pub(crate) closed: Vec<bool>,
    /// Number of connections of the groups with a rate.
    pub(crate) pool: u64,
    pub(crate) servers: Vec<Server>,
    /// The requests to each server.
    pub(crate) requests: Vec<Requests>,
    pub(crate) sources: Vec<IpAddr>,
    pub(crate) checks: Checks,
    /// Per-server state of the engine `hyper`; empty with the other engine.
    pub(crate) hyper: Vec<hyper::Prepared>,
    logged: Once,
    /// The length of every response body, known after the first one; `None` if requests differ.
    expected: Option<OnceLock<u64>>,
    /// The body of every response, known after two equal ones; only if all requests are alike.
    content: OnceLock<Expected>,
}

/// Facts about the responses before the run, passed to shards.
#[derive(Debug, Serialize, Deserialize)]
struct Learned {
    length: Option<u64>,
    content: Option<Expected>,
}

impl HttpLoad {
    /// Returns the required length of a body, once it is known.
    pub(crate) fn expected_length(&self) -> Option<u64> {
        self.expected.as_ref()?.get().copied()
    }

    /// Checks a body length against the expected one. The first response sets the expectation.
    pub(crate) fn has_expected_length(&self, length: u64) -> bool {
        let expected = self.expected.as_ref();
        expected.is_none_or(|expected| *expected.get_or_init(|| length) == length)
    }

    /// Returns true if the body of this operation's response is to be compared with the expected one.
    pub(crate) fn compares(&self, index: u64) -> bool {
        let content = self.content.get();
        content.is_some_and(|expected| expected.compares(index))
    }

    /// Returns true unless `sum` differs from the checksum of the expected body.
    pub(crate) fn is_expected(&self, sum: u32) -> bool {
        let content = self.content.get();
        content.is_none_or(|expected| expected.has_sum(sum))
    }

    /// Sends the request again: if both responses have the same body, all responses should have it.
    fn learn_content(&self, first: &Sample) {
        let settings = &self.settings;
        let fixed = self.expected.is_some() && !settings.any_content && first.length > 0;
        if !fixed || self.is_head() || self.content.get().is_some() {
            return;
        }
        let (server, requests) = (&self.servers[0], &self.requests[0]);
        // If the second request fails, the run itself will show it.
        let again = preflight::fetch(settings, server, requests);
        if again.is_ok_and(|again| again == *first) {
            let _ = self.content.set(Expected::sampled(first.length, first.sum));
        }
    }

    /// Logs a connection error that would not show up in the counters. Logged once per run.
    pub(crate) fn log_once(&self, unconnected: &hyper::ConnectError) {
        if let hyper::ConnectError::Tls(why) = unconnected {
            self.logged
                .call_once(|| output::remark(&format!("error: {why}")));
        }
    }

    /// Returns true if the requests are `HEAD` requests.
    pub(crate) fn is_head(&self) -> bool {
        self.settings.method == "HEAD"
    }
}

impl Driver for HttpLoad {
    const SPEC: &'static Spec = &SPEC;
    type Config = Settings;

    fn validate(plan: &mut Plan<Settings>) -> Result<Description, Invalid> {
        rewrite(plan)?;
        Settings::validate(plan)?;
        let (settings, opening) = (&plan.driver, Settings::opening(plan));
        let sentence = Settings::sentence(plan);
        let connections = Settings::connection_count(plan);
        let description = Description::new(plan, &SPEC, sentence, series::RESPONSE, connections);
        let inputs = description.audit_inputs;
        // A client with several requests in flight counts as that many users.
        let at_once = f64::from(settings.streams.max(settings.pipeline));
        Ok(Description {
            audit_inputs: AuditInputs {
                users: inputs.users.map(|users| users * at_once),
                // If connections are opened in a phase of their own, holding them is the purpose.
                held: opening.map(|_| settings.connections),
                reuses_connections: settings.keep_alive,
                ..inputs
            },
            longest: settings.timeout,
            opening,
            busy_waits: settings.pacing == Pacing::Spin,
            ..description
        })
    }

    fn uses_series(&self, series: Series) -> bool {
        match series {
            series::TLS => self.servers.iter().any(|server| server.tls),
            series::BLOCKED | series::SENDING | series::WAITING | series::RECEIVING => {
                self.settings.phases
            }
            _ => true,
        }
    }

    fn summary(result: &RunResult) -> Option<String> {
        summary::render(result)
    }

    fn setup(plan: &Plan<Settings>, target: &Target) -> anyhow::Result<Self> {
        let mut settings = plan.driver.clone();
        let servers: Vec<Server> = target
            .addresses
            .iter()
            .map(server)
            .collect::<Result<_, _>>()?;
        settings.choose_engine(servers.iter().any(|server| server.tls))?;
        let hyper = match settings.engine {
            Engine::Hyper => servers
                .iter()
                .map(|server| hyper::Prepared::new(&settings, server))
                .collect::<Result<_, _>>()?,
            _ => Vec::new(),
        };
        let requests = servers
            .iter()
            .map(|server| Requests::new(&settings, server));
        let requests: Vec<Requests> = requests.collect::<Result<_, _>>()?;
        let alike = requests.iter().all(Requests::are_alike);
        let mut checks = Checks::parse(&settings.checks)?;
        if settings.follow > 0 {
            checks.capture_field(redirect::LOCATION);
        }
        let content = settings.expect_body.as_deref().map(Expected::named);
        let content = content.transpose()?;
        let connections = Settings::connection_count(plan);
        source::check_ports(&settings, connections, source::server_ports(&servers))?;
        Ok(Self {
            sources: source::addresses(&settings, connections, &servers)?,
            closed: plan.groups.iter().map(Group::is_closed).collect(),
            pool: if settings::open_loop(plan) {
                settings.connections
            } else {
                0
            },
            checks,
            servers,
            requests,
            hyper,
            logged: Once::new(),
            expected: match (&content, settings.expect_length) {
                (Some(content), _) => Some(OnceLock::from(content.length)),
                (None, Some(length)) => Some(OnceLock::from(length)),
                (None, None) => (alike && !settings.any_content).then(OnceLock::new),
            },
            content: content.map_or_else(OnceLock::new, OnceLock::from),
            settings,
        })
    }

    /// Requests every server once: the status must be expected, and all must respond alike. If bodies are to be
    /// compared and none was named, the first server is requested twice.
    fn check(&self) -> anyhow::Result<Checked> {
        let mut first: Option<Sample> = None;
        for (server, requests) in self.servers.iter().zip(&self.requests) {
            let sample = preflight::fetch(&self.settings, server, requests)
                .with_context(|| format!("{} of {}", self.settings.path_at(server), server.peer))?;
            sample.check(&self.settings)?;
            if let Some(content) = self.content.get() {
                sample.check_content(content)?;
            }
            match &first {
                None => first = Some(sample),
                Some(first) => first.compare(&sample)?,
            }
        }
        let mut answer = None;
        if let Some(sample) = first {
            let _ = self.has_expected_length(sample.length);
            self.learn_content(&sample);
            answer = Some(sample.into());
        }
        let learned = Learned {
            length: self.expected_length(),
            content: self.content.get().copied(),
        };
        Ok(Checked {
            answer,
            daemon_pid: None,
            learned: serde_json::to_value(learned)?,
        })
    }

    fn learn(&self, learned: serde_json::Value) -> anyhow::Result<()> {
        let Learned { length, content } = serde_json::from_value(learned)?;
        if let Some(length) = length {
            let _ = self.has_expected_length(length);
        }
        if let Some(content) = content {
            let _ = self.content.set(content);
        }
        Ok(())
    }

    fn findings(_plan: &Plan<Settings>, total: &Tally) -> Findings {
        let compared = total.counted(outcome::count::COMPARED);
        let differing = total.errors.get(outcome::BODY).copied().unwrap_or(0);
        let hint = "responses with the right status and length but another body are counted as body: inspect one; if bodies may change, use --any-content";
        let differs = (differing > 0).then(|| {
            let text = format!(
                "{differing} of the {compared} compared response bodies differ from the body before the run, or from --expect-body"
            );
            Warning::content_differs(&text, hint)
        });
        Findings {
            warnings: differs.into_iter().collect(),
            ..Findings::default()
        }
    }

    async fn work(&self, worker: Worker) -> anyhow::Result<()> {
        match self.settings.engine {
            Engine::Hyper => hyper::work(self, worker).await,
            _ => wire::work(self, worker),
        }
    }
}

/// Rewrites thresholds from k6's syntax and enables the phases they use, and reads headers from files.
fn rewrite(plan: &mut Plan<Settings>) -> Result<(), Invalid> {
    for (index, text) in plan.thresholds.iter_mut().enumerate() {
        let wrong = |problem| Invalid::new(format!("thresholds[{index}] (--threshold)"), problem);
        *text = k6::threshold(text).map_err(wrong)?;
        plan.driver.phases |= k6::uses_phase(text);
    }
    let headers = std::mem::take(&mut plan.driver.headers);
    plan.driver.headers = cli::lines_of_files("driver.headers (--header)", headers)?;
    Ok(())
}

fn server(address: &Address) -> Result<Server, Invalid> {
    match address {
        Address::Url(url) => Server::parse(url),
        Address::Socket(path) => Server::parse(&format!("unix:{}", path.display())),
    }
}
