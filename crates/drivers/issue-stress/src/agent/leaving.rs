//! Clients that leave: in the middle of a request, or before its answer.

use super::{Agent, CreateArgs};
use crate::ledger::Expected;
use crate::outcome::count;

impl Agent<'_> {
    /// Sends a create and leaves before its answer, or after a half of it, and creates an issue over a new connection.
    /// The daemon may have performed what it has read whole, and nothing else.
    pub(super) async fn leave_and_return(&mut self) -> Result<(), &'static str> {
        let name = self.name(1);
        let (title, description) = (name.title(self.shared.run), self.description(name));
        let args = CreateArgs::new(&title, &description);
        let is_whole = self.operations.is_multiple_of(2);
        let expected = if is_whole {
            Expected::Unknown
        } else {
            Expected::Absent
        };
        self.ledger.borrow_mut().expect(name, expected);
        self.record.count(count::REQUESTS, u64::from(is_whole));
        self.wire
            .send_and_leave("create", &args, self.shared.timeout(), is_whole)
            .await?;
        self.record.count(count::LEFT, 1);
        self.connect().await?;
        self.create().await.map(|_| ())
    }
}
