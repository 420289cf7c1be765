//! A daemon without threads, sockets and clock, with its clients and its disk.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use issue_daemon::{Committer, DatabaseFiles, Group, Health, Job, Queue, Session, Step, Task};
use issue_rpc::{Answer, Code, Header, Operation, Read, Request, WriteRequest};
use issue_store::{Options, PageSize, Reader, Store, Timestamp};
use mock_vfs::MockVfs;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};

use crate::simulation::model::Model;

const CLIENTS: usize = 6;
/// So few that the queue is full now and then.
const QUEUED: usize = 8;
/// 2026-01-01, in microseconds.
const START_US: i64 = 1_767_225_600_000_000;

/// Counts of what has happened.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Counts {
    /// Writes that were stored.
    pub(crate) stored: u64,
    /// Writes that were refused: wrong, or the queue was full.
    pub(crate) refused: u64,
    /// Writes whose deadline had passed.
    pub(crate) expired: u64,
    /// Writes that failed with the disk.
    pub(crate) unknown: u64,
    /// Writes that were repeated with their key and had been stored.
    pub(crate) repeated: u64,
    /// Losses of power.
    pub(crate) crashes: u64,
    /// Reads that were compared with the model.
    pub(crate) reads: u64,
    /// Writes that failed, and were there after a loss of power.
    pub(crate) surfaced: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.stored += other.stored;
        self.refused += other.refused;
        self.expired += other.expired;
        self.unknown += other.unknown;
        self.repeated += other.repeated;
        self.crashes += other.crashes;
        self.reads += other.reads;
        self.surfaced += other.surfaced;
    }
}

/// A connection and its client.
#[derive(Default)]
struct Client {
    session: Session,
    /// The ids of requests that are not answered, in their order.
    expected: VecDeque<u64>,
    /// Reads that are under way, in their order.
    reads: VecDeque<(Header, Read)>,
    /// The number of connections before; answers for those are dropped.
    connection: u64,
    /// Requests with a key that may have to be repeated.
    keyed: Vec<Value>,
}

/// The parts that a crash destroys.
struct Running {
    committer: Committer,
    reader: Reader,
    queue: Queue,
    /// The group that the writer has taken, with the connections of its requests.
    taken: Option<Group>,
}

