//! Operations at random, on issues that all agents share.

use std::collections::HashSet;

use linearizability::Kind;
use rand::RngExt as _;
use serde_json::json;

use super::answers::{Created, Listed};
use super::{Agent, is_right};
use crate::outcome;
use crate::spec;

impl Agent<'_> {
    /// Performs a create, a close, an update, a show, a list or a `ready`.
    pub(super) async fn mixed(&mut self) -> Result<(), &'static str> {
        match self.random.random_range(0..20) {
            0..4 => self.create_and_show().await,
            4..6 => self.create_and_close().await,
            6..10 => self.assign().await,
            10..12 => self.change_status().await,
            12..16 => self.show_shared().await,
            16..18 => self.list().await,
            _ => self.ready_shared().await,
        }
    }

    /// Creates an issue and reads it: an agent must see what it has written.
    async fn create_and_show(&mut self) -> Result<(), &'static str> {
        let (id, _) = self.create_timed().await?;
        let title = self.name(0).title(self.shared.run);
        let content = self.content();
        let (_, answer) = self.call(spec::SHOW, "show", &json!({ "id": id })).await;
        let shown: Created<'_> = answer?.data()?;
        is_right(shown.id == id && shown.title == title && content.is_as_sent(&shown))
    }

    /// Creates an issue and closes it.
    async fn create_and_close(&mut self) -> Result<(), &'static str> {
        let (id, _) = self.create_timed().await?;
        let args = json!({"id": id, "reason": "done"});
        let (_, answer) = self.call(spec::UPDATE, "close", &args).await;
        let result = match answer {
            Ok(answer) => answer
                .data::<Created<'_>>()
                .and_then(|issue| is_right(issue.id == id && issue.status == "closed")),
            Err(kind) => Err(kind),
        };
        self.ledger.borrow_mut().expect_closed(&id, result.is_ok());
        result
    }

    fn shared_issue(&mut self) -> Result<String, &'static str> {
        let most = self.issues.len().max(1);
        let index = self.random.random_range(0..most);
        self.issues.get(index).cloned().ok_or(outcome::REFUSED)
    }

    /// Writes an assignee that no other write has.
    async fn assign(&mut self) -> Result<(), &'static str> {
        let id = self.shared_issue()?;
        let value = (u64::from(self.number) + 1) << 32 | u64::from(self.operations);
        let args = json!({"id": id, "assignee": value.to_string()});
        let (span, answer) = self.call(spec::UPDATE, "update", &args).await;
        let result = match answer {
            Ok(answer) if !answer.success => return Err(answer.failure()),
            Ok(answer) => answer
                .data::<Created<'_>>()
                .and_then(|issue| is_right(issue.id == id && issue.assignee == value.to_string())),
            Err(kind) => Err(kind),
        };
        let mut ledger = self.ledger.borrow_mut();
        let write = Kind::Write(value);
        ledger.histories.assignee(&id, self.number, span, write);
        result
    }

    /// Begins work on an issue, or lets it rest.
    async fn change_status(&mut self) -> Result<(), &'static str> {
        let id = self.shared_issue()?;
        let status = if self.random.random_bool(0.5) {
            "open"
        } else {
            "in_progress"
        };
        self.set_status(&id, status).await
    }

    async fn show_shared(&mut self) -> Result<(), &'static str> {
        let id = self.shared_issue()?;
        let (span, answer) = self.call(spec::SHOW, "show", &json!({ "id": id })).await;
        let shown: Created<'_> = answer?.data()?;
        is_right(shown.id == id)?;
        let value = match &*shown.assignee {
            "" => 0,
            text => text.parse().map_err(|_| outcome::WRONG_ANSWER)?,
        };
        let mut ledger = self.ledger.borrow_mut();
        let read = Kind::Read(value);
        ledger.histories.assignee(&id, self.number, span, read);
        Ok(())
    }

    async fn ready_shared(&mut self) -> Result<(), &'static str> {
        let args = json!({"labels": [self.shared.label()]});
        let (span, answer) = self.call(spec::READY, "ready", &args).await;
        let listed: Listed<'_> = answer?.data()?;
        is_right(listed.is_in_order_of_ready())?;
        let ready = listed
            .issues
            .iter()
            .map(|issue| issue.id.clone().into_owned());
        let ready: HashSet<String> = ready.collect();
        let returned_ns = span.returned_ns.unwrap_or(u64::MAX);
        self.ledger.borrow_mut().histories.read_all_ready(
            &self.issues,
            self.number,
            (span.invoked_ns, returned_ns),
            &ready,
        );
        Ok(())
    }
}
