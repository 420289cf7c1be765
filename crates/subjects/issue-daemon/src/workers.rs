//! The threads that use the database: one writes, a few read.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context as _;
use daemon_kit::RateLimitedLog;
use issue_rpc::{Answer, COMPATIBLE_PAGE, Code, Header, Read};
use issue_store::{Reader, Store, Timestamp};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use crate::committer::{Committer, LOCK_WAIT, expired, unix_ms};
use crate::counts::{Counts, add};
use crate::queue::{Full, Group, Job, Queue};
use crate::service::{Identity, SharedHealth};
use crate::session::Task;

/// Threads that read. More do not pay on few cores, as a read takes tens of microseconds.
const READERS: usize = 2;
/// The time of a commit with a slow sync, from which it pays to wait for requests before the next one.
const SLOW_COMMIT: Duration = Duration::from_millis(1);
/// The part of the time of a slow commit for which the next one waits for requests.
const WAITING_PART: u32 = 4;
/// The longest such time.
const LONGEST_WAIT: Duration = Duration::from_millis(10);
/// Maximum lines per second of the log.
const LOG_LINES: u64 = 5;
/// The thread for reads that may take seconds. Others do not wait for them.
const LONG_READER: usize = READERS;

/// The end of something that a connection waits for.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The number of the connection.
    pub(crate) connection: u64,
    pub(crate) result: WorkResult,
}

#[derive(Debug)]
pub(crate) enum WorkResult {
    /// The line to send.
    Answered(String),
    /// The request of a line of this many bytes.
    Parsed(Box<Task>, usize),
}

/// Outcomes travel in batches, so that the thread of the connections is woken once for a group.
pub(crate) type Outcomes = UnboundedSender<Result<Vec<Outcome>, ThreadPanicked>>;

