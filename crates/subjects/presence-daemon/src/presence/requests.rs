//! The requests of clients, and their answers.

use super::counts::add;
use super::refusal::Refusal;
use super::service::Presence;
use super::session::Session;
use super::sink::{Caller, Sink};

/// A request of a client.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The name of the event.
    pub name: &'a str,
    /// Its arguments: valid JSON values separated by commas.
    pub arguments: &'a str,
    /// The id of the answer that the client waits for.
    pub ack: Option<u64>,
    /// True if binary attachments came with it, which a state cannot have.
    pub is_binary: bool,
}

impl<S: Sink> Presence<S> {
    /// Handles a request of the connection with this id, which needs no escapes in JSON. Unknown requests are ignored.
    pub fn request(
        &self,
        session: &Session<S>,
        conn: &str,
        sink: &S,
        request: Request<'_>,
        now_ms: u64,
    ) {
        let caller = Caller {
            sink: sink.clone(),
            ack: request.ack,
        };
        let arguments = request.arguments;
        let handled = match request.name {
            "presence:heartbeat" | "presence:join" if request.is_binary => {
                let problem = "binary values cannot be part of a state: encode them as text";
                Err(Refusal::InvalidArgument(problem.into()))
            }
            "presence:heartbeat" => self.heartbeat(session, arguments, &caller, now_ms),
            "presence:join" => self.join(session, conn, arguments, &caller, now_ms),
            "presence:leave" => {
                self.leave(session, caller, now_ms);
                return;
            }
            _ => return,
        };
        if let Err(refusal) = handled {
            self.refuse(&caller, &refusal);
        }
    }

    /// Answers a request that is refused.
    pub(crate) fn refuse(&self, caller: &Caller<S>, refusal: &Refusal) {
        add(&self.counts.refused, 1);
        let has_code = !self.settings.is_compatible;
        caller.answer(|out| refusal.write(has_code, out));
    }
}
