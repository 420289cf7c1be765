//! A case's access to a daemon: its socket, its counters, and its process if it was launched.

use std::os::fd::{AsFd, AsRawFd as _, OwnedFd, RawFd};
use std::time::Duration;

use ::subject::daemon::{Daemon, Endpoint};
use anyhow::{Context as _, bail, ensure};
use harness::launcher::Launcher;
use load::clock;
use nix::errno::Errno;
use nix::sys::socket::send;

use super::answer::{Answer, shown};
use crate::counters::Page;
use fdpass_client::client::{Unread, after, hand_over, read_some, read_to_end};
use fdpass_client::handoff::{
    ClientKind, Clients, DEFAULT_DATA, HandoffEndpoint, SEND_FLAGS, SocketType, pass, send_message,
};

/// Interval between two reads of an awaited counter.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The payload of an ordinary client.
pub(super) const PAYLOAD: &[u8] = DEFAULT_DATA.as_bytes();

/// A daemon for the duration of one case.
#[derive(Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) launcher: &'a Launcher,
    pub(crate) kind: SocketType,
    pub(crate) endpoint: HandoffEndpoint,
    pub(crate) metrics: Option<&'a str>,
    /// The process, if it was launched.
    pub(crate) daemon: Option<&'a Daemon>,
    /// The deadline of the case, in nanoseconds of the clock.
    pub(crate) until: u64,
}

impl<'a> Subject<'a> {
    /// Gives access to a running daemon, for the time of a case.
    pub(crate) fn new(
        launcher: &'a Launcher,
        kind: SocketType,
        endpoint: &'a Endpoint,
        daemon: Option<&'a Daemon>,
        limit: Duration,
    ) -> anyhow::Result<Self> {
        let socket = endpoint.socket.as_deref();
        let socket = socket.context("the daemon's manifest does not use {socket}")?;
        Ok(Self {
            launcher,
            kind,
            endpoint: HandoffEndpoint::new(socket, kind)?,
            metrics: endpoint.metrics.as_deref(),
            daemon,
            until: after(limit),
        })
    }

    /// Opens a handoff connection. Waits while the accept queue is full.
    pub(crate) fn connect(&self) -> anyhow::Result<OwnedFd> {
        self.endpoint
            .connect_until(self.until)
            .context("connecting to the daemon")
    }

    /// Creates a client: our end, and the one to hand over.
    pub(crate) fn client(&self) -> anyhow::Result<(OwnedFd, OwnedFd)> {
        Clients::new(ClientKind::Unix)?
            .open()
            .context("creating a client")
    }

    /// Hands over a new client; returns our end.
    pub(crate) fn hand_over(&self, payload: &[u8]) -> anyhow::Result<OwnedFd> {
        hand_over(&self.connect()?, ClientKind::Unix, payload)
    }

    /// Hands over a client that has sent data, which the daemon does not read.
    pub(crate) fn hand_over_with_unread(&self, kind: ClientKind) -> anyhow::Result<OwnedFd> {
        let (ours, theirs) = Clients::new(kind)?.open().context("creating a client")?;
        send(ours.as_raw_fd(), &[b'x'; 1_000], SEND_FLAGS).context("sending to the daemon")?;
        self.hand_over_this(PAYLOAD, theirs)?;
        Ok(ours)
    }

    /// Hands over this many ordinary clients.
    pub(crate) fn open(&self, count: usize) -> anyhow::Result<Vec<OwnedFd>> {
        (0..count).map(|_| self.hand_over(PAYLOAD)).collect()
    }

    /// Hands over a given client.
    pub(crate) fn hand_over_this(&self, payload: &[u8], theirs: impl AsFd) -> anyhow::Result<()> {
        let theirs = theirs.as_fd().as_raw_fd();
        pass(&self.connect()?, payload, theirs).context("handing over a client")
    }

    /// Reads the whole answer to a client, up to its end.
    pub(crate) fn read(&self, client: &OwnedFd) -> anyhow::Result<Vec<u8>> {
        let mut until = self.until;
        read_to_end(client, &mut until, |_| {})
    }

    /// Reads and parses a whole stream.
    pub(crate) fn answer(&self, client: &OwnedFd) -> anyhow::Result<Answer> {
        Answer::parse(&self.read(client)?)
    }

    /// Hands over a client and reads its whole stream.
    pub(crate) fn ask(&self, payload: &[u8]) -> anyhow::Result<Answer> {
        self.answer(&self.hand_over(payload)?)
    }

    /// Waits for the first bytes of a client's answer.
    pub(crate) fn begins(&self, client: &OwnedFd) -> anyhow::Result<Vec<u8>> {
        let first = read_some(client, self.until).context("waiting for an answer")?;
        ensure!(
            !first.is_empty(),
            "the daemon closed the client without an answer"
        );
        Ok(first)
    }

