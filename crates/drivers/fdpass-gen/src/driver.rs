//! The driver: prepares the handoffs, and checks the first answer.

use std::fmt::Display;
use std::os::fd::OwnedFd;
use std::sync::{Once, OnceLock};
use std::time::Duration;

use anyhow::{Context as _, Error, anyhow, bail, ensure};
use harness::output;
use load::clock;
use load::driver::{Checked, Description, Driver, Findings, Target, Worker};
use load::plan::{Group, Invalid, Plan};
use load::recorder::Recorder;
use load::workers::WorkerRange;
use measure::result::{AuditInputs, Lifetime};
use measure::spec::Spec;
use measure::tally::Tally;
use measure::units::duration;
use measure::warning::Warning;

use crate::expect::Expected;
use crate::outcome::{self, count};
use crate::settings::Settings;
use crate::spec::{self, SPEC};
use crate::stream::Stream;
use crate::work;
use fdpass_client::client::{Unread, after, hand_over, read_some};
use fdpass_client::handoff::{HandoffEndpoint, explain};
use fdpass_client::sse::{Fault, Reader};

/// Maximum wait for one read of the check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);
/// Streams that last longer are checked only up to their first record.
const CHECK_WHOLE: Duration = Duration::from_secs(2);

/// A driver that hands over sockets and reads the streams that come back.
#[derive(Debug)]
pub struct FdPass {
    pub(crate) settings: Settings,
    pub(crate) payload: Vec<u8>,
    /// The endpoint of each daemon; start k uses the one at index k modulo their number.
    pub(crate) endpoints: Vec<HandoffEndpoint>,
    pub(crate) timeouts: Timeouts,
    pub(crate) nominal_ns: Option<u64>,
    /// The expected contents, learned by the check.
    expected: OnceLock<Expected>,
    /// Used once the first differing text was reported.
    reported: Once,
}

/// The times after which a stream is given up, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    first_byte: u64,
    idle: u64,
    total: u64,
}

impl Timeouts {
    fn from_settings(settings: &Settings) -> Self {
        let or_never = |timeout: Option<Duration>| timeout.map_or(u64::MAX, nanos);
        Self {
            first_byte: or_never(settings.first_byte_timeout),
            idle: or_never(settings.idle_timeout),
            total: nanos(settings.stream_timeout),
        }
    }

    /// Returns the interval between sweeps over the streams: a tenth of the shortest timeout. The sweep also settles
    /// pending outcomes, so it is at least as frequent as they need.
    pub(crate) fn sweep_ns(&self) -> u64 {
        let shortest = self.total.min(self.first_byte).min(self.idle);
        (shortest / 10).clamp(5_000_000, 1_000_000_000)
    }

    /// Returns the time after which a stream is given up, and its outcome then.
    #[inline]
    pub(crate) fn next(&self, stream: &Stream) -> (u64, &'static str) {
        let (since, timeout, outcome) = match stream.bytes {
            0 => (stream.handed, self.first_byte, outcome::TIMEOUT_FIRST_BYTE),
            1.. => (stream.last, self.idle, outcome::TIMEOUT_IDLE),
        };
        let (next_byte, end) = (
            since.saturating_add(timeout),
            stream.handed.saturating_add(self.total),
        );
        if next_byte <= end {
            (next_byte, outcome)
        } else {
            (end, outcome::TIMEOUT_TOTAL)
        }
    }
}

/// Returns a duration in nanoseconds.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Driver for FdPass {
    const SPEC: &'static Spec = &SPEC;
    type Config = Settings;
    type Shared = ();

    /// Describes the load. A stream is open from its connect to its end; the pause before a retried connect is in no
    /// series.
    fn validate(plan: &mut Plan<Settings>) -> Result<Description, Invalid> {
        Settings::validate(plan)?;
        let settings = &plan.driver;
        let sentence = Settings::sentence(plan);
        let parts = [spec::CONNECT, spec::HANDOFF, spec::STREAM];
        let parts = parts.map(|part| SPEC.series[part.0].name.to_string());
        Ok(Description {
            audit_inputs: AuditInputs {
                lifetime: Some(Lifetime {
                    series: parts.into(),
                    ..Lifetime::default()
                }),
                ..plan.audit_inputs()
            },
            longest: longest(settings),
            open_at_once: open_at_once(plan),
            ..Description::new(plan, &SPEC, sentence, spec::FIRST_EVENT, descriptors(plan))
        })
    }

    fn setup(
        plan: &Plan<Settings>,
        target: &Target,
        _workers: &WorkerRange,
    ) -> anyhow::Result<Self> {
        let settings = plan.driver.clone();
        let sockets = target.sockets();
        let endpoints = sockets
            .iter()
            .map(|socket| HandoffEndpoint::new(socket, settings.socket_type));
        Ok(Self {
            payload: settings.payload(),
            endpoints: endpoints.collect::<Result<_, _>>()?,
            timeouts: Timeouts::from_settings(&settings),
            nominal_ns: settings.nominal().map(nanos),
            expected: OnceLock::new(),
            reported: Once::new(),
            settings,
        })
    }

    fn check(&self) -> anyhow::Result<Checked> {
        let mut expected = Expected::new(&self.settings);
        for endpoint in &self.endpoints {
            self.check_endpoint(endpoint, &mut expected)?;
        }
        let learned = serde_json::to_value(&expected)?;
        // Another check can only have found the same.
        let _ = self.expected.set(expected);
        Ok(Checked {
            learned,
            ..Checked::default()
        })
    }

    fn learn(&self, learned: serde_json::Value) -> anyhow::Result<()> {
        let learned: Option<Expected> = serde_json::from_value(learned)?;
        if let Some(mut expected) = learned {
            expected.prepare(&self.settings);
            let _ = self.expected.set(expected);
        }
        Ok(())
    }

    fn findings(_plan: &Plan<Settings>, total: &Tally) -> Findings {
        let warning = |prefix, hint| {
            let mut names = total.counts.keys();
            let first = names.find_map(|name| name.strip_prefix(prefix));
            first.map(|first| Warning::content_differs(first, hint))
        };
        let differs = "the differing streams are counted as protocol_content: see the daemon's log, or use --expect any for a backend whose texts vary";
        let varies = "the first streams differ, so nothing is compared after them: use --expect first to count every other text as a failure";
        let warnings = [
            warning(count::DIFFERS, differs),
            warning(count::VARIES, varies),
        ];
        Findings {
            warnings: warnings.into_iter().flatten().collect(),
            ..Findings::default()
        }
    }

    async fn work(&self, worker: Worker) -> anyhow::Result<()> {
        work::work(self, worker)
    }
}