pub(crate) struct World {
    seed: u64,
    random: StdRng,
    disk: MockVfs,
    now: i64,
    running: Option<Running>,
    clients: Vec<Client>,
    model: Model,
    sent: u64,
    is_failing: bool,
    counts: Counts,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut world = Self {
            seed,
            random: StdRng::seed_from_u64(seed),
            disk: MockVfs::new(seed),
            now: START_US,
            running: None,
            clients: (0..CLIENTS).map(|_| Client::default()).collect(),
            model: Model::default(),
            sent: 0,
            is_failing: false,
            counts: Counts::default(),
        };
        world.start();
        world
    }

    /// Runs until this many requests were sent. Panics at the first wrong answer.
    pub(crate) fn run(mut self, operations: u64) -> Counts {
        while self.sent < operations {
            self.step();
        }
        self.crash();
        self.counts
    }

    fn start(&mut self) {
        let options = Options {
            vfs: Some(self.disk.name().to_owned()),
            seed: Some(self.seed ^ self.counts.crashes),
            ..Options::default()
        };
        // On the simulated disk. The committer sees no files of this name.
        let path = Path::new("issues.db");
        let store = Store::open(path, options).unwrap();
        let reader = store.reader().unwrap().with_page_size(PageSize {
            issues: u32::MAX,
            bytes: usize::MAX,
        });
        assert_eq!(reader.check().unwrap(), Vec::<String>::new());
        self.counts.surfaced += self.model.compare_all(&reader);
        self.running = Some(Running {
            committer: Committer::new(store, Arc::new(DatabaseFiles::new(path))).unwrap(),
            reader,
            queue: Queue::new(QUEUED),
            taken: None,
        });
    }

    fn running(&mut self) -> &mut Running {
        self.running.as_mut().expect("it runs between crashes")
    }

    fn step(&mut self) {
        // Time passes, and the clock is set back now and then.
        self.now += match self.random.random_range(0..200) {
            0 => -self.random.random_range(0..5_000_000),
            1 => self.random.random_range(0..2_000_000),
            _ => self.random.random_range(0..500),
        };
        let client = self.random.random_range(0..CLIENTS);
        match self.random.random_range(0..1_000) {
            0..450 => self.send(client),
            450..650 => self.take_group(),
            650..830 => self.commit(),
            830..980 => self.read(client),
            980..988 => self.disconnect(client),
            988..994 => self.disk.fail_syncs(self.random.random_range(1..3)),
            994..996 => self
                .disk
                .limit_room(Some(self.random.random_range(0..40_000))),
            996 if !self.is_failing => {
                self.is_failing = true;
                self.disk.fail_at(self.random.random_range(1..60));
            }
            997 => self.crash(),
            _ => self.disk.limit_room(None),
        }
    }

    /// Sends a request of a client, and begins what can begin.
    fn send(&mut self, number: usize) {
        let request = self.request(number);
        self.sent += 1;
        let line = request.to_string();
        let task = match Request::parse(line.as_bytes()) {
            Err(rejection) => Task::Answered(rejection.answer.line(rejection.request_id.as_ref())),
            Ok(Request { header, operation }) => match operation {
                Operation::Service(service) => Task::Service(header, service),
                Operation::Read(read) => Task::Read(header, read),
                Operation::Write(write) => Task::Write(WriteRequest { header, write }),
            },
        };
        let client = &mut self.clients[number];
        client.expected.push_back(self.sent);
        client.session.push(task, line.len());
        self.advance(number);
    }

    fn request(&mut self, number: usize) -> Value {
        let id = self.sent + 1;
        let random = &mut self.random;
        let mut request = match random.random_range(0..100) {
            0..30 => {
                json!({"operation": "create", "args": {"id": format!("c{number}-{id}"), "title": "t"}})
            }
            30..45 => {
                let own = self.model.any_issue(number, random);
                json!({"operation": "update", "args": {"id": own, "notes": format!("n{id}")}})
            }
            45..70 => {
                // The issue of any client.
                let owner = random.random_range(0..CLIENTS);
                json!({"operation": "show", "args": {"id": self.model.any_issue(owner, random)}})
            }
            70..80 => {
                let mode = ["stop", "atomic", "continue"][random.random_range(0..3)];
                let titles = [["t", "t", "t"], ["t", "", "t"]][random.random_range(0..2)];
                let operations: Vec<Value> = (0..3)
                    .map(|part| {
                        let id = format!("c{number}-{id}-{part}");
                        json!({"operation": "create", "args": {"id": id, "title": titles[part]}})
                    })
                    .collect();
                json!({"operation": "batch", "args": {"mode": mode, "operations": operations}})
            }
            80..88 => {
                let key = format!("k{id}");
                let request =
                    json!({"operation": "create", "args": {"title": key}, "idempotency_key": key});
                self.clients[number].keyed.push(request.clone());
                request
            }
            88..96 => match self.clients[number].keyed.last() {
                Some(request) => request.clone(),
                None => json!({"operation": "ping"}),
            },
            96 => json!({"operation": "ping"}),
            // Its label is refused after its row is stored.
            97 => {
                json!({"operation": "create", "args": {"id": format!("c{number}-{id}"), "title": "t", "labels": [""]}})
            }
            98 => json!({"operation": "dance"}),
            _ => {
                json!({"operation": "create", "args": {"id": format!("c{number}-{id}"), "title": "t", "description": "d".repeat(9_000)}})
            }
        };
        if random.random_bool(0.1) {
            let deadline = self.now / 1_000 + random.random_range(-2..4);
            request["deadline_ms"] = json!(deadline);
        }
        request["request_id"] = json!(id);
        request
    }

    fn advance(&mut self, number: usize) {
        while let Some(step) = self.clients[number].session.next_step() {
            match step {
                Step::Send(line) => self.deliver(number, &line),
                Step::Serve(header, _) => {
                    let line = Answer::success(&1).line(header.request_id.as_ref());
                    self.deliver(number, &line);
                }
                Step::Parse(_) => unreachable!("no line is long"),
                Step::Read(header, read) => self.clients[number].reads.push_back((header, read)),
                Step::Write(request, bytes) => {
                    let id = request.header.request_id.clone();
                    // Connections have numbers of their own, so that late answers can be recognised.
                    let connection =
                        self.clients[number].connection * CLIENTS as u64 + number as u64;
                    let pushed = self.running().queue.push(Job {
                        connection,
                        bytes,
                        request,
                    });
                    if pushed.is_err() {
                        self.counts.refused += 1;
                        let line = Answer::failure(Code::Busy, "full").line(id.as_ref());
                        self.clients[number].session.refused(line);
                    }
                }
            }
        }
    }

    /// Gives an answer to its client, which compares it with the oldest request.
    fn deliver(&mut self, number: usize, line: &str) {
        let answer: Value = serde_json::from_str(line).unwrap();
        let expected = self.clients[number].expected.pop_front();
        assert_eq!(
            answer["request_id"].as_u64(),
            expected,
            "the order of answers is the order of requests"
        );
    }

    fn take_group(&mut self) {
        let running = self.running();
        if running.taken.is_none() && !running.queue.is_empty() {
            running.taken = Some(running.queue.take_group(usize::MAX));
        }
    }

    fn commit(&mut self) {
        let now = Timestamp(self.now);
        let running = self.running.as_mut().expect("it runs between crashes");
        let Some(mut group) = running.taken.take() else {
            return;
        };
        // Requests that arrive before the commit may join the group.
        let (queue, random) = (&mut running.queue, &mut self.random);
        let extend = |group: &mut Group| random.random() && queue.extend(group, QUEUED);
        let answers = running.committer.commit(|| now, &mut group, extend);
        let answers = answers.expect("no other process has a lock");
        assert_eq!(answers.len(), group.jobs.len());
        let is_read_only = *running.committer.health() != Health::Healthy;
        running.committer.maintain(now);
        for (job, answer) in group.jobs.iter().zip(&answers) {
            self.count(answer);
            self.counts.repeated += u64::from(self.model.committed(&job.request, answer));
            assert!(
                !is_read_only || answer.code().is_some(),
                "nothing is acknowledged by a failed commit"
            );
            let clients = CLIENTS as u64;
            let number = (job.connection % clients) as usize;
            if self.clients[number].connection == job.connection / clients {
                self.clients[number].session.answered();
                self.deliver(number, &answer.line(job.request.header.request_id.as_ref()));
                self.advance(number);
            }
        }
        // After a loss of power nothing works until the restart.
        if is_read_only && self.is_failing && self.random.random_bool(0.5) {
            self.crash();
        }
    }

    fn count(&mut self, answer: &Answer) {
        let counts = &mut self.counts;
        *match answer.code() {
            None => &mut counts.stored,
            Some(Code::Timeout) => &mut counts.expired,
            Some(Code::Internal) => &mut counts.unknown,
            Some(_) => &mut counts.refused,
        } += 1;
    }

    fn read(&mut self, number: usize) {
        let Some((header, read)) = self.clients[number].reads.pop_front() else {
            return;
        };
        let answer = issue_rpc::read(&self.running().reader, &read, false);
        let line = answer.line(header.request_id.as_ref());
        if answer.code() != Some(Code::Internal) {
            self.counts.reads += 1;
            self.model
                .compare(&read, &serde_json::from_str(&line).unwrap());
        }
        self.clients[number].session.answered();
        self.deliver(number, &line);
        self.advance(number);
    }

    /// Loses the connection of a client. What is in the queue is still done.
    fn disconnect(&mut self, number: usize) {
        let client = &mut self.clients[number];
        *client = Client {
            connection: client.connection + 1,
            keyed: std::mem::take(&mut client.keyed),
            ..Client::default()
        };
    }

    fn crash(&mut self) {
        self.counts.crashes += 1;
        // Closes the database before the power comes back.
        self.running = None;
        self.is_failing = false;
        self.disk.crash();
        self.disk.fail_syncs(0);
        self.disk.limit_room(None);
        (0..CLIENTS).for_each(|number| self.disconnect(number));
        self.start();
    }
}