/// A thread has panicked, whose work nobody else does.
#[derive(Debug, thiserror::Error)]
#[error(
    "the thread {0} has panicked, so requests would wait for ever: start the daemon again, and report the panic above"
)]
pub(crate) struct ThreadPanicked(pub(crate) &'static str);

/// Work for a thread that reads.
#[derive(Debug)]
pub(crate) enum ReadWork {
    Parse(Vec<u8>),
    Read(Box<(Header, Read)>),
}

/// The threads.
#[derive(Debug)]
pub(crate) struct Workers {
    writes: Arc<WriteQueue>,
    reads: Vec<Sender<(u64, ReadWork)>>,
    writer: JoinHandle<()>,
    readers: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct WriteQueue {
    state: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Debug)]
struct Waiting {
    queue: Queue,
    is_closed: bool,
}

impl Workers {
    /// Opens the connections to the database, and starts the threads.
    ///
    /// # Errors
    /// The database cannot be opened, or the system refuses a thread.
    pub(crate) fn start(
        store: &Store,
        queued: usize,
        context: &Context,
        outcomes: &Outcomes,
    ) -> anyhow::Result<Self> {
        let writes = Arc::new(WriteQueue {
            state: Mutex::new(Waiting {
                queue: Queue::new(queued),
                is_closed: false,
            }),
            arrived: Condvar::new(),
        });
        let writer = Writing {
            committer: Committer::new(store.clone(), Arc::clone(&context.identity.files))?,
            queue: Arc::clone(&writes),
            context: context.clone(),
            outcomes: outcomes.clone(),
            log: RateLimitedLog::new(env!("CARGO_PKG_NAME"), LOG_LINES),
        };
        let writer = spawn("writer", outcomes, move || writer.run())?;
        let (mut reads, mut readers) = (Vec::new(), Vec::new());
        for _ in 0..=LONG_READER {
            let (work, received) = channel();
            let reader = store.reader()?;
            let reading = Reading {
                reader: if context.identity.is_compatible {
                    reader.with_page_size(COMPATIBLE_PAGE)
                } else {
                    reader
                },
                context: context.clone(),
                outcomes: outcomes.clone(),
            };
            readers.push(spawn("reader", outcomes, move || reading.run(&received))?);
            reads.push(work);
        }
        Ok(Self {
            writes,
            writer,
            reads,
            readers,
        })
    }

    /// Adds a write to the queue.
    ///
    /// # Errors
    /// The queue is full.
    pub(crate) fn write(&self, job: Job) -> Result<(), Full> {
        let mut waiting = self.writes.lock();
        let was_empty = waiting.queue.is_empty();
        waiting.queue.push(job)?;
        drop(waiting);
        if was_empty {
            self.writes.arrived.notify_one();
        }
        Ok(())
    }

    /// Gives work to the thread that reads for a connection. The same one reads all of it, so its answers have the order
    /// of the requests.
    pub(crate) fn read(&self, connection: u64, work: ReadWork) {
        self.read_by(connection as usize % READERS, connection, work);
    }

    /// Gives work to the thread for what may take seconds. Nothing else of the connection may be under way.
    pub(crate) fn read_long(&self, connection: u64, work: ReadWork) {
        self.read_by(LONG_READER, connection, work);
    }

    fn read_by(&self, reader: usize, connection: u64, work: ReadWork) {
        // A reader that has panicked has ended the daemon.
        let _ = self.reads[reader].send((connection, work));
    }

    /// Lets the threads finish what they have, and waits for their end. The writer ends last: SQLite moves the log into
    /// the database when its last connection closes, and two that close at once can each take the other for the last.
    pub(crate) fn finish(self) {
        drop(self.reads);
        for thread in self.readers {
            // A panic is reported otherwise.
            let _ = thread.join();
        }
        self.writes.lock().is_closed = true;
        self.writes.arrived.notify_one();
        let _ = self.writer.join();
    }
}

/// Starts a thread. Its panic becomes an outcome.
fn spawn(
    name: &'static str,
    outcomes: &Outcomes,
    run: impl FnOnce() + Send + 'static,
) -> anyhow::Result<JoinHandle<()>> {
    let outcomes = outcomes.clone();
    let run = move || {
        if catch_unwind(AssertUnwindSafe(run)).is_err() {
            // The daemon may be stopping.
            let _ = outcomes.send(Err(ThreadPanicked(name)));
        }
    };
    let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.context("cannot start a thread")
}

/// The work that waits, of workers without threads: a test does it.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct Pending {
    writes: Arc<WriteQueue>,
    reads: Vec<Receiver<(u64, ReadWork)>>,
}

#[cfg(test)]
impl Workers {
    pub(crate) fn without_threads(queued: usize) -> (Self, Pending) {
        let writes = Arc::new(WriteQueue {
            state: Mutex::new(Waiting {
                queue: Queue::new(queued),
                is_closed: false,
            }),
            arrived: Condvar::new(),
        });
        let (reads, received) = (0..=LONG_READER).map(|_| channel()).unzip();
        let workers = Self {
            writes: Arc::clone(&writes),
            reads,
            writer: thread::spawn(|| ()),
            readers: Vec::new(),
        };
        (
            workers,
            Pending {
                writes,
                reads: received,
            },
        )
    }
}

#[cfg(test)]
impl Pending {
    pub(crate) fn take_group(&mut self) -> Group {
        self.writes.lock().queue.take_group(usize::MAX)
    }

    pub(crate) fn take_read(&mut self) -> Option<(u64, ReadWork)> {
        self.reads.iter().find_map(|reads| reads.try_recv().ok())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.writes.lock().queue.is_empty()
    }
}