/// Returns the maximum duration of a stream: its nominal duration plus some slack, or its timeout.
fn longest(settings: &Settings) -> Duration {
    let most = settings.stream_timeout;
    settings.nominal().map_or(most, |nominal| {
        most.min(nominal + nominal / 10 + Duration::from_secs(1))
    })
}

/// Returns how many descriptors the load opens at once.
fn descriptors(plan: &Plan<Settings>) -> u64 {
    let open = |group: &Group| match group.rate {
        // Little's law: open streams are the rate times their duration.
        Some(rate) => (rate * plan.driver.nominal().unwrap_or_default().as_secs_f64() * 1.2) as u64,
        None => group.clients,
    };
    plan.groups.iter().map(open).sum()
}

/// Returns how many streams may be open at once. Streams known to end while others begin are not all open together
/// (Little's law).
fn open_at_once(plan: &Plan<Settings>) -> u64 {
    let nominal = plan.driver.nominal().map(|nominal| nominal.as_secs_f64());
    let open = |group: &Group| {
        let ramp = group.ramp.as_secs_f64();
        match (group.rate, nominal) {
            (Some(rate), nominal) => (rate * nominal.unwrap_or_default()) as u64,
            (None, Some(nominal)) if group.ops == Some(1) && nominal < ramp => {
                (group.clients as f64 * nominal / ramp) as u64
            }
            (None, _) => group.clients,
        }
    };
    plan.groups.iter().map(open).sum()
}

impl FdPass {
    /// Hands over one client and checks its stream.
    fn check_endpoint(
        &self,
        endpoint: &HandoffEndpoint,
        expected: &mut Expected,
    ) -> anyhow::Result<()> {
        let socket = endpoint.path();
        let handoff = endpoint.connect().map_err(|errno| explain(socket, errno))?;
        let ours = hand_over(&handoff, self.settings.client, &self.payload)?;
        drop(handoff);
        self.check_answer(&ours, expected)
            .with_context(|| format!("checking the answer of {}", socket.display()))
    }

    /// Returns the expected contents, as far as the check has learned them.
    pub(crate) fn expected(&self) -> Expected {
        let learned = self.expected.get().cloned();
        learned.unwrap_or_else(|| Expected::new(&self.settings))
    }

    /// Reports the first difference of a text, once per run; `prefix` is that of the counter.
    pub(crate) fn differs(&self, prefix: &str, difference: impl Display, record: &Recorder) {
        self.reported.call_once(|| {
            // Counters have static names: this one name is leaked.
            let name = format!("{prefix}{difference}");
            record.count(name.leak(), 1);
        });
    }

    /// Reads one stream, to its end unless it lasts long.
    fn check_answer(&self, client: &OwnedFd, expected: &mut Expected) -> anyhow::Result<()> {
        let nominal = self.settings.nominal();
        let whole = nominal.is_some_and(|nominal| nominal <= CHECK_WHOLE);
        let mut reader = Reader::default();
        let mut unread = Vec::new();
        let mut body = 0;
        while whole || reader.records() == 0 {
            let piece = read_some(client, after(CHECK_TIMEOUT)).map_err(|error| match error {
                Unread::TimeOver => anyhow!("nothing came for {} s", CHECK_TIMEOUT.as_secs()),
                Unread::System(errno) => Error::new(errno).context("reading the stream"),
            })?;
            if piece.is_empty() {
                ensure!(
                    reader.done(),
                    "the stream ended after {} records without the end marker",
                    reader.records()
                );
                expected.stream_ended();
                break;
            }
            unread.extend(piece);
            let seen = reader
                .read(&unread)
                .map_err(|fault| anyhow!(fault.explain(&unread)))?;
            ensure!(
                !seen.rejected,
                "the daemon is at capacity (503) before the load begins"
            );
            let records = &unread[seen.head..seen.consumed];
            match expected.take(body, records) {
                Ok(()) => {}
                Err(Fault::Content(difference)) => {
                    bail!("its text differs: {difference}; --expect sets what it is compared with")
                }
                // The number of records is checked below, where it is known.
                Err(_) if self.settings.messages.is_some() => {}
                Err(_) => bail!("the number of records differs from that of the previous stream"),
            }
            body += records.len();
            unread.drain(..seen.consumed);
        }
        if let Some(expected) = self.settings.messages
            && whole
        {
            ensure!(
                expected == reader.records(),
                "{} records came, expected {expected} (driver.messages)",
                reader.records()
            );
        }
        Ok(())
    }

    /// Logs a finished stream for `--verbose`.
    pub(crate) fn say(&self, start: u64, kind: &str, bytes: u32) {
        if self.settings.verbose {
            let age = duration(clock::now().saturating_sub(start));
            output::note(&format!("stream {kind} after {age}, {bytes} bytes"));
        }
    }
}
