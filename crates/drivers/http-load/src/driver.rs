//! The driver: its contract with the harness, and the check before the run.

use std::net::IpAddr;

use harness::{cli, output};
use load::driver::{Checked, Description, Driver, Findings, Target, Worker};
use load::net::url::ServerUrl;
use load::plan::{Invalid, Plan};
use load::workers::WorkerRange;
use measure::result::{AuditInputs, RunResult};
use measure::spec::Spec;
use measure::tally::{Series, Tally};
use serde::{Deserialize, Serialize};

use crate::check::preflight;
use crate::check::sample::Sample;
use crate::content::Expected;
use crate::engine::{hyper, wire};
use crate::findings::{self, ANY_LENGTH};
use crate::settings::{Engine, Pacing, Settings};
use crate::shared::Shared;
use crate::spec::SPEC;
use crate::{k6, spec, summary};

/// The load on one server or several.
#[derive(Debug)]
pub struct HttpLoad {
    shared: Shared,
    engine: Prepared,
}

/// The engine, with its part for each server.
#[derive(Debug)]
enum Prepared {
    Hyper(Vec<hyper::Prepared>),
    Wire(Vec<wire::Prepared>),
}

/// Facts about the responses before the run, passed to shards.
#[derive(Debug, Serialize, Deserialize)]
struct Learned {
    length: Option<u64>,
    content: Option<Expected>,
}

impl HttpLoad {
    /// Sends the request again: if both responses have the same body, all responses should have it.
    ///
    /// # Errors
    /// The second body has another length, so that most responses would fail.
    fn learn_content(&self, first: &Sample) -> anyhow::Result<()> {
        let shared = &self.shared;
        let settings = &shared.settings;
        let fixed = shared.has_one_length() && !settings.any_content && first.length > 0;
        if !fixed || shared.is_head() || shared.content.get().is_some() {
            return Ok(());
        }
        // If the second request fails, the run itself will show it.
        let Ok(again) = preflight::fetch(settings, &shared.servers[0], &shared.requests[0]) else {
            return Ok(());
        };
        if again.length != first.length && settings.expect_length.is_none() {
            let (one, other) = (first.length, again.length);
            let problem =
                format!("the same request returned {one} and {other} bytes: {ANY_LENGTH}");
            return Err(Invalid::new(self.address(0), problem).into());
        }
        if again == *first {
            let _ = shared
                .content
                .set(Expected::sampled(first.length, first.sum));
        }
        Ok(())
    }

    /// Names what is requested from a server, for messages.
    fn address(&self, index: usize) -> String {
        let server = &self.shared.servers[index];
        let path = self.shared.settings.path_at(server);
        format!("{path} of {}", server.peer)
    }
}

impl Driver for HttpLoad {
    const SPEC: &'static Spec = &SPEC;
    type Config = Settings;
    type Shared = ();

    fn validate(plan: &mut Plan<Settings>) -> Result<Description, Invalid> {
        rewrite(plan)?;
        Settings::validate(plan)?;
        let (settings, opening) = (&plan.driver, Settings::opening(plan));
        let sentence = Settings::sentence(plan);
        let connections = Settings::connection_count(plan);
        let description = Description::new(plan, &SPEC, sentence, spec::RESPONSE, connections);
        let inputs = description.audit_inputs;
        // A client with several requests in flight counts as that many users.
        let at_once = f64::from(settings.streams.max(settings.pipeline));
        Ok(Description {
            audit_inputs: AuditInputs {
                users: inputs.users.map(|users| users * at_once),
                // If connections are opened in a phase of their own, holding them is the purpose.
                held: opening.map(|_| settings.connections),
                connections: Some(connections),
                reuses_connections: settings.keep_alive,
                ..inputs
            },
            objective_series: vec![spec::RESPONSE, spec::SERVICE],
            longest: settings.timeout,
            opening,
            busy_waits: settings.pacing == Pacing::Spin,
            ..description
        })
    }

