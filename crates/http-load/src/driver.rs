//! The driver: what is asked of which servers, made ready before the load begins.

use std::net::IpAddr;
use std::sync::{Once, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use harness::cli;
use harness::driver::{Address, Driver, Target, Worker};
use harness::output;
use harness::plan::{Group, Invalid, Plan};
use measure::audit::{Facts, Lifetime};
use measure::result::{Answer, RunResult};
use measure::tally::{Series, Tally};
use measure::warning::Warning;
use serde::{Deserialize, Serialize};

use crate::checks::Checks;
use crate::content::Expected;
use crate::preflight::{self, Sample};
use crate::requests::Requests;
use crate::settings::{self, Engine, Pacing, Settings};
use crate::target::Server;
use crate::{hyper, k6, outcome, redirect};
use crate::{series, source, summary, wire};

/// Requests to one server or several. All that is here is shared by the workers and the same for any engine.
#[derive(Debug)]
pub struct HttpLoad {
    pub(crate) settings: Settings,
    /// Whether the clients of each group go on by themselves.
    pub(crate) closed: Vec<bool>,
    /// Connections of the groups with a rate.
    pub(crate) pool: u64,
    pub(crate) servers: Vec<Server>,
    /// The requests to each server.
    pub(crate) requests: Vec<Requests>,
    pub(crate) sources: Vec<IpAddr>,
    pub(crate) checks: Checks,
    /// What the engine `hyper` needs of each server; empty where the other one is taken.
    pub(crate) hyper: Vec<hyper::Prepared>,
    said: Once,
    /// How long every content is, once the first was seen; where all requests are alike.
    expected: Option<OnceLock<u64>>,
    /// What every content is, once two answers had the same; where all requests are alike.
    content: OnceLock<Expected>,
    answer: OnceLock<Answer>,
}

/// What shards are told of the answers before the run.
#[derive(Debug, Serialize, Deserialize)]
struct Learned {
    length: Option<u64>,
    content: Option<Expected>,
}

impl HttpLoad {
    /// How long every content must be, once that is known.
    pub(crate) fn expected_length(&self) -> Option<u64> {
        self.expected.as_ref()?.get().copied()
    }

    /// Whether a content of this length is as long as the others. The first one is asked by nobody.
    pub(crate) fn is_as_long_as_others(&self, length: u64) -> bool {
        let expected = self.expected.as_ref();
        expected.is_none_or(|expected| *expected.get_or_init(|| length) == length)
    }

    /// The content of all answers, where that to this operation is to be compared with it.
    pub(crate) fn compares(&self, index: u64) -> bool {
        let content = self.content.get();
        content.is_some_and(|expected| expected.compares(index))
    }

    /// Returns true unless the checksum of a content is that of another one than the expected.
    pub(crate) fn is_expected(&self, sum: u32) -> bool {
        let content = self.content.get();
        content.is_none_or(|expected| expected.has(sum))
    }

    /// Asks a server again: where it answers with the same content, all answers should have it.
    fn learn_content(&self, first: &Sample) {
        let settings = &self.settings;
        let fixed = self.expected.is_some() && !settings.any_content && first.length > 0;
        if !fixed || self.is_head() || self.content.get().is_some() {
            return;
        }
        let (server, requests) = (&self.servers[0], &self.requests[0]);
        // A server that answers but once is found out by the run itself.
        let again = preflight::fetch(settings, server, requests);
        if again.is_ok_and(|again| again == *first) {
            let _ = self.content.set(Expected::sampled(first.length, first.sum));
        }
    }

    /// Says why no connection can be made, where that is no matter of counting: once, however often it happens.
    pub(crate) fn say_once(&self, unconnected: &hyper::Unconnected) {
        if let hyper::Unconnected::Tls(why) = unconnected {
            self.said
                .call_once(|| output::remark(&format!("error: {why}")));
        }
    }

    /// Whether all answers should be of one length.
    pub(crate) fn is_head(&self) -> bool {
        self.settings.method == "HEAD"
    }
}

impl Driver for HttpLoad {
    const NAME: &'static str = "http-load";
    const PROTOCOL: &'static str = "http";
    const SERIES: &'static [&'static str] = series::NAMES;
    const AUDIT: &'static [(&'static str, &'static str)] =
        &[("http_requests_total", outcome::count::SERVED)];
    const ACTIVE_METRIC: &'static str = "http_connections_open";
    const ERRORS: &'static [&'static str] = outcome::ALL;
    const ASKED_FOR: &'static [&'static str] = &[];
    const OF_A_FAULT: &'static [&'static str] = outcome::OF_A_FAULT;
    const EXHAUSTED: &'static [&'static str] = outcome::EXHAUSTED;
    type Config = Settings;

    fn validate(plan: &Plan<Settings>) -> Result<(), Invalid> {
        Settings::validate(plan)
    }

    /// k6's spelling of thresholds; what they are about is measured.
    fn spell_out(plan: &mut Plan<Settings>) -> Result<(), Invalid> {
        for (place, text) in plan.thresholds.iter_mut().enumerate() {
            let wrong =
                |problem| Invalid::new(format!("thresholds[{place}] (--threshold)"), problem);
            *text = k6::threshold(text).map_err(wrong)?;
            plan.driver.phases |= k6::is_of_a_phase(text);
        }
        let headers = std::mem::take(&mut plan.driver.headers);
        plan.driver.headers = cli::lines_of_files("driver.headers (--header)", headers)?;
        Ok(())
    }

    fn sentence(plan: &Plan<Settings>) -> String {
        Settings::sentence(plan)
    }

    fn response(_: &Plan<Settings>) -> Series {
        series::RESPONSE
    }

    fn records(&self, series: Series) -> bool {
        match series {
            series::TLS => self.servers.iter().any(|server| server.tls),
            series::BLOCKED | series::SENDING | series::WAITING | series::RECEIVING => {
                self.settings.phases
            }
            _ => true,
        }
    }

    /// A user who asks for several things at once is as many.
    fn facts(plan: &Plan<Settings>) -> Facts {
        let at_once = plan.driver.streams.max(plan.driver.pipeline);
        let facts = plan.facts();
        Facts {
            lifetime: Some(Lifetime {
                from_due: plan.is_paced(),
                ..Lifetime::of("response")
            }),
            users: facts.users.map(|users| users * f64::from(at_once)),
            // Where they are opened as a phase of its own, holding them is what is asked for.
            held: Settings::opening(plan).map(|_| plan.driver.connections),
            ..facts
        }
    }

    fn opening(plan: &Plan<Settings>) -> Option<Duration> {
        Settings::opening(plan)
    }

    fn spins(plan: &Plan<Settings>) -> bool {
        plan.driver.pacing == Pacing::Spin
    }

    fn summary(result: &RunResult) -> Option<String> {
        summary::of(result)
    }

    fn longest(plan: &Plan<Settings>) -> Duration {
        plan.driver.timeout
    }

    fn descriptors(plan: &Plan<Settings>) -> u64 {
        Settings::connections_of(plan)
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
            checks.keep(redirect::LOCATION);
        }
        let content = settings.expect_body.as_deref().map(Expected::named);
        let content = content.transpose()?;
        let connections = Settings::connections_of(plan);
        source::room(&settings, connections, source::ways(&servers))?;
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
            said: Once::new(),
            expected: match (&content, settings.expect_length) {
                (Some(content), _) => Some(OnceLock::from(content.length)),
                (None, Some(length)) => Some(OnceLock::from(length)),
                (None, None) => (alike && !settings.any_content).then(OnceLock::new),
            },
            content: content.map_or_else(OnceLock::new, OnceLock::from),
            answer: OnceLock::new(),
            settings,
        })
    }

    /// Asks every server once: the status must be as expected, and all must answer alike. Where contents are to be compared
    /// and none was named, the first is asked twice.
    fn check(&self) -> anyhow::Result<()> {
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
        if let Some(sample) = first {
            let _ = self.is_as_long_as_others(sample.length);
            self.learn_content(&sample);
            let _ = self.answer.set(sample.into());
        }
        Ok(())
    }

    fn learned(&self) -> serde_json::Value {
        let learned = Learned {
            length: self.expected_length(),
            content: self.content.get().copied(),
        };
        serde_json::to_value(learned).unwrap_or_default()
    }

    fn learn(&self, learned: serde_json::Value) -> anyhow::Result<()> {
        let Learned { length, content } = serde_json::from_value(learned)?;
        if let Some(length) = length {
            let _ = self.is_as_long_as_others(length);
        }
        if let Some(content) = content {
            let _ = self.content.set(content);
        }
        Ok(())
    }

    fn doubts(_plan: &Plan<Settings>, total: &Tally) -> Vec<Warning> {
        let compared = total.counted(outcome::count::COMPARED);
        let differing = total.errors.get(outcome::BODY).copied().unwrap_or(0);
        let hint = "answers with the right status and length are counted as body where their content is another: look at one; where contents are to change, --any-content";
        let differs = (differing > 0).then(|| {
            let text = format!(
                "{differing} of the {compared} contents that were compared are not that of the answers before the run, or of --expect-body"
            );
            Warning::content_differs(&text, hint)
        });
        differs.into_iter().collect()
    }

    fn answer(&self) -> Option<Answer> {
        self.answer.get().cloned()
    }

    async fn work(&self, worker: Worker) -> anyhow::Result<()> {
        match self.settings.engine {
            Engine::Hyper => hyper::work(self, worker).await,
            _ => wire::work(self, worker),
        }
    }
}

fn server(address: &Address) -> Result<Server, Invalid> {
    match address {
        Address::Url(url) => Server::parse(url),
        Address::Socket(path) => Server::parse(&format!("unix:{}", path.display())),
    }
}