impl WriteQueue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts back a group that another process keeps from being stored. Removes the requests that must be answered now:
    /// so close to their deadlines that their clients still wait for the answer, and all of them at the end.
    fn put_back(&self, group: Group) -> Vec<Job> {
        let mut waiting = self.lock();
        let now_ms = if waiting.is_closed {
            u64::MAX
        } else {
            unix_ms(Timestamp::now()) + LOCK_WAIT.as_millis() as u64
        };
        waiting.queue.put_back(group, now_ms)
    }

    /// Moves requests that have arrived to a group, until it has this many, and waits for one until a time. Returns true
    /// if there were any.
    fn extend(&self, group: &mut Group, requests: usize, end: Instant) -> bool {
        let mut waiting = self.lock();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let is_complete = group.jobs.len() >= requests || left.is_zero();
            if waiting.queue.extend(group, requests) {
                return true;
            }
            if is_complete || waiting.is_closed || !waiting.queue.is_empty() {
                return false;
            }
            let waited = self.arrived.wait_timeout(waiting, left);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits for requests, and returns up to this many. Returns none at the end.
    fn next_group(&self, requests: usize) -> Option<Group> {
        let mut waiting = self.lock();
        loop {
            if !waiting.queue.is_empty() {
                return Some(waiting.queue.take_group(requests));
            }
            if waiting.is_closed {
                return None;
            }
            waiting = self
                .arrived
                .wait(waiting)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The facts that all threads share.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) identity: Arc<Identity>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) health: SharedHealth,
}

struct Writing {
    committer: Committer,
    queue: Arc<WriteQueue>,
    context: Context,
    outcomes: Outcomes,
    log: RateLimitedLog,
}

impl Writing {
    /// Stores group after group. A group may grow to the limit that the last one has left.
    fn run(mut self) {
        let (mut limit, mut wait) = (usize::MAX, Duration::ZERO);
        while let Some(mut group) = self.queue.next_group(limit) {
            let began = Instant::now();
            let mut committing = began;
            let queue = Arc::clone(&self.queue);
            let committed = self.commit(&mut group, |group| {
                let is_extended = queue.extend(group, limit, began + wait);
                committing = Instant::now();
                is_extended
            });
            match committed {
                Ok(answers) => {
                    let commit = committing.elapsed();
                    wait = Duration::ZERO;
                    if commit >= SLOW_COMMIT {
                        wait = LONGEST_WAIT.min(commit / WAITING_PART);
                    }
                    let clients = group.jobs.len() + self.queue.lock().queue.len();
                    let performed = (committing - began) / group.jobs.len() as u32;
                    limit = group_limit(clients, performed, commit);
                    let counts = &self.context.counts;
                    add(&counts.commit_ns, began.elapsed().as_nanos() as u64);
                    add(&counts.groups, 1);
                    add(&counts.writes, group.jobs.len() as u64);
                    self.answer(group.jobs.iter().zip(answers));
                    self.committer.maintain(Timestamp::now());
                    self.note_health();
                }
                Err(busy) => {
                    let late = self.queue.put_back(group);
                    self.answer(late.iter().map(|job| (job, busy.clone())));
                }
            }
        }
        self.committer.finish();
    }

    fn answer<'a>(&self, answers: impl Iterator<Item = (&'a Job, Answer)>) {
        let outcomes = answers.map(|(job, answer)| {
            self.context.counts.answered(&answer);
            Outcome {
                connection: job.connection,
                result: WorkResult::Answered(answer.line(job.request.header.request_id.as_ref())),
            }
        });
        // The daemon may have stopped waiting.
        let _ = self.outcomes.send(Ok(outcomes.collect()));
    }

    fn commit(
        &mut self,
        group: &mut Group,
        extend: impl FnMut(&mut Group) -> bool,
    ) -> Result<Vec<Answer>, Answer> {
        let committed = catch_unwind(AssertUnwindSafe(|| {
            self.committer.commit(Timestamp::now, group, extend)
        }));
        let answers = committed.unwrap_or_else(|_| {
            let problem = "the daemon has an error, which it reported on stderr: look before you repeat the request";
            self.committer.fail(Timestamp::now(), &"a request caused a panic");
            Ok(vec![Answer::failure(Code::Internal, problem); group.jobs.len()])
        });
        self.note_health();
        answers
    }

    fn note_health(&self) {
        let mut shared = self
            .context
            .health
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if *shared != *self.committer.health() {
            shared.clone_from(self.committer.health());
            self.log.warn(self.committer.state());
        }
    }
}

