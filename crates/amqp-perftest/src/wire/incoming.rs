//! Incoming data: read, parsed, and dispatched to producers and consumers.

use std::io::{self, Read as _};

use load::clock;
use load::reactor;
use load::slots::Id;

use super::consumer::ReceivedMessage;
use super::link::{Lost, Role};
use super::read::Event;
use super::{BUFFER, Loop};
use crate::outcome::count;

impl Loop<'_> {
    pub(super) fn serve(&mut self, event: reactor::Event) {
        let (id, _) = Id::from_token(event.token);
        if event.writable {
            self.flush(id);
        }
        if event.readable || event.closing || event.failed {
            self.read(id);
        }
    }

    /// Reads once. If data is left, the socket becomes ready again.
    fn read(&mut self, id: Id) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        let carried = link.unread.len();
        let mut buffer = std::mem::take(&mut self.buffer);
        if buffer.len() < carried + BUFFER / 2 {
            // A non-body frame larger than half of the buffer: the broker sends headers larger than expected.
            buffer.resize(carried + BUFFER / 2, 0);
        }
        buffer[..carried].copy_from_slice(&link.unread);
        link.unread.clear();
        let received = link.stream.read(&mut buffer[carried..]);
        let lost = match received {
            Ok(0) => Some("the broker closed the connection".to_owned().into()),
            Ok(octets) => {
                let now = clock::now();
                link.last_read = now;
                self.parse_frames(id, &buffer[..carried + octets], now)
                    .err()
            }
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock
                    || error.kind() == io::ErrorKind::Interrupted =>
            {
                link.unread.extend_from_slice(&buffer[..carried]);
                None
            }
            Err(error) => Some(Lost::from(error)),
        };
        self.buffer = buffer;
        if let Some(Lost { kind, why }) = lost {
            self.lose_for(id, &why, kind);
        }
    }

    /// Handles every complete frame, keeps the beginning of the next, and writes the acknowledgements at once.
    fn parse_frames(&mut self, id: Id, input: &[u8], now: u64) -> Result<(), Lost> {
        let Some(link) = self.links.get_mut(id) else {
            return Ok(());
        };
        let mut reader = std::mem::take(&mut link.reader);
        let roles = std::mem::take(&mut link.roles);
        let mut answer = std::mem::take(&mut self.output);
        answer.clear();
        let mut taken = 0;
        let served = loop {
            match reader.next(&input[taken..]) {
                Ok((octets, event)) => {
                    taken += octets;
                    let Some(event) = event else { break Ok(()) };
                    if let Err(why) = self.on_event(id, &roles, event, now, &mut answer) {
                        break Err(why);
                    }
                }
                Err(malformed) => break Err(self.against_protocol(malformed.to_string())),
            }
        };
        if let Some(link) = self.links.get_mut(id) {
            link.reader = reader;
            link.roles = roles;
            link.unread.extend_from_slice(&input[taken..]);
        }
        let written = match answer.is_empty() {
            true => Ok(()),
            false => self.write(id, &answer),
        };
        self.output = answer;
        served.and(written.map_err(Lost::from))
    }

    /// Reports a protocol violation, after which nothing on this connection can be trusted.
    pub(super) fn against_protocol(&self, why: String) -> Lost {
        self.worker.record.count(count::PROTOCOL, 1);
        why.into()
    }

    fn on_event(
        &mut self,
        id: Id,
        roles: &[Role],
        event: Event<'_>,
        now: u64,
        answer: &mut Vec<u8>,
    ) -> Result<(), Lost> {
        let role = |channel: u16| roles.get(usize::from(channel).wrapping_sub(1)).copied();
        match event {
            Event::Delivery {
                channel,
                tag,
                redelivered,
                stamp,
                is_intact,
            } => {
                if let Some(Role::Consumer(index)) = role(channel) {
                    let received = ReceivedMessage {
                        tag,
                        redelivered,
                        stamp,
                        is_intact,
                    };
                    self.delivered(index, received, now, answer);
                }
            }
            Event::Confirm {
                channel,
                tag,
                multiple,
                taken,
            } => {
                if let Some(Role::Producer(index)) = role(channel) {
                    return self.confirmed(index, tag, multiple, taken, now);
                }
            }
            Event::Returned { channel, stamp } => {
                if let Some(Role::Producer(index)) = role(channel) {
                    self.returned(index, stamp);
                }
            }
            Event::Method { channel, frame } => {
                if let Some(Role::Consumer(index)) = role(channel)
                    && self.consumer_method(index, frame, now, answer)
                {
                    return Ok(());
                }
                return self.method(id, roles, (channel, frame), now, answer);
            }
            Event::Heartbeat => {}
        }
        Ok(())
    }
}
