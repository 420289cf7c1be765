//! Incoming data: read, parsed, and dispatched to producers and consumers.

use std::io::{self, Read as _};

use load::clock;
use load::slots::Id;

use super::read::Event;
use super::{BUFFER, Cx, WireWorker};
use crate::layout::ClientIndex;
use crate::outcome::count;
use crate::roles::connection::Lost;

impl<'a> WireWorker<'a> {
    /// Reads once. If data is left, the socket becomes ready again.
    pub(super) fn read(&mut self, id: Id, cx: &mut Cx<'a>) {
        let Some(connection) = cx.connections.get_mut(id) else {
            return;
        };
        let carried = connection.unread.len();
        let mut buffer = std::mem::take(&mut cx.buffer);
        if buffer.len() < carried + BUFFER / 2 {
            // A non-body frame larger than half of the buffer: the broker sends headers larger than expected.
            buffer = vec![0; carried + BUFFER / 2].into();
        }
        buffer[..carried].copy_from_slice(&connection.unread);
        connection.unread.clear();
        let received = connection.stream.read(&mut buffer[carried..]);
        let lost = match received {
            Ok(0) => Some("the broker closed the connection".into()),
            Ok(octets) => {
                let now = clock::now();
                connection.last_read = now;
                self.parse_frames(id, &buffer[..carried + octets], now, cx)
                    .err()
            }
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock
                    || error.kind() == io::ErrorKind::Interrupted =>
            {
                connection.unread.extend_from_slice(&buffer[..carried]);
                None
            }
            Err(error) => Some(Lost::from(error)),
        };
        cx.buffer = buffer;
        if let Some(lost) = lost {
            self.lose(id, &lost, cx);
        }
    }

    /// Handles every complete frame, keeps the beginning of the next, and writes the acknowledgements at once.
    fn parse_frames(
        &mut self,
        id: Id,
        input: &[u8],
        now: u64,
        cx: &mut Cx<'a>,
    ) -> Result<(), Lost> {
        let Some(connection) = cx.connections.get_mut(id) else {
            return Ok(());
        };
        let mut reader = std::mem::take(&mut connection.reader);
        let clients = std::mem::take(&mut connection.clients);
        let mut answer = std::mem::take(&mut self.output);
        answer.clear();
        let mut taken = 0;
        let served = loop {
            match reader.next(&input[taken..]) {
                Ok((octets, event)) => {
                    taken += octets;
                    let Some((channel, event)) = event else {
                        break Ok(());
                    };
                    let client = clients.get(usize::from(channel).wrapping_sub(1)).copied();
                    let event = (channel, event);
                    let served = self.on_event(id, client, event, (now, &mut answer), cx);
                    if served.is_err() {
                        break served;
                    }
                }
                Err(malformed) => break Err(self.on_violation(malformed.to_string())),
            }
        };
        if let Some(connection) = cx.connections.get_mut(id) {
            connection.reader = reader;
            connection.clients = clients;
            connection.unread.extend_from_slice(&input[taken..]);
        }
        let written = if answer.is_empty() {
            Ok(())
        } else {
            self.write(id, &answer, cx)
        };
        self.output = answer;
        served.and(written.map_err(Lost::from))
    }

    /// Counts a protocol violation, after which nothing on this connection can be trusted.
    fn on_violation(&self, why: String) -> Lost {
        self.state.record.count(count::PROTOCOL, 1);
        why.into()
    }

    fn on_event(
        &mut self,
        id: Id,
        client: Option<ClientIndex>,
        (channel, event): (u16, Event<'_>),
        (now, answer): (u64, &mut Vec<u8>),
        cx: &mut Cx<'a>,
    ) -> Result<(), Lost> {
        match (event, client) {
            (Event::Delivery(received), Some(ClientIndex::Consumer(index))) => {
                let (role, mut frames) = self.consumers[index].split(self.state.run, answer);
                role.on_delivery(&mut self.state, &received, now, &mut frames);
            }
            (Event::Confirm(confirm), Some(ClientIndex::Producer(index))) => {
                let role = &mut self.producers[index].role;
                let confirmed = role.on_confirm(&mut self.state, confirm, now);
                self.make_ready(index);
                return confirmed.map_err(|why| self.on_violation(why));
            }
            (Event::Returned(Some(stamp)), Some(ClientIndex::Producer(index))) => {
                let role = &mut self.producers[index].role;
                role.on_returned(&mut self.state, &stamp);
            }
            (Event::Empty, Some(ClientIndex::Consumer(index))) => {
                let (role, mut frames) = self.consumers[index].split(self.state.run, answer);
                role.on_empty(&mut self.state, now, &mut frames);
            }
            (Event::Method(frame), _) => {
                return self.method(id, client, (channel, frame), (now, answer), cx);
            }
            _ => {}
        }
        Ok(())
    }
}
