//! Batches of creates; some of the batches must fail.

use serde_json::{Value, json};

use super::answers::{Results, WithId};
use super::{Agent, LABEL, is_right};
use crate::ledger::Expected;
use crate::outcome::{self, count};
use crate::spec;

/// A kind of batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plot {
    /// All of it succeeds.
    Whole,
    /// The last operation fails, and takes the rest back.
    AtomicFailure,
    /// The last operation fails, and the rest stays.
    StopFailure,
}

impl Agent<'_> {
    /// Sends a batch of creates. Of five, one fails in the mode `atomic` and one in the mode `stop`.
    pub(super) async fn batch(&mut self) -> Result<(), &'static str> {
        let plot = match self.operations % 5 {
            3 => Plot::AtomicFailure,
            4 => Plot::StopFailure,
            _ => Plot::Whole,
        };
        self.send_batch(plot).await
    }

    /// Sends a long atomic batch.
    pub(super) async fn bulk(&mut self) -> Result<(), &'static str> {
        self.send_batch(Plot::Whole).await
    }

    async fn send_batch(&mut self, plot: Plot) -> Result<(), &'static str> {
        let creates = self.shared.settings().batch_size;
        let create = |part| {
            let title = self.name(part).title(self.shared.run);
            json!({"operation": "create", "args": {"title": title, "labels": [LABEL]}})
        };
        let mut operations: Vec<Value> = (0..creates).map(create).collect();
        if plot != Plot::Whole {
            operations.push(json!({"operation": "close", "args": {"id": "no-such-issue"}}));
        }
        let mode = if plot == Plot::StopFailure {
            "stop"
        } else {
            "atomic"
        };
        let args = json!({"operations": operations, "mode": mode});
        let (_, answer) = self.call(spec::BATCH, "batch", &args).await;
        let examined = match answer {
            Err(kind) => Err((Expected::Unknown, kind)),
            Ok(answer) => match (answer.data, answer.success == (plot == Plot::Whole)) {
                // Refused as a whole, as by `busy`.
                (None, _) => Err((Expected::Absent, answer.failure())),
                (Some(_), false) => Err((Expected::Unknown, outcome::WRONG_ANSWER)),
                (Some(data), true) => serde_json::from_str(data.get())
                    .map(|results| examine(plot, creates, &results))
                    .map_err(|_| (Expected::Unknown, outcome::MALFORMED)),
            },
        };
        let (expected, result) =
            examined.unwrap_or_else(|(expected, kind)| (vec![expected; creates.into()], Err(kind)));
        let stored = expected
            .iter()
            .filter(|expected| matches!(expected, Expected::Stored(_)));
        self.record.count(count::CREATED, stored.count() as u64);
        let mut ledger = self.ledger.borrow_mut();
        if mode == "atomic" {
            ledger.expect_batch(self.number, self.operations, creates);
        }
        for (part, expected) in (0..creates).zip(expected) {
            ledger.expect(self.name(part), expected);
        }
        result
    }
}

/// Returns the state of the issues after a batch, and whether its results are those that it must have.
fn examine(
    plot: Plot,
    creates: u16,
    results: &Results<'_>,
) -> (Vec<Expected>, Result<(), &'static str>) {
    let creates = usize::from(creates);
    let (kept, all) = match plot {
        Plot::Whole => (creates, creates),
        Plot::AtomicFailure => (0, creates + 1),
        Plot::StopFailure => (creates, creates + 1),
    };
    let answers = results.results.iter().take(creates);
    let expected = answers.map(|answer| match answer.data::<WithId<'_>>() {
        Ok(_) if plot == Plot::AtomicFailure => Expected::Absent,
        Ok(issue) => Expected::Stored(issue.id.into()),
        Err(_) => Expected::Unknown,
    });
    let expected: Vec<Expected> = expected.collect();
    let created = results.results.iter().filter(|answer| answer.success);
    let is_as_expected =
        results.kept == kept && results.results.len() == all && created.count() == creates;
    let missing = vec![Expected::Unknown; creates - expected.len()];
    ([expected, missing].concat(), is_right(is_as_expected))
}