/// Returns the requests of the next group, after one that took these times for each request and for its commit. The
/// clients are those that were answered or waited then, as these send their next requests in a moment.
///
/// While one half of them is performed and committed, the other half's answers are sent, and its requests arrive. That
/// pays unless a commit takes longer than to perform the requests of all: a group of all clients needs half of the syncs.
fn group_limit(clients: usize, performed: Duration, commit: Duration) -> usize {
    let takes_turns = commit < SLOW_COMMIT && commit < performed * clients as u32;
    clients.div_ceil(1 + usize::from(takes_turns))
}

struct Reading {
    reader: Reader,
    context: Context,
    outcomes: Outcomes,
}

impl Reading {
    fn run(self, received: &Receiver<(u64, ReadWork)>) {
        while let Ok((connection, work)) = received.recv() {
            let result = match work {
                ReadWork::Parse(line) => {
                    let task = self
                        .context
                        .identity
                        .understand(&line, &self.context.counts);
                    WorkResult::Parsed(Box::new(task), line.len())
                }
                ReadWork::Read(read) => {
                    let (header, read) = *read;
                    let answer = self.read(&header, &read);
                    self.context.counts.answered(&answer);
                    WorkResult::Answered(answer.line(header.request_id.as_ref()))
                }
            };
            let _ = self.outcomes.send(Ok(vec![Outcome { connection, result }]));
        }
    }

    fn read(&self, header: &Header, read: &Read) -> Answer {
        if header.is_expired(unix_ms(Timestamp::now())) {
            return expired();
        }
        let is_compatible = self.context.identity.is_compatible;
        let answered = catch_unwind(AssertUnwindSafe(|| {
            issue_rpc::read(&self.reader, read, is_compatible)
        }));
        answered.unwrap_or_else(|_| {
            Answer::failure(
                Code::Internal,
                "the daemon has an error, which it reported on stderr",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use issue_rpc::{Write, WriteRequest};
    use test_kit::wait_until;
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    #[test]
    fn a_group_waits_for_as_many_requests_as_there_are_clients_until_a_time_or_the_end() {
        let (workers, pending) = Workers::without_threads(10);
        let later = Instant::now() + Duration::from_secs(600);
        let mut group = Group::default();
        thread::scope(|scope| {
            scope.spawn(|| {
                for connection in 0..2 {
                    let is_taken = || workers.writes.lock().queue.is_empty();
                    wait_until("the request before is taken", is_taken);
                    let request = WriteRequest {
                        header: Header::default(),
                        write: Write::Reopen(String::new()),
                    };
                    let bytes = 10;
                    let job = Job {
                        connection,
                        bytes,
                        request,
                    };
                    workers.write(job).unwrap();
                }
            });
            while group.jobs.len() < 2 {
                assert!(pending.writes.extend(&mut group, 2, later));
            }
        });
        assert!(!pending.writes.extend(&mut group, 2, later), "they are all");
        let now = Instant::now();
        assert!(!pending.writes.extend(&mut group, 3, now), "it is time");
        pending.writes.lock().is_closed = true;
        assert!(
            !pending.writes.extend(&mut group, 3, later),
            "it is the end"
        );
    }

    #[test]
    fn halves_of_the_clients_take_turns_if_a_commit_is_shorter_than_their_requests() {
        let limit = |clients, commit_us| {
            let performed = Duration::from_micros(10);
            group_limit(clients, performed, Duration::from_micros(commit_us))
        };
        assert_eq!((limit(64, 400), limit(65, 400), limit(1, 5)), (32, 33, 1));
        assert_eq!((limit(8, 200), limit(64, 640)), (8, 64));
        assert_eq!(limit(500, 1_000), 500, "the disk is slow");
    }

    #[test]
    fn the_panic_of_a_thread_is_an_outcome() {
        let (sender, mut outcomes) = unbounded_channel();
        spawn("writer", &sender, || panic!("on purpose"))
            .unwrap()
            .join()
            .unwrap();
        let error = outcomes.try_recv().unwrap().unwrap_err();
        assert!(error.to_string().contains("the thread writer has panicked"));
    }
}
