//! The check before a run: one handoff to each daemon, whose stream is read.

use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{Context as _, Error, anyhow, bail, ensure};

use crate::expect::Expected;
use crate::shared::Shared;
use fdpass_client::client::{Unread, after, hand_over, read_some};
use fdpass_client::handoff::{HandoffEndpoint, explain};
use fdpass_client::sse::{Fault, Reader};
use load::plan::Invalid;

/// Maximum wait for one read of the check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);
/// Streams that last longer are checked only up to their first record.
const CHECK_WHOLE: Duration = Duration::from_secs(2);

impl Shared {
    /// Checks the stream of every daemon. Returns the contents that the streams of the load must have.
    pub(crate) fn check(&self) -> anyhow::Result<Expected> {
        let mut expected = Expected::new(&self.settings);
        for endpoint in &self.endpoints {
            self.check_endpoint(endpoint, &mut expected)?;
        }
        Ok(expected)
    }

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

    /// Reads one stream, to its end unless it lasts long.
    fn check_answer(&self, client: &OwnedFd, expected: &mut Expected) -> anyhow::Result<()> {
        let nominal = self.settings.nominal();
        let whole = nominal.is_some_and(|nominal| nominal <= CHECK_WHOLE);
        let mut reader = Reader::default();
        let mut rest = None;
        let mut body = 0;
        let mut ended = false;
        while whole || reader.records() == 0 {
            let piece = if ended {
                Vec::new()
            } else {
                next_piece(client)?
            };
            if piece.is_empty() {
                ensure!(
                    reader.done(),
                    "the stream ended after {} records without the end marker",
                    reader.records()
                );
                expected.stream_ended();
                break;
            }
            let mut compared = Ok(());
            let seen = reader.read(&piece, &mut rest, |records| {
                compared = expected.take(body, records);
                body += records.len();
                Ok(())
            });
            let seen = seen.map_err(|fault| anyhow!(fault.explain(rest.as_deref())))?;
            ended = seen.ended;
            ensure!(
                !seen.rejected,
                "the daemon is at capacity (503) before the load begins"
            );
            match compared {
                Ok(()) => {}
                Err(Fault::Content(difference)) => {
                    bail!("its text differs: {difference}; --expect sets what it is compared with")
                }
                // The number of records is checked below, where it is known.
                Err(_) if self.settings.messages.is_some() => {}
                Err(_) => bail!("the number of records differs from the previous stream's"),
            }
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
}

fn next_piece(client: &OwnedFd) -> anyhow::Result<Vec<u8>> {
    read_some(client, after(CHECK_TIMEOUT)).map_err(|error| match error {
        Unread::TimeOver => {
            let remedy = "check that a streaming daemon listens there, and that it is not stuck";
            let seconds = CHECK_TIMEOUT.as_secs();
            Invalid::new(
                "--socket",
                format!("nothing came for {seconds} s: {remedy}"),
            )
            .into()
        }
        Unread::System(errno) => Error::new(errno).context("reading the stream"),
    })
}
