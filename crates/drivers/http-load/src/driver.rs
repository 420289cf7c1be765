//! The driver: its contract with the harness, and the check before the run.

use std::net::IpAddr;

use harness::{cli, output};
use load::driver::{Checked, Description, Driver, Findings, Target, Worker};
use load::net::url::ServerUrl;
use load::plan::{Invalid, Plan};
use load::schedule::{Schedule, Share};
use load::workers::WorkerRange;
use measure::result::{AuditInputs, Lifetime, RunResult};
use measure::spec::Spec;
use measure::tally::{Series, Tally};
use serde::{Deserialize, Serialize};

use crate::content::Expected;
use crate::engine::{hyper, wire};
use crate::findings;
use crate::settings::{Engine, Pacing, Settings};
use crate::setup::FirstClient;
use crate::shared::Shared;
use crate::spec::SPEC;
use crate::{k6, mix, replay, spec, summary};

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
    /// Of each request of the plan.
    contents: Vec<(Option<u64>, Option<Expected>)>,
    /// The values of `setup`.
    values: Vec<Option<Box<[u8]>>>,
}

impl Driver for HttpLoad {
    const SPEC: &'static Spec = &SPEC;
    type Config = Settings;
    type Shared = ();

    fn spec(plan: &Plan<Settings>) -> &'static Spec {
        mix::spec(plan)
    }

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
                // Users that think are not always busy, and their times count from the end of that.
                lifetime: inputs.lifetime.map(|lifetime| Lifetime {
                    from_due: lifetime.from_due || settings.think.is_some(),
                    ..lifetime
                }),
                users: inputs
                    .users
                    .filter(|_| settings.think.is_none())
                    .map(|users| users * at_once),
                // If connections are opened in a phase of their own, holding them is the purpose.
                held: opening.map(|_| settings.connections),
                connections: Some(connections),
                reuses_connections: settings.keep_alive,
                // A log may pause at any time, and at its end.
                steady_from_s: inputs.steady_from_s.filter(|_| settings.replay.is_none()),
                idle_tail_s: match settings.replay {
                    Some(_) => plan.planned().as_secs_f64(),
                    None => inputs.idle_tail_s,
                },
                ..inputs
            },
            objective_series: objective_series(settings),
            longest: settings.timeout,
            opening,
            busy_waits: settings.pacing == Pacing::Spin,
            ..description
        })
    }

    fn schedules(&self, plan: &Plan<Settings>, share: Share) -> Vec<Schedule> {
        let mix = &self.shared.mix;
        match (&mix.rows, &mix.replay) {
            (Some(rows), Some(replay)) => vec![replay.schedule(rows, share)],
            _ => plan.schedules(share),
        }
    }

    fn uses_series(&self, series: Series) -> bool {
        match series {
            spec::TLS => self.shared.servers.iter().any(|server| server.tls),
            spec::FIRST_EVENT | spec::FIRST_CONTENT | spec::GAP => self.shared.settings.events,
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
            Engine::Wire => {
                let servers = servers.map(|server| wire::Prepared::new(&shared, server));
                Prepared::Wire(servers.collect::<Result<_, _>>()?)
            }
        };
        Ok(Self { shared, engine })
    }

    /// Sends every request to every server once, and the first one's answer is the answer of the run.
    fn check(&self) -> anyhow::Result<Checked> {
        let shared = &self.shared;
        if let Some(variable) = shared.servers.iter().find_map(ignored_proxy) {
            output::note(&format!(
                "{variable} is set and not used: requests go to the server itself"
            ));
        }
        if let (Some(rows), Some(replay)) = (&shared.mix.rows, &shared.mix.replay) {
            replay::note(rows, replay, &shared.settings.method);
        }
        shared.unused.iter().for_each(|note| output::note(note));
        let mut client = FirstClient::new(shared);
        shared.set_values(client.set_up()?);
        // Of a stream only the beginning was read.
        let answer = client.check()?.filter(|_| !shared.settings.events);
        let answer = answer.map(Into::into);
        let contents = shared.contents.iter();
        let contents = contents.map(|content| (content.length(), content.body.get().copied()));
        let learned = Learned {
            contents: contents.collect(),
            values: shared.setup_values().to_vec(),
        };
        Ok(Checked {
            answer,
            learned: serde_json::to_value(learned)?,
        })
    }

    fn learn(&self, learned: serde_json::Value) -> anyhow::Result<()> {
        let Learned { contents, values } = serde_json::from_value(learned)?;
        self.shared.set_values(values);
        for (content, (length, body)) in self.shared.contents.iter().zip(contents) {
            if let Some(length) = length {
                let _ = content.has_expected_length(length);
            }
            if let Some(body) = body {
                let _ = content.body.set(body);
            }
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

/// Returns the series that objectives may be set on.
fn objective_series(settings: &Settings) -> Vec<Series> {
    let of_streams = [spec::FIRST_EVENT, spec::FIRST_CONTENT, spec::GAP].into_iter();
    let of_streams = of_streams.filter(|_| settings.events);
    [spec::RESPONSE, spec::SERVICE]
        .into_iter()
        .chain(of_streams)
        .collect()
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
    let driver = &mut plan.driver;
    let all = driver
        .requests
        .iter_mut()
        .map(|request| &mut request.headers);
    for headers in all.chain([&mut driver.headers]) {
        let lines = cli::lines_of_files("driver.headers (--header)", std::mem::take(headers))?;
        *headers = lines;
    }
    Ok(())
}
