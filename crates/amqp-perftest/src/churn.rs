//! Churn: clients that repeatedly open and close connections or channels, declare and delete queues, or bind and
//! unbind.
//!
//! Each client is a thread that waits for every answer, as applications do. The worker hands out the starts that are
//! due and records their results. Its own loop takes some microseconds; round trips take 50 and more.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use amq_protocol::protocol::{AMQPClass, channel as channels, queue};
use amq_protocol::types::FieldTable;
use load::clock;
use load::driver::Worker;
use load::pacer::{Pacer, Start, Tick};
use load::recorder::MISSED;
use load::schedule::Share;

use crate::outcome::{self, count};
use crate::run::Run;
use crate::series::{CHURN, OPEN};
use crate::settings::{Churn, Settings};
use crate::topology::{self, CHANNEL, Leftovers};
use amqp_client::{Broker, Session, SessionError};

/// Exchange to bind to if the plan names none: the default exchange takes no bindings (AMQP 0-9-1, 3.1.3.1).
const EXCHANGE: &str = "amq.direct";
/// Time that clients may take to close their connections at the end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A client with a connection of its own, unless connections are what it opens and closes.
#[derive(Debug)]
pub(crate) struct Client {
    broker: Broker,
    settings: Settings,
    of: Churn,
    number: u64,
    session: Option<Session>,
}

/// A message from a client thread to its worker.
#[derive(Debug, Clone, Copy)]
enum ClientEvent {
    /// An operation ended. Holds its start, the time at which it was begun, and either the times of its first and
    /// second half or the kind of its failure.
    Ended(Start, u64, Result<(u64, u64), &'static str>),
    /// The client of this operation can take another.
    Free(Start),
}

impl Client {
    pub(crate) fn new(broker: &Broker, settings: &Settings, of: Churn, number: u64) -> Self {
        Self {
            broker: broker.clone(),
            settings: settings.clone(),
            of,
            number,
            session: None,
        }
    }

    /// Performs one operation and its opposite. Returns when the first of the two was done.
    pub(crate) fn once(&mut self) -> Result<u64, SessionError> {
        let Self {
            broker,
            settings,
            of,
            number,
            session: kept,
        } = self;
        // The session is kept for the next operation only if this one succeeds.
        let mut session = match kept.take() {
            Some(session) => session,
            None => open(broker, settings, *of)?,
        };
        let opened;
        match of {
            Churn::Connection => {
                opened = clock::now();
                return session.end().map(|()| opened);
            }
            Churn::Channel => {
                session.open_channel(CHANNEL)?;
                opened = clock::now();
                close_channel(&mut session)?;
            }
            Churn::Queue => {
                let name = format!("{}-{number}", settings.queue);
                topology::declare_queue(&mut session, settings, &name, Leftovers::Keep)?;
                opened = clock::now();
                session.delete_queue(CHANNEL, &name)?;
            }
            Churn::Binding => {
                let exchange = match settings.exchange.as_str() {
                    "" => EXCHANGE,
                    named => named,
                };
                let (queue, key) = (settings.queue_of(*number), format!("churn-{number}"));
                bind(&mut session, &queue, exchange, &key)?;
                opened = clock::now();
                unbind(&mut session, &queue, exchange, &key)?;
            }
        }
        *kept = Some(session);
        Ok(opened)
    }

    fn serve(mut self, starts: &Mutex<Receiver<Start>>, sender: &Sender<ClientEvent>) {
        loop {
            let start = starts.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(start) = start else { break };
            let begun = clock::now();
            let done = self.once().map(|opened| (opened, clock::now()));
            let done = done.map_err(|error| match (outcome::exhausted(&error), error.code()) {
                (Some(kind), _) => kind,
                (None, Some(_)) => outcome::REFUSED,
                (None, None) => outcome::CONNECTION_LOST,
            });
            let failed = done.is_err();
            // No receiver means that the run is over.
            let _ = sender.send(ClientEvent::Ended(start, begun, done));
            if failed {
                std::thread::sleep(self.settings.reconnect_after);
            }
            let _ = sender.send(ClientEvent::Free(start));
        }
        if let Some(session) = self.session {
            session.close();
        }
    }
}

/// Opens a connection, with a channel if the operation needs one.
fn open(broker: &Broker, settings: &Settings, of: Churn) -> Result<Session, SessionError> {
    let mut session = Session::open(broker, settings.heartbeat)?;
    if matches!(of, Churn::Queue | Churn::Binding) {
        session.open_channel(CHANNEL)?;
    }
    Ok(session)
}

fn close_channel(session: &mut Session) -> Result<(), SessionError> {
    let close = channels::Close {
        reply_code: 200,
        reply_text: "done".into(),
        class_id: 0,
        method_id: 0,
    };
    let close = AMQPClass::Channel(channels::AMQPMethod::Close(close));
    session.call(CHANNEL, close).map(drop)
}

fn bind(session: &mut Session, queue: &str, exchange: &str, key: &str) -> Result<(), SessionError> {
    let bind = queue::Bind {
        queue: queue.into(),
        exchange: exchange.into(),
        routing_key: key.into(),
        nowait: false,
        arguments: FieldTable::default(),
    };
    let bind = AMQPClass::Queue(queue::AMQPMethod::Bind(bind));
    session.call(CHANNEL, bind).map(drop)
}

fn unbind(
    session: &mut Session,
    queue: &str,
    exchange: &str,
    key: &str,
) -> Result<(), SessionError> {
    let unbind = queue::Unbind {
        queue: queue.into(),
        exchange: exchange.into(),
        routing_key: key.into(),
        arguments: FieldTable::default(),
    };
    let unbind = AMQPClass::Queue(queue::AMQPMethod::Unbind(unbind));
    session.call(CHANNEL, unbind).map(drop)
}

/// The clients of one worker.
struct ClientThreads {
    starts: Sender<Start>,
    events: Receiver<ClientEvent>,
    free: u64,
}

impl ClientThreads {
    fn start(run: &Run, of: Churn, share: Share) -> std::io::Result<Self> {
        let (starts, taken) = channel();
        let (sender, events) = channel();
        let taken = Arc::new(Mutex::new(taken));
        let mut free = 0;
        for number in (share.index..run.layout.producers).step_by(share.of as usize) {
            let client = Client::new(run.nodes.node(number, 0), &run.plan.driver, of, number);
            let (taken, sender) = (Arc::clone(&taken), sender.clone());
            std::thread::Builder::new()
                .name(format!("client-{number}"))
                .spawn(move || client.serve(&taken, &sender))?;
            free += 1;
        }
        Ok(Self {
            starts,
            events,
            free,
        })
    }

