//! The state that all workers of a process share.

use std::fmt::Display;
use std::sync::{Once, OnceLock};
use std::time::Duration;

use harness::output;
use load::clock;
use load::driver::Target;
use load::recorder::Recorder;
use measure::units::duration;

use crate::expect::Expected;
use crate::settings::Settings;
use fdpass_client::handoff::HandoffEndpoint;
use fdpass_client::sse::Fault;

/// The handoffs of a run.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) payload: Vec<u8>,
    /// The endpoint of each daemon; start k uses the one at index k modulo their number.
    pub(crate) endpoints: Vec<HandoffEndpoint>,
    pub(crate) timeouts: Timeouts,
    pub(crate) nominal_ns: Option<u64>,
    /// The expected contents, learned by the check.
    pub(crate) expected: OnceLock<Expected>,
    /// Used once the first differing text was reported.
    reported: Once,
    /// Used once the first answer that is not a stream was explained.
    explained: Once,
}

/// The times after which a stream is given up, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    pub(crate) first_byte: u64,
    pub(crate) idle: u64,
    pub(crate) total: u64,
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
}

/// Returns a duration in nanoseconds.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Shared {
    /// Builds what the hot loop sends.
    pub(crate) fn new(settings: &Settings, target: &Target) -> anyhow::Result<Self> {
        let sockets = target.sockets();
        let endpoints = sockets
            .iter()
            .map(|socket| HandoffEndpoint::new(socket, settings.socket_type));
        Ok(Self {
            payload: settings.payload(),
            endpoints: endpoints.collect::<Result<_, _>>()?,
            timeouts: Timeouts::from_settings(settings),
            nominal_ns: settings.nominal().map(nanos),
            expected: OnceLock::new(),
            reported: Once::new(),
            explained: Once::new(),
            settings: settings.clone(),
        })
    }

    /// Returns the expected contents, as far as the check has learned them.
    pub(crate) fn expected(&self) -> Expected {
        let learned = self.expected.get().cloned();
        learned.unwrap_or_else(|| Expected::new(&self.settings))
    }

    /// Reports the first difference of a text, once per run; `prefix` is the counter's.
    pub(crate) fn differs(&self, prefix: &str, difference: impl Display, record: &Recorder) {
        self.reported.call_once(|| {
            record.count_by_name(&format!("{prefix}{difference}"), 1);
        });
    }

    /// Says once per process why an answer is not a stream.
    pub(crate) fn refused(&self, fault: &Fault) {
        self.explained.call_once(|| {
            let reason = fault.explain(None);
            output::note(&format!("the first answer that is not a stream: {reason}"));
        });
    }

    /// Logs a finished stream for `--verbose`.
    pub(crate) fn say(&self, start: u64, kind: &str, bytes: u32) {
        if self.settings.verbose {
            let age = duration(clock::now().saturating_sub(start));
            output::note(&format!("stream {kind} after {age}, {bytes} bytes"));
        }
    }
}
