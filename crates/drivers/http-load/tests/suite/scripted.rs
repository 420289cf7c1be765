//! A server that plays a script on each connection and counts what it received.

#![allow(dead_code, reason = "each test uses its part")]

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use harness_testing::processes::wait_until;
use nix::libc::linger;
use nix::sys::socket::Shutdown::Both;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, setsockopt, shutdown, socket, sockopt,
};

/// A step of a script. After the last step the connection is closed, as by [`Step::Close`].
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Waits for a request: a head and, if it announces one, a body of `Content-Length`. Several may arrive in one
    /// piece.
    Expect,
    /// Sends bytes.
    Send(Vec<u8>),
    /// Sends the first of these responses whose key is the beginning of the last request.
    SendBy(Vec<(String, Vec<u8>)>),
    /// Sends pieces of this many bytes, with this pause between two pieces.
    SendSlowly(Vec<u8>, usize, Duration),
    /// Sends FIN, and waits for the client's, so that unread data does not turn it into a reset.
    Close,
    /// Sends RST.
    Reset,
    /// Sends nothing more and waits until the client closes.
    Stall,
    /// Restarts the script.
    Again,
}

/// Counts over all connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) connections: u64,
    /// Number of expected requests.
    pub(crate) requests: u64,
    /// Number of bytes read, including unexpected requests.
    pub(crate) received: u64,
    /// Number of bytes that the kernel accepted.
    pub(crate) sent: u64,
}

/// A server that listens until it is dropped.
pub(crate) struct Scripted {
    address: SocketAddr,
    listener: Arc<TcpListener>,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stopped: AtomicBool,
    connections: AtomicU64,
    requests: AtomicU64,
    received: AtomicU64,
    sent: AtomicU64,
    /// The source addresses of connections.
    peers: Mutex<Vec<IpAddr>>,
    /// The expected requests, as they arrived.
    seen: Mutex<Vec<Vec<u8>>>,
    /// Weak references, so that a connection is closed when its script ends.
    open: Mutex<Vec<Weak<TcpStream>>>,
}

/// Reserves a port of 127.0.0.1 at which nobody listens; 0 takes any free port.
pub(crate) fn nobody(port: u16) -> (SocketAddr, OwnedFd) {
    let flags = SockFlag::SOCK_CLOEXEC;
    let held = socket(AddressFamily::Inet, SockType::Stream, flags, None);
    let held = held.expect("descriptors are left");
    // Connections of an earlier listener are no obstacle.
    setsockopt(&held, sockopt::ReuseAddr, &true).expect("it is a socket");
    bind(held.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, port)).expect("the port is free");
    let stream = TcpStream::from(held);
    let address = stream.local_addr().expect("it is bound");
    (address, stream.into())
}

impl Scripted {
    /// Starts a server that plays the same script on each connection.
    pub(crate) fn start(script: Vec<Step>) -> Self {
        Self::start_each(move |_| script.clone())
    }

    /// Starts a server that plays, on the connection with this number, the script that the function returns.
    /// Connections are counted from 0, in the order in which they were accepted.
    pub(crate) fn start_each(script: impl Fn(u64) -> Vec<Step> + Send + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let (listener, shared) = (Arc::new(listener), Arc::new(Shared::default()));
        let listening = thread::spawn({
            let (listener, shared) = (Arc::clone(&listener), Arc::clone(&shared));
            move || listen(&listener, &shared, script)
        });
        Self {
            address,
            listener,
            shared,
            listening: Some(listening),
        }
    }

    /// Returns its address on 127.0.0.1.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the counts so far. The request of a client that got its response is counted, but `sent` may lag behind
    /// the bytes it received.
    pub(crate) fn counts(&self) -> Counts {
        let count = |count: &AtomicU64| count.load(Ordering::SeqCst);
        Counts {
            connections: count(&self.shared.connections),
            requests: count(&self.shared.requests),
            received: count(&self.shared.received),
            sent: count(&self.shared.sent),
        }
    }

    /// Returns the source address of each connection, in the order in which they were accepted.
    pub(crate) fn peers(&self) -> Vec<IpAddr> {
        self.shared.peers.lock().expect("no script panics").clone()
    }

    /// The expected requests, as they arrived.
    pub(crate) fn seen(&self) -> Vec<Vec<u8>> {
        self.shared.seen.lock().expect("no script panics").clone()
    }

    /// Closes open connections, waits for the end of all scripts and returns the final counts.
    pub(crate) fn finish(mut self) -> Counts {
        self.stop();
        self.counts()
    }

    /// Does the same once this many connections were accepted: connections that are still in the kernel's queue would
    /// be lost otherwise.
    pub(crate) fn finish_after(self, connections: u64) -> Counts {
        wait_until("the connections are accepted", || {
            self.counts().connections >= connections
        });
        self.finish()
    }