    /// Waits until every client has closed its connection.
    fn join(self) {
        drop(self.starts);
        let deadline = clock::now() + CLOSE_TIMEOUT.as_nanos() as u64;
        loop {
            let left = Duration::from_nanos(deadline.saturating_sub(clock::now()));
            if self.events.recv_timeout(left).is_err() {
                return;
            }
        }
    }
}

/// The loop state of one worker: its clients and its open operations.
struct LoopState {
    worker: Worker,
    threads: ClientThreads,
    /// Starts that are due while no client is free.
    waiting: VecDeque<Start>,
    /// Busy clients, and measured operations that have not ended.
    busy: u64,
    open: u64,
}

/// Gives a worker's share of the clients their starts until no start is left.
pub(crate) fn work(run: &Run, of: Churn, mut worker: Worker) -> anyhow::Result<()> {
    let share = Share {
        index: worker.share.index,
        of: worker.share.of.min(run.layout.producers),
    };
    if share.index >= share.of {
        return Ok(());
    }
    let schedules = run.plan.schedules(share);
    worker.pacer = Pacer::new(worker.phases.origin, worker.phases.end, schedules);
    let mut state = LoopState {
        threads: ClientThreads::start(run, of, share)?,
        worker,
        waiting: VecDeque::new(),
        busy: 0,
        open: 0,
    };
    while state.once()? {}
    state.end();
    Ok(())
}

impl LoopState {
    /// Hands out due starts and waits for events of clients. Returns false once nothing is left to do.
    fn once(&mut self) -> anyhow::Result<bool> {
        let now = clock::now();
        if self.worker.stop.deadline().is_some() {
            self.worker.pacer.stop_at(now);
        }
        let due = self.take_due(now);
        let Worker {
            phases,
            pacer,
            stop,
            ..
        } = &self.worker;
        let deadline = phases.deadline(pacer, stop);
        self.hand_out();
        let over = now >= self.worker.pacer.starts_until();
        let idle = self.busy == 0 && (over || self.waiting.is_empty());
        if now >= deadline || (idle && self.worker.pacer.over(now)) {
            return Ok(false);
        }
        let until = due.min(self.worker.record.tick(now)).min(deadline);
        let until = self.worker.record.wait_until(until, now);
        match self
            .threads
            .events
            .recv_timeout(Duration::from_nanos(until.saturating_sub(now)))
        {
            Ok(event) => self.on_event(event),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => anyhow::bail!("the client threads have ended"),
        }
        Ok(true)
    }

    /// Takes starts from the schedule. Returns when the next one is due.
    fn take_due(&mut self, now: u64) -> u64 {
        loop {
            match self.worker.pacer.poll(now) {
                Tick::Ready(start) => {
                    if let Some(late) = start.lag.filter(|_| self.worker.phases.counts(start.at)) {
                        self.worker.record.lag(late);
                    }
                    self.waiting.push_back(start);
                }
                Tick::Wait(due) => return due,
                Tick::Over => return u64::MAX,
            }
        }
    }

    fn hand_out(&mut self) {
        while self.threads.free > 0 && clock::now() < self.worker.pacer.starts_until() {
            let Some(start) = self.waiting.pop_front() else {
                return;
            };
            // A client always receives it: no client ends before its worker.
            let _ = self.threads.starts.send(start);
            self.threads.free -= 1;
            self.busy += 1;
            if self.worker.phases.counts(start.at) {
                self.open += 1;
                self.worker.record.begin();
            }
        }
    }

    fn on_event(&mut self, event: ClientEvent) {
        match event {
            ClientEvent::Ended(start, begun, done) => self.ended(start, begun, done),
            ClientEvent::Free(start) => {
                self.threads.free += 1;
                self.busy -= 1;
                let next = self.worker.pacer.again(start, clock::now());
                self.waiting.extend(next);
            }
        }
    }

    fn ended(&mut self, start: Start, begun: u64, done: Result<(u64, u64), &'static str>) {
        let record = &self.worker.record;
        if !self.worker.phases.counts(start.at) {
            match done {
                Ok(_) => {
                    record.count_of_warmup(count::CHURNED, 1);
                    record.ok_of_warmup(1);
                }
                Err(_) => record.error_of_warmup(),
            }
            return record.count(count::WARMUP, 1);
        }
        self.open -= 1;
        match done {
            Ok((opened, ended)) => {
                record.value(CHURN, ended.saturating_sub(start.at));
                record.value(OPEN, opened.saturating_sub(begun));
                record.count(count::CHURNED, 1);
                record.ok();
            }
            Err(kind) => record.error(kind),
        }
    }

    fn end(mut self) {
        let missed = self.waiting.len() as u64 + self.worker.pacer.missed(u64::MAX);
        if missed > 0 {
            self.worker.record.count(MISSED, missed);
        }
        self.worker.record.unfinished_many(self.open);
        self.threads.join();
    }
}
