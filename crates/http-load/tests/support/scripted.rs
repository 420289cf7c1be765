//! A server that plays a script on each connection and counts what came: for tests of what an engine makes of it.

#![allow(dead_code, reason = "each test uses its part")]

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::libc::linger;
use nix::sys::socket::Shutdown::Both;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, setsockopt, shutdown, socket, sockopt,
};

/// What is done next on a connection. After the last it is closed, as by [`Step::Close`].
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Waits for a request: a head and, if it says so, a body of `Content-Length`. Several may come in one piece.
    Expect,
    /// Sends bytes.
    Send(Vec<u8>),
    /// Sends the first of these whose beginning the last request has.
    SendBy(Vec<(String, Vec<u8>)>),
    /// Sends pieces of so many bytes, each so long after the one before.
    SendSlowly(Vec<u8>, usize, Duration),
    /// Sends FIN, and waits for the client's: what it sent unread makes no reset of it.
    Close,
    /// Sends RST.
    Reset,
    /// Sends nothing more and waits until the client closes.
    Stall,
    /// Begins the script again.
    Again,
}

/// What came and went, over all connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) connections: u64,
    /// Those that were expected.
    pub(crate) requests: u64,
    /// Bytes read, of requests that were not expected too.
    pub(crate) received: u64,
    /// Bytes that the kernel took.
    pub(crate) sent: u64,
}

/// Listens until it is dropped.
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
    /// Where connections came from.
    peers: Mutex<Vec<IpAddr>>,
    /// The requests that were expected, as they came.
    seen: Mutex<Vec<Vec<u8>>>,
    /// Weak, so that a connection is closed when its script is over.
    open: Mutex<Vec<Weak<TcpStream>>>,
}

/// Holds a port of 127.0.0.1 at which nobody listens, and which nobody else gets meanwhile; 0 is any that is free.
pub(crate) fn nobody(port: u16) -> (SocketAddr, OwnedFd) {
    let flags = SockFlag::SOCK_CLOEXEC;
    let held = socket(AddressFamily::Inet, SockType::Stream, flags, None);
    let held = held.expect("descriptors are left");
    // The connections of who listened there before are no obstacle.
    setsockopt(&held, sockopt::ReuseAddr, &true).expect("it is a socket");
    bind(held.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, port)).expect("the port is free");
    let stream = TcpStream::from(held);
    let address = stream.local_addr().expect("it is bound");
    (address, stream.into())
}

impl Scripted {
    /// Plays the same on each connection.
    pub(crate) fn start(script: Vec<Step>) -> Self {
        Self::start_each(move |_| script.clone())
    }

    /// Plays on the connection of this number, counted from 0 in the order in which they were accepted, what the
    /// function says.
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

    /// Where it listens, on 127.0.0.1.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What was counted so far. A client that was answered finds its request counted, but `sent` may lag behind what it
    /// has got.
    pub(crate) fn counts(&self) -> Counts {
        let count = |count: &AtomicU64| count.load(Ordering::SeqCst);
        Counts {
            connections: count(&self.shared.connections),
            requests: count(&self.shared.requests),
            received: count(&self.shared.received),
            sent: count(&self.shared.sent),
        }
    }

    /// Where each connection came from, in the order in which they were accepted.
    pub(crate) fn peers(&self) -> Vec<IpAddr> {
        self.shared.peers.lock().expect("no script panics").clone()
    }

    /// The requests that were expected, as they came.
    pub(crate) fn seen(&self) -> Vec<Vec<u8>> {
        self.shared.seen.lock().expect("no script panics").clone()
    }

    /// Closes what is open, waits for the end of all scripts and returns the final counts.
    pub(crate) fn finish(mut self) -> Counts {
        self.stop();
        self.counts()
    }

    /// The same, once so many connections were accepted: what the kernel still keeps for it is lost otherwise.
    pub(crate) fn finish_after(self, connections: u64) -> Counts {
        while self.counts().connections < connections {
            thread::sleep(Duration::from_millis(1));
        }
        self.finish()
    }

    fn stop(&mut self) {
        let Some(listening) = self.listening.take() else {
            return;
        };
        self.shared.stopped.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts. A connection could not always: to make one needs a port.
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
                // An error is the client's going, or the stop.
                let _ = Connection::new(stream, shared).play(&script);
            });
        }
    });
}

struct Connection<'a> {
    stream: Arc<TcpStream>,
    shared: &'a Shared,
    /// What was read and not expected yet.
    read: Vec<u8>,
    /// The last request that was expected.
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

    /// Closing with no time to linger is a reset.
    fn reset(self) -> io::Result<()> {
        let now = linger {
            l_onoff: 1,
            l_linger: 0,
        };
        setsockopt(&*self.stream, sockopt::Linger, &now)?;
        Ok(())
    }
}

/// The length of the first request, if it is complete.
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
