//! The settings of the presence service.

use std::time::Duration;

/// Limits and times of the presence service.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Time after the last heartbeat or join at which a member is removed.
    pub ttl: Duration,
    /// Time for which the place of a broken connection is kept; zero issues no tokens.
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
