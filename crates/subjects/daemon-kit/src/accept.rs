//! Accepts connections, with a pause while the process has no descriptors left.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::time::sleep;

/// Pause after a failed accept. The most likely cause is a lack of descriptors (EMFILE, ENFILE). Retrying at once would
/// spin, since the connection stays in the queue.
const RETRY_DELAY: Duration = Duration::from_millis(10);

/// A listener of either family.
pub trait Accept {
    /// The accepted connection.
    type Connection;

    /// Polls for the next connection.
    ///
    /// # Errors
    /// The error of the system call.
    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<Self::Connection>>;
}

impl Accept for TcpListener {
    type Connection = (TcpStream, SocketAddr);

    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<Self::Connection>> {
        Self::poll_accept(self, context)
    }
}

impl Accept for UnixListener {
    type Connection = UnixStream;

    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<Self::Connection>> {
        Self::poll_accept(self, context).map_ok(|(client, _)| client)
    }
}

/// Accepts the next connection. After each error, it calls `failed` and pauses for 10 ms. A client that has already
/// disconnected is skipped. The future may be dropped: no connection is lost.
pub async fn accept<L: Accept>(listener: &L, mut failed: impl FnMut(&io::Error)) -> L::Connection {
    loop {
        match poll_fn(|context| listener.poll_accept(context)).await {
            Ok(connection) => return connection,
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                failed(&error);
                sleep(RETRY_DELAY).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tokio::time::Instant;

    use super::*;

    /// A listener that fails with these errors, then accepts.
    struct Failing(RefCell<Vec<io::ErrorKind>>);

    impl Accept for Failing {
        type Connection = ();

        fn poll_accept(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(match self.0.borrow_mut().pop() {
                Some(kind) => Err(kind.into()),
                None => Ok(()),
            })
        }
    }

    #[tokio::test]
    async fn an_error_pauses_accepting_and_is_reported_once() {
        let errors = vec![
            io::ErrorKind::Other,
            io::ErrorKind::ConnectionAborted,
            io::ErrorKind::Other,
        ];
        let listener = Failing(RefCell::new(errors));
        let started = Instant::now();
        let mut reported = 0;
        accept(&listener, |_| reported += 1).await;
        assert_eq!(reported, 2);
        assert!(started.elapsed() >= 2 * RETRY_DELAY);
    }

    #[tokio::test]
    async fn connections_of_both_families_are_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let unix = UnixListener::bind(&path).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _unix_client = UnixStream::connect(&path).await.unwrap();
        let tcp_client = TcpStream::connect(tcp.local_addr().unwrap()).await.unwrap();
        accept(&unix, |_| ()).await;
        let (_, peer) = accept(&tcp, |_| ()).await;
        assert_eq!(peer, tcp_client.local_addr().unwrap());
    }
}
