//! Requests that are late, that time out, and that are sent again.

use std::time::Duration;

use issue_rpc::Code;

use super::answers::WithId;
use super::{Agent, CreateArgs, is_right};
use crate::engine::wire::{Terms, unix_ms};
use crate::ledger::Expected;
use crate::outcome::count;
use crate::spec;

/// The time of a request that is expected to end before its answer.
const SHORT: Duration = Duration::from_micros(200);

impl Agent<'_> {
    /// Performs a create in time, a create whose deadline has passed, or one that is sent again after a timeout.
    pub(super) async fn time_out(&mut self) -> Result<(), &'static str> {
        match self.operations % 3 {
            1 => self.create().await.map(|_| ()),
            2 => self.create_too_late().await,
            _ => self.create_again().await,
        }
    }

    /// Sends a create whose deadline has passed: it must be refused, and nothing may be stored.
    async fn create_too_late(&mut self) -> Result<(), &'static str> {
        self.record.count(count::EXPIRED, 1);
        let terms = Terms {
            timeout: self.shared.timeout(),
            deadline_ms: Some(unix_ms(Duration::ZERO) - 1_000),
            key: None,
        };
        let name = self.name(0);
        self.ledger.borrow_mut().expect(name, Expected::Absent);
        let title = name.title(self.shared.run);
        let description = self.description(name);
        let args = CreateArgs::new(&title, &description);
        let (_, answer) = self.call_with(spec::CREATE, "create", &args, terms).await;
        is_right(answer?.code == Some(Code::Timeout))
    }

    /// Sends a create with a time in which no sync can end, and then again with the same key: it must be stored once.
    async fn create_again(&mut self) -> Result<(), &'static str> {
        let name = self.name(0);
        let title = name.title(self.shared.run);
        let description = self.description(name);
        let args = CreateArgs::new(&title, &description);
        let key = format!("{title} key");
        let terms = |timeout| Terms {
            timeout,
            // The daemon is not told, so that it goes on with the request.
            deadline_ms: Some(unix_ms(self.shared.timeout())),
            key: Some(&key),
        };
        let (short, long) = (terms(SHORT), terms(self.shared.timeout()));
        let (_, first) = self.call_with(spec::CREATE, "create", &args, short).await;
        let first = match first {
            Ok(answer) => Some(answer.data::<WithId<'_>>()?.id.into_owned()),
            Err(_) => {
                self.record.count(count::EXPIRED, 1);
                None
            }
        };
        self.record.count(count::RETRIES, 1);
        // The first connection was closed, if its answer had not come.
        self.connect().await?;
        let (_, second) = self.call_with(spec::CREATE, "create", &args, long).await;
        let (expected, result) = match second {
            Err(kind) => (Expected::Unknown, Err(kind)),
            Ok(answer) => match answer.data::<WithId<'_>>() {
                Err(kind) => (Expected::Unknown, Err(kind)),
                Ok(issue) => {
                    let result = is_right(first.is_none_or(|first| first == issue.id));
                    (Expected::Stored(issue.id.into()), result)
                }
            },
        };
        self.ledger.borrow_mut().expect(name, expected);
        if result.is_ok() {
            self.record.count(count::CREATED, 1);
        }
        result
    }
}
