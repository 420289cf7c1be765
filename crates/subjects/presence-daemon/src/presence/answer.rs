//! The answer to a join.

use super::event::push;
use super::json::push_number;
use super::member::Token;

/// The answer to a join, but for the snapshot.
#[derive(Debug, Clone)]
pub(crate) struct JoinAnswer<'a> {
    pub(crate) conn: &'a str,
    pub(crate) epoch: u64,
    pub(crate) seq: u64,
    pub(crate) token: Option<Token>,
    pub(crate) is_resumed: bool,
    pub(crate) is_degraded: bool,
}

impl JoinAnswer<'_> {
    /// Appends the answer; `snapshot` appends the members, each with a comma after it.
    pub(crate) fn write(
        &self,
        is_compatible: bool,
        out: &mut Vec<u8>,
        snapshot: impl FnOnce(&mut Vec<u8>),
    ) {
        push(out, "{\"ok\":true,\"snapshot\":[");
        snapshot(out);
        out.pop_if(|last| *last == b',');
        push(out, "],\"self\":{\"connId\":\"");
        push(out, self.conn);
        push(out, "\",\"epoch\":");
        push_number(self.epoch, out);
        push(out, "}");
        if !is_compatible {
            push(out, ",\"seq\":");
            push_number(self.seq, out);
            if let Some(token) = self.token {
                push(out, ",\"resume\":\"");
                push(out, &token.to_text());
                push(out, "\"");
            }
            if self.is_resumed {
                push(out, ",\"resumed\":true");
            }
            if self.is_degraded {
                push(out, ",\"degraded\":true");
            }
        }
        push(out, "}");
    }
}