    /// Waits until the daemon has closed a client, a pipe or a handoff connection; fails if it writes to it.
    pub(crate) fn closes(&self, descriptor: &OwnedFd, what: &str) -> anyhow::Result<()> {
        match read_some(descriptor, self.until) {
            Ok(bytes) if bytes.is_empty() => Ok(()),
            Ok(bytes) => bail!("the daemon wrote {} to {what}", shown(&bytes)),
            // A handoff connection was closed with unread data in it.
            Err(Unread::System(Errno::ECONNRESET)) => Ok(()),
            Err(Unread::TimeOver) => bail!("{what} is still open"),
            Err(Unread::System(errno)) => bail!("{what}: {errno}"),
        }
    }

    /// Checks that the daemon still works: an ordinary client receives its whole stream.
    pub(crate) fn goes_on(&self) -> anyhow::Result<()> {
        self.ask(PAYLOAD)
            .and_then(|answer| answer.says("User ID: 1"))
            .context("the daemon no longer works")
    }

    /// Sends a payload with any number of descriptors in one message; returns the handoff connection.
    pub(crate) fn send(&self, payload: &[u8], descriptors: &[RawFd]) -> anyhow::Result<OwnedFd> {
        let handoff = self.connect()?;
        send_message(&handoff, payload, descriptors).context("sending a handoff")?;
        Ok(handoff)
    }

    /// Returns the metrics page, if there is one.
    pub(crate) fn page(&self) -> anyhow::Result<Option<Page>> {
        self.metrics
            .map(|url| Page::fetch(self.launcher, url))
            .transpose()
    }

    /// Returns the value of a series: 0 if it is not on the page, `None` without a page.
    fn value(&self, series: &str) -> anyhow::Result<Option<f64>> {
        let page = self.page()?;
        Ok(page.map(|page| page.value(series).unwrap_or(0.0)))
    }

    /// Remembers the current value of a series.
    pub(crate) fn watch(&self, series: impl Into<String>) -> anyhow::Result<Watched<'_>> {
        let series = series.into();
        Ok(Watched {
            subject: self,
            before: self.value(&series)?,
            series,
        })
    }

    /// Remembers the current number of handoffs that failed for a reason.
    pub(crate) fn watch_handoffs(&self, reason: &'static str) -> anyhow::Result<Watched<'_>> {
        self.watch(format!(
            "daemon_handoff_errors_total{{reason=\"{reason}\"}}"
        ))
    }

    /// Remembers the current number of streams that failed for a reason.
    pub(crate) fn watch_streams(&self, reason: &'static str) -> anyhow::Result<Watched<'_>> {
        self.watch(format!("daemon_stream_errors_total{{reason=\"{reason}\"}}"))
    }

    /// Sleeps briefly, unless the case is over.
    pub(crate) fn rest(&self, waiting_for: impl FnOnce() -> String) -> anyhow::Result<()> {
        ensure!(clock::now() < self.until, waiting_for());
        std::thread::sleep(LOOK_EVERY);
        Ok(())
    }
}

/// A metric's earlier value, for comparison. Without a page, every comparison succeeds.
#[derive(Debug)]
pub(crate) struct Watched<'a> {
    subject: &'a Subject<'a>,
    pub(crate) series: String,
    before: Option<f64>,
}

impl Watched<'_> {
    /// Returns the rise since then.
    pub(crate) fn rise(&self) -> anyhow::Result<f64> {
        let now = self.subject.value(&self.series)?;
        let both = now.zip(self.before);
        Ok(both.map_or(0.0, |(now, before)| now - before))
    }

    /// Waits until it has risen by `wanted`, and fails if it rose by more.
    pub(crate) fn rises_by(&self, wanted: f64) -> anyhow::Result<()> {
        self.rises_by_at_least(wanted)?;
        let rise = self.rise()?;
        ensure!(
            self.before.is_none() || rise <= wanted,
            "{} rose by {rise}, expected {wanted}",
            self.series
        );
        Ok(())
    }

    /// Waits until it has risen by `wanted` or more.
    pub(crate) fn rises_by_at_least(&self, wanted: f64) -> anyhow::Result<()> {
        self.wait_until(wanted, |rise| rise >= wanted)
    }

    /// Waits until a gauge is back at its earlier value.
    pub(crate) fn returns(&self) -> anyhow::Result<()> {
        self.wait_until(0.0, |rise| rise <= 0.0)
    }

    fn wait_until(&self, wanted: f64, is_right: impl Fn(f64) -> bool) -> anyhow::Result<()> {
        loop {
            let rise = self.rise()?;
            if self.before.is_none() || is_right(rise) {
                return Ok(());
            }
            let series = &self.series;
            self.subject
                .rest(|| format!("{series} rose by {rise}, expected {wanted}"))?;
        }
    }
}
