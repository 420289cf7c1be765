//! A daemon for tests: its answer to each handoff is a script, and every step has its planned time.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use harness_testing::processes::wait_until;
use nix::libc::linger;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{MsgFlags, SockFlag, SockType, send, setsockopt, sockopt};
use nix::sys::time::{TimeSpec, TimeValLike};
use tempfile::TempDir;

use crate::handoffs::{accepted, listening, received};

/// An action on a client, and its time after the handoff.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) after: Duration,
    pub(crate) act: Act,
}

/// An action.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Writes bytes.
    Write(Vec<u8>),
    /// Closes the client, which ends the script.
    Close,
    /// The same with a reset, which a client of TCP sees.
    Reset,
}

pub(crate) const HEAD: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";

/// Returns a step that writes text.
pub(crate) fn write(after: Duration, text: impl Into<Vec<u8>>) -> Step {
    Step {
        after,
        act: Act::Write(text.into()),
    }
}

/// Returns a step that closes the client.
pub(crate) fn close(after: Duration) -> Step {
    Step {
        after,
        act: Act::Close,
    }
}

/// Returns a record.
pub(crate) fn record(content: &str) -> String {
    format!("data: {{\"content\":\"{content}\"}}\n\n")
}

/// Returns a complete, correct stream of `records` records, all at once.
pub(crate) fn right(records: u32) -> Vec<Step> {
    let body: String = (0..records)
        .map(|number| record(&number.to_string()))
        .collect();
    vec![
        write(Duration::ZERO, format!("{HEAD}{body}data: [DONE]\n\n")),
        close(Duration::ZERO),
    ]
}

/// The daemon, in a thread of the test, with a folder for its socket and for results. It stops when it is dropped.
pub(crate) struct Target {
    folder: TempDir,
    path: PathBuf,
    stop: Arc<AtomicBool>,
    taken: Arc<AtomicUsize>,
    thread: Cell<Option<JoinHandle<usize>>>,
}

impl Target {
    /// Listens on a socket of this kind; `script` gives the steps for handoff 0, 1, 2, …
    pub(crate) fn start(
        kind: SockType,
        script: impl Fn(usize) -> Vec<Step> + Send + 'static,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        // The driver refuses a load for which this process has too few descriptors.
        load::limits::raise_nofile().unwrap();
        let listener = listening(&path, kind, SockFlag::SOCK_NONBLOCK);
        let stop = Arc::new(AtomicBool::new(false));
        let taken = Arc::new(AtomicUsize::new(0));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&taken));
        let thread = std::thread::spawn(move || serve(&listener, &stopped, &counted, script));
        Self {
            folder,
            path,
            stop,
            taken,
            thread: Cell::new(Some(thread)),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Waits until `handoffs` handoffs were taken.
    pub(crate) fn wait_for(&self, handoffs: usize) {
        wait_until("handoffs are taken", || {
            self.taken.load(Ordering::Acquire) >= handoffs
        });
    }

    /// Returns the counter of its handoffs.
    pub(crate) fn counter(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.taken)
    }

    /// Stops it; returns how many handoffs it took.
    pub(crate) fn stop(&self) -> usize {
        self.stop.store(true, Ordering::Release);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // If it has panicked, the test has failed already.
            let _ = thread.join();
        }
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: u64,
    client: usize,
    step: usize,
}

struct Client {
    descriptor: Option<OwnedFd>,
    taken: u64,
    steps: Vec<Step>,
}

fn serve(
    listener: &OwnedFd,
    stop: &AtomicBool,
    taken_so_far: &AtomicUsize,
    script: impl Fn(usize) -> Vec<Step>,
) -> usize {
    let mut clients: Vec<Client> = Vec::new();
    let mut due = BinaryHeap::new();
    while !stop.load(Ordering::Acquire) {
        while let Some(descriptor) = take(listener) {
            let steps = script(clients.len());
            let taken = load::clock::now();
            due.extend(steps.first().map(|first| {
                Reverse(Due {
                    at: taken + first.after.as_nanos() as u64,
                    client: clients.len(),
                    step: 0,
                })
            }));
            clients.push(Client {
                descriptor: Some(descriptor),
                taken,
                steps,
            });
            taken_so_far.store(clients.len(), Ordering::Release);
        }
        while due
            .peek()
            .is_some_and(|Reverse(next)| next.at <= load::clock::now())
        {
            let Reverse(Due { client, step, .. }) = due.pop().unwrap();
            let Client {
                descriptor,
                taken,
                steps,
            } = &mut clients[client];
            act(descriptor, &steps[step].act);
            due.extend(steps.get(step + 1).map(|next| {
                Reverse(Due {
                    at: *taken + next.after.as_nanos() as u64,
                    client,
                    step: step + 1,
                })
            }));
        }
        let wait = due.peek().map_or(20_000_000, |Reverse(next)| {
            next.at.saturating_sub(load::clock::now()).min(20_000_000)
        });
        ppoll(
            &mut [PollFd::new(listener.as_fd(), PollFlags::POLLIN)],
            Some(TimeSpec::nanoseconds(wait as i64)),
            None,
        )
        .unwrap();
    }
    clients.len()
}

fn act(descriptor: &mut Option<OwnedFd>, act: &Act) {
    match (act, &descriptor) {
        (Act::Write(bytes), Some(client)) => {
            // The script handles clients that have disconnected.
            let _ = send(
                client.as_raw_fd(),
                bytes,
                MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT,
            );
        }
        (Act::Reset, Some(client)) => {
            let now = linger {
                l_onoff: 1,
                l_linger: 0,
            };
            setsockopt(client, sockopt::Linger, &now).unwrap();
            *descriptor = None;
        }
        (Act::Close, _) => drop(descriptor.take()),
        (Act::Write(_) | Act::Reset, None) => {}
    }
}

/// Returns the client of the next handoff, if one waits.
fn take(listener: &OwnedFd) -> Option<OwnedFd> {
    received(&accepted(listener)?).1.into_iter().next()
}