    fn uses_series(&self, series: Series) -> bool {
        match series {
            spec::TLS => self.shared.servers.iter().any(|server| server.tls),
            spec::BLOCKED | spec::SENDING | spec::WAITING | spec::RECEIVING => {
                self.shared.settings.phases
            }
            _ => true,
        }
    }

    fn summary(result: &RunResult) -> Option<String> {
        summary::render(result)
    }

    fn setup(
        plan: &Plan<Settings>,
        target: &Target,
        _workers: &WorkerRange,
    ) -> anyhow::Result<Self> {
        let shared = Shared::new(plan, target)?;
        let (settings, servers) = (&shared.settings, shared.servers.iter());
        let engine = match settings.engine {
            Engine::Hyper => {
                let servers = servers.map(|server| hyper::Prepared::new(settings, server));
                Prepared::Hyper(servers.collect::<Result<_, _>>()?)
            }
            _ => {
                let servers = servers.map(|server| wire::Prepared::new(settings, server));
                Prepared::Wire(servers.collect::<Result<_, _>>()?)
            }
        };
        Ok(Self { shared, engine })
    }

    /// Requests every server once: the status must be expected, and all must respond alike. If bodies are to be
    /// compared and none was named, the first server is requested twice.
    fn check(&self) -> anyhow::Result<Checked> {
        let mut first: Option<Sample> = None;
        let settings = &self.shared.settings;
        if let Some(variable) = self.shared.servers.iter().find_map(ignored_proxy) {
            output::note(&format!(
                "{variable} is set and not used: requests go to the server itself"
            ));
        }
        let servers = self.shared.servers.iter().zip(&self.shared.requests);
        for (index, (server, requests)) in servers.enumerate() {
            let sample = preflight::fetch(settings, server, requests).and_then(|sample| {
                sample.check(settings)?;
                if let Some(content) = self.shared.content.get() {
                    sample.check_content(content)?;
                }
                if let Some(first) = &first {
                    first.compare(&sample)?;
                }
                Ok(sample)
            });
            let sample =
                sample.map_err(|error| Invalid::new(self.address(index), format!("{error:#}")))?;
            first.get_or_insert(sample);
        }
        let mut answer = None;
        if let Some(sample) = first {
            let _ = self.shared.has_expected_length(sample.length);
            self.learn_content(&sample)?;
            answer = Some(sample.into());
        }
        let learned = Learned {
            length: self.shared.expected_length(),
            content: self.shared.content.get().copied(),
        };
        Ok(Checked {
            answer,
            learned: serde_json::to_value(learned)?,
        })
    }

    fn learn(&self, learned: serde_json::Value) -> anyhow::Result<()> {
        let Learned { length, content } = serde_json::from_value(learned)?;
        if let Some(length) = length {
            let _ = self.shared.has_expected_length(length);
        }
        if let Some(content) = content {
            let _ = self.shared.content.set(content);
        }
        Ok(())
    }

    fn findings(_plan: &Plan<Settings>, total: &Tally) -> Findings {
        findings::findings(total)
    }

    async fn work(&self, worker: Worker) -> anyhow::Result<()> {
        match &self.engine {
            Prepared::Hyper(servers) => hyper::work(&self.shared, servers, worker).await,
            Prepared::Wire(servers) => wire::work(&self.shared, servers, worker),
        }
    }
}

/// Returns the variable that makes other programs use a proxy for a server.
fn ignored_proxy(server: &ServerUrl) -> Option<&'static str> {
    let own = if server.tls {
        ["https_proxy", "HTTPS_PROXY"]
    } else {
        // Other programs ignore it in capitals, which a client of a CGI program can set.
        ["http_proxy", "http_proxy"]
    };
    let is_near = match server.host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => server.host == "localhost",
    };
    let mut variables = own.into_iter().chain(["all_proxy", "ALL_PROXY"]);
    let set = variables.find(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    set.filter(|_| !is_near)
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
