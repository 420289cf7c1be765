//! A room of a conversation without connections, which benches the pushes.

use std::rc::Rc;

use load::plan::Invalid;
use measure::counters::Counters;
use traffic::Values;

use super::{COUNTERS, FanOut};
use crate::conversation::{Conversation, ROOM, ServerMessage, USER, read};
use crate::outcome::count;
use crate::roles::population::Part;
use crate::settings::Settings;

/// The room `room-001` of a conversation over Socket.IO, as a worker sees it.
#[derive(Debug)]
pub struct ChatRoom {
    conversation: Conversation,
    pushes: FanOut,
    /// The values of its first user.
    values: Vec<Option<Box<[u8]>>>,
    now: u64,
}

impl ChatRoom {
    /// Creates a room whose users take part, and whose first one, `user-1-1`, has sent `sent` messages before. Returns `None`
    /// if the settings have no conversation.
    ///
    /// # Errors
    /// The conversation is invalid.
    pub fn new(settings: &Settings, users: u32, sent: u32) -> Result<Option<Self>, Invalid> {
        let Some(conversation) = Conversation::new(settings, 1)? else {
            return Ok(None);
        };
        let part = Part::new_room(users);
        let to = conversation.fan_out.as_ref().map(|rule| rule.to);
        let mut pushes = FanOut::new(part, to, &Rc::new(Counters::new(count::COUNTERS)));
        pushes.send(0, sent, 1);
        (0..users).for_each(|user| pushes.join(user));
        let names = part.names(0);
        let mut values = vec![None; conversation.values];
        values[ROOM] = Some(names.room.into_bytes().into());
        values[USER] = Some(names.user.into_bytes().into());
        Ok(Some(Self {
            conversation,
            pushes,
            values,
            now: 1,
        }))
    }

    /// Appends the first step of the load as the message of the first user with this number, which follows the one before.
    pub fn send(&mut self, number: u32, out: &mut Vec<u8>) {
        self.now += 1;
        self.pushes.send(0, number, self.now);
        let values = Values {
            own: &self.values,
            ..Values::from_number(number.into())
        };
        self.conversation.steps[0].text.render(values, out);
    }

    /// Audits a message of the server that a user receives. Returns the time since its message was due, if it is a new push.
    pub fn receive(&mut self, user: u32, message: &str) -> Option<u64> {
        self.now += 1;
        let Ok(ServerMessage::Event(name, event)) = read(message, "") else {
            return None;
        };
        let rule = self.conversation.fan_out.as_ref();
        let rule = rule.filter(|rule| rule.event.as_deref() == Some(&*name))?;
        let (sender, number) = rule.origin(event).ok()??;
        self.pushes.receive(user, &sender, number, self.now)
    }

    /// Returns true if nothing was lost, duplicated, reordered or wrong so far.
    #[must_use]
    pub fn is_right(&self) -> bool {
        let is_right = |counter| counter == count::EVENTS || self.pushes.counts.get(counter) == 0;
        COUNTERS.into_iter().all(is_right)
    }
}
