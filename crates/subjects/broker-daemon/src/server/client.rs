//! A connected client: waits for its socket, reads it in turns, and ends it.

use std::io;
use std::os::fd::AsRawFd as _;
use std::rc::Rc;
use std::time::Duration;

use nix::sys::socket::{Shutdown, shutdown};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use super::{ServerState, SharedState};
use crate::exchange::QueueId;
use crate::queue::ConnectionId;

/// Maximum bytes per read. With 384 KiB, what 20 publishers send in a turn leaves the cache before it is delivered.
const READ: usize = 64 * 1024;
/// Bytes of the beginning of a frame from which a read may fill the whole buffer. It is copied for each read.
const LONG_FRAME: usize = 4 * 1024;
/// Maximum bytes per read of a publisher whose messages pile up, so that acknowledgements of consumers come in between.
/// With full reads, 20 publishers and 20 consumers with a prefetch of 100 ran at 5 to 1. It is also the maximum for
/// every connection while memory is short, since all input of a publisher is then kept.
const READ_AHEAD: usize = 16 * 1024;
/// Pause between two reads of such a publisher, provided that consumers take this many messages meanwhile. Without a
/// pause they cannot keep up: each of their acknowledgements waits for a turn.
const PAUSE_AHEAD: Duration = Duration::from_millis(1);
const WORTH_PAUSING: u64 = 16;
/// If the pause delivered fewer than 16 messages, the consumers are the bottleneck: skip pausing for the next 256
/// reads.
const UNDISTURBED: u32 = 256;
/// Time that a client has to read why it was closed.
const LINGER: Duration = Duration::from_secs(1);

/// The events that a connection waits for on its socket.
enum SocketInterest {
    Ready(Interest),
    /// To be woken by the broker.
    Nothing,
    End,
}

/// Serves one client to its end.
pub(super) async fn serve(
    state: SharedState,
    id: ConnectionId,
    socket: Rc<TcpStream>,
    wake: Rc<Notify>,
) {
    // Remaining reads without a pause for a connection that is ahead.
    let mut undisturbed = 0;
    loop {
        let want = state.borrow_mut().wanted(id);
        let interest = match want {
            SocketInterest::End => {
                state.borrow_mut().turn().disconnect(id);
                return linger(&socket).await;
            }
            SocketInterest::Ready(interest) => interest,
            SocketInterest::Nothing => {
                // A held client may disconnect meanwhile, with messages that it has not acknowledged.
                tokio::select! {
                    () = wake.notified() => continue,
                    _ = socket.ready(Interest::ERROR) => break,
                }
            }
        };
        tokio::select! {
            biased;
            () = wake.notified() => {}
            ready = socket.ready(interest) => {
                let Ok(ready) = ready else { break };
                if ready.is_writable() && interest.is_writable() {
                    let mut borrowed = state.borrow_mut();
                    borrowed.turn().flush(id, true);
                    borrowed.broker.finish_turn();
                }
                if ready.is_readable() && interest.is_readable() {
                    let read = state.borrow_mut().read(id, &socket);
                    match read {
                        Read::Some => {}
                        Read::Full => yield_now().await,
                        Read::Ahead(queue) if undisturbed == 0 => {
                            let before = state.borrow().broker.delivered(queue);
                            sleep(PAUSE_AHEAD).await;
                            let helped = state.borrow().broker.delivered(queue).saturating_sub(before);
                            undisturbed = if helped < WORTH_PAUSING { UNDISTURBED } else { 0 };
                        }
                        Read::Ahead(_) => {
                            undisturbed -= 1;
                            yield_now().await;
                        }
                        Read::End => break,
                    }
                }
            }
        }
    }
    let mut borrowed = state.borrow_mut();
    borrowed.turn().disconnect(id);
}

/// Drains further input of a client whose connection is being closed. Closing with unread input would reset the
/// connection, and the client might never read the reason.
async fn linger(socket: &TcpStream) {
    if shutdown(socket.as_raw_fd(), Shutdown::Write).is_err() {
        return;
    }
    let drained = async {
        let mut sink = [0; 4096];
        while socket.readable().await.is_ok() {
            match socket.try_read(&mut sink) {
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(0) | Err(_) => return,
            }
        }
    };
    // A client that continues to send is cut off.
    let _ = timeout(LINGER, drained).await;
}

enum Read {
    Some,
    /// The buffer was filled: there may be more.
    Full,
    /// The buffer was filled by a publisher whose messages pile up in a queue.
    Ahead(QueueId),
    End,
}

impl ServerState {
    /// Returns the events that a connection waits for now. Processes its backlog first, if it need not wait any more.
    fn wanted(&mut self, id: ConnectionId) -> SocketInterest {
        let Some(connection) = self.broker.connection(id) else {
            return SocketInterest::End;
        };
        if connection.is_over() {
            return SocketInterest::End;
        }
        if let Some(backlog) = connection.take_held_frames() {
            self.turn().receive(id, &backlog);
        }
        let interest = self.broker.connections[id].interest();
        interest.map_or(SocketInterest::Nothing, SocketInterest::Ready)
    }

    /// Reads once, after the beginning of a frame that was read before, and processes the input.
    fn read(&mut self, id: ConnectionId, socket: &TcpStream) -> Read {
        let is_short = self.broker.memory.is_short();
        let Some(connection) = self.broker.connection(id) else {
            return Read::End;
        };
        let begun = connection.backlog().len();
        let mut input = std::mem::take(&mut self.input);
        input[..begun].copy_from_slice(connection.backlog());
        let ahead = connection.ahead;
        let room = match ahead {
            None if !is_short && begun > LONG_FRAME => input.len() - begun,
            None if !is_short => READ,
            _ => READ_AHEAD,
        };
        let outcome = match socket.try_read(&mut input[begun..begun + room]) {
            Ok(0) => Read::End,
            Ok(length) => {
                let broker = self.turn();
                broker.counts.bytes_received += length as u64;
                broker.receive(id, &input[..begun + length]);
                if length == room {
                    ahead.map_or(Read::Full, Read::Ahead)
                } else {
                    // The socket is empty: this saves a read that would return WouldBlock.
                    let empty = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
                    let _ = socket.try_io(Interest::READABLE, empty);
                    Read::Some
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Read::Some,
            Err(_) => Read::End,
        };
        self.input = input;
        outcome
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::broker::Broker;
    use crate::options::Config;

    #[test]
    fn a_stale_id_ends_its_connection_and_not_the_process() {
        let mut state = ServerState {
            broker: Broker::new(Rc::new(Config::default())),
            input: Vec::new(),
            started: Instant::now(),
        };
        let (id, _) = state.broker.connect(None);
        state.turn().disconnect(id);
        assert!(matches!(state.wanted(id), SocketInterest::End));
        state.turn().disconnect(id);
    }
}