    fn stop(&mut self) {
        let Some(listening) = self.listening.take() else {
            return;
        };
        self.shared.stopped.store(true, Ordering::SeqCst);
        // Wakes the accepting thread. A connection could not always do so, since it needs a port.
        let _ = shutdown(self.listener.as_raw_fd(), Both);
        for stream in self.shared.open.lock().expect("no script panics").drain(..) {
            if let Some(stream) = stream.upgrade() {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
        let ended = listening.join();
        assert!(ended.is_ok() || thread::panicking(), "a script panicked");
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.stop();
    }
}

fn listen(listener: &TcpListener, shared: &Arc<Shared>, script: impl Fn(u64) -> Vec<Step>) {
    thread::scope(|scope| {
        loop {
            let (stream, peer) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(_) if shared.stopped.load(Ordering::SeqCst) => return,
                Err(error) => panic!("descriptors are left: {error}"),
            };
            let stream = Arc::new(stream);
            {
                // Under the lock: either this sees the stop, or the stop sees the connection.
                let mut open = shared.open.lock().expect("no script panics");
                if shared.stopped.load(Ordering::SeqCst) {
                    return;
                }
                open.retain(|stream| stream.strong_count() > 0);
                open.push(Arc::downgrade(&stream));
            }
            let mut peers = shared.peers.lock().expect("no script panics");
            peers.push(peer.ip());
            drop(peers);
            let number = shared.connections.fetch_add(1, Ordering::SeqCst);
            let script = script(number);
            scope.spawn(move || {
                // An error means that the client left, or the stop.
                let _ = Connection::new(stream, shared).play(&script);
            });
        }
    });
}

struct Connection<'a> {
    stream: Arc<TcpStream>,
    shared: &'a Shared,
    /// Data that was read but not expected yet.
    read: Vec<u8>,
    /// The last expected request.
    last: Vec<u8>,
}

impl<'a> Connection<'a> {
    fn new(stream: Arc<TcpStream>, shared: &'a Shared) -> Self {
        Self {
            stream,
            shared,
            read: Vec::new(),
            last: Vec::new(),
        }
    }

    fn play(mut self, script: &[Step]) -> io::Result<()> {
        self.stream.set_nodelay(true)?;
        let mut next = 0;
        while let Some(step) = script.get(next) {
            next += 1;
            match step {
                Step::Expect => self.expect()?,
                Step::Send(bytes) => self.send(bytes)?,
                Step::SendBy(answers) => {
                    let mut answers = answers.iter();
                    let answer = answers.find(|(begin, _)| self.last.starts_with(begin.as_bytes()));
                    self.send(answer.map_or(&[], |(_, answer)| answer))?;
                }
                Step::SendSlowly(bytes, size, pause) => {
                    for (index, piece) in bytes.chunks(*size).enumerate() {
                        if index > 0 {
                            // A step of the script.
                            thread::sleep(*pause);
                        }
                        self.send(piece)?;
                    }
                }
                Step::Close => break,
                Step::Reset => return self.reset(),
                Step::Stall => return self.read_to_end(),
                Step::Again => next = 0,
            }
        }
        self.stream.shutdown(Shutdown::Write)?;
        self.read_to_end()
    }

    fn expect(&mut self) -> io::Result<()> {
        loop {
            if let Some(length) = request(&self.read)? {
                self.last = self.read.drain(..length).collect();
                let mut seen = self.shared.seen.lock().expect("no script panics");
                seen.push(self.last.clone());
                drop(seen);
                self.shared.requests.fetch_add(1, Ordering::SeqCst);
                return Ok(());
            }
            if self.read_some()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn read_some(&mut self) -> io::Result<usize> {
        let mut buffer = [0; 16 * 1024];
        let length = (&*self.stream).read(&mut buffer)?;
        self.read.extend_from_slice(&buffer[..length]);
        self.shared
            .received
            .fetch_add(length as u64, Ordering::SeqCst);
        Ok(length)
    }

    fn read_to_end(&mut self) -> io::Result<()> {
        while self.read_some()? > 0 {
            self.read.clear();
        }
        Ok(())
    }

    fn send(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let length = (&*self.stream).write(bytes)?;
            self.shared.sent.fetch_add(length as u64, Ordering::SeqCst);
            bytes = &bytes[length..];
        }
        Ok(())
    }

    /// A close with a linger time of 0 is a reset.
    fn reset(self) -> io::Result<()> {
        let now = linger {
            l_onoff: 1,
            l_linger: 0,
        };
        setsockopt(&*self.stream, sockopt::Linger, &now)?;
        Ok(())
    }
}

/// Returns the length of the first request, if it is complete.
fn request(bytes: &[u8]) -> io::Result<Option<usize>> {
    let mut headers = [httparse::EMPTY_HEADER; 100];
    let mut request = httparse::Request::new(&mut headers);
    let status = request
        .parse(bytes)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    let httparse::Status::Complete(head) = status else {
        return Ok(None);
    };
    let body = request
        .headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case("content-length"))
        .and_then(|header| str::from_utf8(header.value).ok()?.parse().ok())
        .unwrap_or(0);
    let length: usize = head + body;
    Ok((bytes.len() >= length).then_some(length))
}
