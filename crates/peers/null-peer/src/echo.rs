//! An echo on WebSocket: each message is answered with itself.

use load::slots::Id;

use crate::connections::Connections;
use crate::server::{Malformed, Protocol, Taken};
use crate::websocket;

/// The protocol.
#[derive(Debug, Default)]
pub(crate) struct Echo {
    /// The payload of the frame that is read.
    payload: Vec<u8>,
}

/// An answer, and whether its connection is closed behind it.
#[derive(Debug)]
pub(crate) struct Answer {
    bytes: Vec<u8>,
    closes: bool,
}

impl Protocol for Echo {
    /// True once the connection is a WebSocket.
    type State = bool;
    type Request = Answer;

    fn take(
        &mut self,
        is_upgraded: &mut bool,
        input: &[u8],
    ) -> Result<Option<Taken<Answer>>, Malformed> {
        if !*is_upgraded {
            let upgraded = websocket::upgrade(input)?;
            *is_upgraded = upgraded.is_some();
            return Ok(upgraded.map(|(length, response)| Taken {
                bytes: length,
                request: Some(Answer {
                    bytes: response.into_bytes(),
                    closes: false,
                }),
                is_held: false,
                hangs_up: false,
            }));
        }
        let Some((length, code)) = websocket::read(input, &mut self.payload)? else {
            return Ok(None);
        };
        let answered = match code {
            websocket::PONG => None,
            websocket::PING => Some(websocket::PONG),
            code => Some(code),
        };
        let request = answered.map(|code| {
            let mut bytes = Vec::with_capacity(self.payload.len() + 10);
            websocket::write(code, &self.payload, &mut bytes);
            Answer {
                bytes,
                closes: code == websocket::CLOSE,
            }
        });
        Ok(Some(Taken {
            bytes: length,
            request,
            is_held: code < websocket::CLOSE,
            hangs_up: false,
        }))
    }

    fn answer(&mut self, id: Id, answer: Answer, connections: &mut Connections<bool>) -> Id {
        connections.append(id, &answer.bytes);
        if answer.closes {
            connections.close(id);
        }
        id
    }
}
