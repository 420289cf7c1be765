//! The application of the conformance mode, for the public test suites of the protocols.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use crate::app::{App, Event};
use crate::socket::Socket;

/// Time between the answer to a connect and the event `auth`.
const APART: Duration = Duration::from_millis(5);

/// An application that sends back what it gets.
///
/// It has the namespaces `/` and `/custom`. A client that connects gets the event `auth` with what it sent to identify
/// itself. The event `message` is answered by the event `message-back`, and `message-with-ack` by an acknowledgement,
/// both with the same arguments and attachments.
#[derive(Debug, Clone, Copy, Default)]
pub struct EchoApp;

impl App for EchoApp {
    fn admit(&self, namespace: &str, _: Option<&RawValue>) -> Result<(), String> {
        match namespace {
            "/" | "/custom" => Ok(()),
            _ => Err("Invalid namespace".to_owned()),
        }
    }

    fn connect(&self, socket: &Arc<Socket>, auth: Option<&RawValue>) {
        let auth = auth.map_or("{}", RawValue::get).to_owned();
        let socket = Arc::clone(socket);
        // The suites wait for one message after the other, and miss the second of two that arrive together.
        tokio::spawn(async move {
            tokio::time::sleep(APART).await;
            socket.send_event(&[], |out| {
                out.extend_from_slice(br#""auth","#);
                out.extend_from_slice(auth.as_bytes());
            });
        });
    }

    fn event(&self, socket: &Arc<Socket>, event: Event<'_>) {
        let arguments = event.arguments.as_bytes();
        match (event.name, event.ack) {
            ("message", _) => socket.send_event(event.attachments, |out| {
                out.extend_from_slice(br#""message-back""#);
                if !arguments.is_empty() {
                    out.push(b',');
                    out.extend_from_slice(arguments);
                }
            }),
            ("message-with-ack", Some(id)) => socket.ack_with(id, event.attachments, |out| {
                out.extend_from_slice(arguments);
            }),
            _ => {}
        }
    }
}
