//! The settings of the presence service.

use std::time::Duration;

/// Limits and times of the presence service.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Time after the last heartbeat or join at which a member is removed.
    pub ttl: Duration,
    /// Time for which the membership of a broken connection is kept; zero issues no tokens.
    pub resume_grace: Duration,
    /// Maximum number of rooms.
    pub max_rooms: usize,
    /// Maximum number of members of a room.
    pub max_room_members: usize,
    /// Maximum number of members of all rooms.
    pub max_users: usize,
    /// Maximum length of a state, in bytes of JSON.
    pub max_state_bytes: usize,
    /// Answers as the model does, without codes and sequence numbers.
    pub is_compatible: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(30),
            resume_grace: Duration::ZERO,
            max_rooms: 1_000_000,
            max_room_members: 10_000,
            max_users: 1_000_000,
            max_state_bytes: 16 * 1024,
            is_compatible: false,
        }
    }
}

impl Settings {
    pub(crate) fn ttl_ms(&self) -> u64 {
        self.ttl.as_millis() as u64
    }

    pub(crate) fn grace_ms(&self) -> u64 {
        self.resume_grace.as_millis() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presence::answer::JoinAnswer;
    use crate::presence::json::quoted;
    use crate::presence::member::{Shown, Token};

    #[test]
    fn the_largest_answer_to_a_join_is_the_product_of_the_defaults_and_on_the_protocol_page() {
        let settings = Settings::default();
        let state = format!("{{\"x\":\"{}\"}}", "y".repeat(settings.max_state_bytes - 8));
        assert_eq!(state.len(), settings.max_state_bytes);
        let member = Shown {
            conn: &"c".repeat(20),
            // The name with the longest JSON.
            user_json: &quoted(&"\u{1}".repeat(200)),
            state: &state,
            last_seen_ms: u64::MAX,
            epoch: u64::MAX,
        };
        let answer = JoinAnswer {
            conn: member.conn,
            epoch: u64::MAX,
            seq: u64::MAX,
            token: Some(Token::new()),
            is_resumed: true,
            is_degraded: true,
        };
        let mut bytes = b"4318446744073709551615[]".to_vec();
        answer.write(false, &mut bytes, |out| member.write(out));
        let further = {
            let mut bytes = b",".to_vec();
            member.write(&mut bytes);
            bytes.len() * (settings.max_room_members - 1)
        };
        assert!(bytes.len() + further <= 180_000_000);
        let page = include_str!("../../PROTOCOL.md");
        assert!(page.contains("an answer to a join has at most 180,000,000 bytes"));
        assert!(
            page.contains("`--max-room-members` (10,000)") && settings.max_room_members == 10_000
        );
        assert!(
            page.contains("`--max-state-bytes` (16,384)") && settings.max_state_bytes == 16_384
        );
    }
}
