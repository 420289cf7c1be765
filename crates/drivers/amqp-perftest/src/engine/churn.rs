//! Churn: clients that repeatedly open and close connections or channels, declare and delete queues, or bind and
//! unbind.
//!
//! Each client is a thread that waits for every answer, as applications do. The worker's loop hands out the starts that
//! are due, and one future records their results. That takes some microseconds; round trips take 50 and more.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use amq_protocol::protocol::{AMQPClass, channel as channels, queue};
use amq_protocol::types::FieldTable;
use anyhow::Context as _;
use futures_util::StreamExt as _;
use load::clock;
use load::driver::Worker;
use load::event_loop::{self, AsyncHandler, LoopState, Options};
use load::pacer::{Pacer, Start};
use load::schedule::Share;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::outcome::{self, count};
use crate::settings::Churn;
use crate::shared::Shared;
use crate::spec::{CHURN, OPEN};
use crate::topology::{self, CHANNEL, Leftovers};
use amqp_client::{Session, SessionError};

/// Exchange to bind to if the plan names none: the default exchange takes no bindings (AMQP 0-9-1, 3.1.3.1).
const EXCHANGE: &str = "amq.direct";
/// Time that clients may take to close their connections at the end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A client with a connection of its own, unless connections are what it opens and closes.
#[derive(Debug)]
pub(crate) struct ChurnClient {
    run: Arc<Shared>,
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

impl ChurnClient {
    pub(crate) fn new(run: Arc<Shared>, of: Churn, number: u64) -> Self {
        Self {
            run,
            of,
            number,
            session: None,
        }
    }

    /// Performs one operation and its opposite. Returns when the first of the two was done.
    pub(crate) fn once(&mut self) -> Result<u64, SessionError> {
        let (number, settings) = (self.number, &self.run.plan.driver);
        // The session is kept for the next operation only if this one succeeds.
        let mut session = match self.session.take() {
            Some(session) => session,
            None => self.open()?,
        };
        let opened;
        match self.of {
            Churn::Connection => {
                opened = clock::now();
                return session.end().map(|()| opened);
            }
            Churn::Channel => {
                session.open_channel(CHANNEL)?;
                opened = clock::now();
                session.call(CHANNEL, close_channel())?;
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
                let (queue, key) = (settings.queue_of(number), format!("churn-{number}"));
                session.bind_queue(CHANNEL, bind(&queue, exchange, &key))?;
                opened = clock::now();
                session.call(CHANNEL, unbind(&queue, exchange, &key))?;
            }
        }
        self.session = Some(session);
        Ok(opened)
    }

    /// Opens a connection, with a channel if the operation needs one.
    fn open(&self) -> Result<Session, SessionError> {
        let node = self.run.nodes.node(self.number, 0);
        let mut session = Session::open(node, self.run.plan.driver.heartbeat)?;
        if matches!(self.of, Churn::Queue | Churn::Binding) {
            session.open_channel(CHANNEL)?;
        }
        Ok(session)
    }

    fn serve(mut self, starts: &Mutex<Receiver<Start>>, sender: &UnboundedSender<ClientEvent>) {
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
                std::thread::sleep(self.run.plan.driver.reconnect_after);
            }
            let _ = sender.send(ClientEvent::Free(start));
        }
        if let Some(session) = self.session {
            session.close();
        }
    }
}

fn close_channel() -> AMQPClass {
    AMQPClass::Channel(channels::AMQPMethod::Close(channels::Close {
        reply_code: 200,
        reply_text: "done".into(),
        class_id: 0,
        method_id: 0,
    }))
}

fn bind(queue: &str, exchange: &str, key: &str) -> queue::Bind {
    queue::Bind {
        queue: queue.into(),
        exchange: exchange.into(),
        routing_key: key.into(),
        nowait: false,
        arguments: FieldTable::default(),
    }
}

fn unbind(queue: &str, exchange: &str, key: &str) -> AMQPClass {
    AMQPClass::Queue(queue::AMQPMethod::Unbind(queue::Unbind {
        queue: queue.into(),
        exchange: exchange.into(),
        routing_key: key.into(),
        arguments: FieldTable::default(),
    }))
}

/// The clients of one worker, and their operations.
struct ChurnClients {
    /// Dropped at the end of the run. Clients then close their connections.
    starts: Option<Sender<Start>>,
    /// Clients that can take a start, and clients that have one.
    free: u64,
    busy: u64,
    /// Starts that are due while no client is free.
    waiting: VecDeque<Start>,
    /// Measured operations that have not ended.
    open: u64,
}

struct Handler(RefCell<ChurnClients>);

/// Gives a worker's share of the clients their starts until no start is left.
pub(crate) async fn work(run: &Arc<Shared>, mut worker: Worker) -> anyhow::Result<()> {
    let of = run.plan.driver.churn.context("no connection was opened")?;
    let index = run.layout.worker(worker.share);
    let Some(share) = run.layout.churn_share(index) else {
        return Ok(());
    };
    let schedules = run.plan.schedules(share);
    worker.pacer = Pacer::new(worker.phases.origin, worker.phases.end, schedules);
    let (clients, mut events) = ChurnClients::start(run, of, share)?;
    let handler = Handler(RefCell::new(clients));
    let options = Options {
        // An operation begins once a client takes it.
        begins_at_start: false,
        ..Options::default()
    };
    let shared = RefCell::new(LoopState::new(worker, options));
    let receive = async {
        while let Some(event) = events.recv().await {
            let shared = &mut *shared.borrow_mut();
            handler.0.borrow_mut().on_event(event, shared);
            // A free client takes the next start at once.
            shared.wake();
        }
    };
    let mut receive = Some(receive);
    let mut receiving = event_loop::run_async(&handler, &shared, || receive.take()).await?;
    // A broker that does not answer is abandoned.
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, receiving.next()).await;
    Ok(())
}

impl AsyncHandler for Handler {
    type Timer = ();

    fn start(&self, start: Start, _shared: &mut LoopState<()>) {
        self.0.borrow_mut().waiting.push_back(start);
    }

    fn turn(&self, shared: &mut LoopState<()>) -> anyhow::Result<u64> {
        self.0.borrow_mut().hand_out(shared);
        Ok(u64::MAX)
    }

    fn is_idle(&self, shared: &LoopState<()>) -> bool {
        let clients = self.0.borrow();
        let over = shared.now >= shared.pacer.starts_until();
        clients.busy == 0 && (over || clients.waiting.is_empty())
    }

    fn give_up(&self, shared: &mut LoopState<()>) -> anyhow::Result<()> {
        let mut clients = self.0.borrow_mut();
        clients.starts = None;
        shared.count_missed(clients.waiting.len() as u64);
        shared.record.unfinished_many(clients.open);
        Ok(())
    }
}

impl ChurnClients {
    fn start(
        run: &Arc<Shared>,
        of: Churn,
        share: Share,
    ) -> std::io::Result<(Self, UnboundedReceiver<ClientEvent>)> {
        let (starts, taken) = channel();
        let (sender, events) = unbounded_channel();
        let taken = Arc::new(Mutex::new(taken));
        let mut free = 0;
        for number in (share.index..run.layout.producers).step_by(share.of as usize) {
            let client = ChurnClient::new(Arc::clone(run), of, number);
            let (taken, sender) = (Arc::clone(&taken), sender.clone());
            std::thread::Builder::new()
                .name(format!("client-{number}"))
                .spawn(move || client.serve(&taken, &sender))?;
            free += 1;
        }
        let clients = Self {
            starts: Some(starts),
            free,
            busy: 0,
            waiting: VecDeque::new(),
            open: 0,
        };
        Ok((clients, events))
    }

    fn hand_out(&mut self, shared: &LoopState<()>) {
        while self.free > 0 && clock::now() < shared.pacer.starts_until() {
            let (Some(start), Some(starts)) = (self.waiting.pop_front(), &self.starts) else {
                return;
            };
            if shared.sheds(start.at, clock::now()) {
                continue;
            }
            // A client always receives it: no client ends before its worker.
            let _ = starts.send(start);
            self.free -= 1;
            self.busy += 1;
            if shared.phases.counts(start.at) {
                self.open += 1;
                shared.record.begin();
            }
        }
    }

    fn on_event(&mut self, event: ClientEvent, shared: &mut LoopState<()>) {
        if self.starts.is_none() {
            // It was given up.
            return;
        }
        match event {
            ClientEvent::Ended(start, begun, done) => self.ended(start, begun, done, shared),
            ClientEvent::Free(start) => {
                self.free += 1;
                self.busy -= 1;
                let next = shared.next_of_client(start, clock::now());
                self.waiting.extend(next);
            }
        }
    }

    fn ended(
        &mut self,
        start: Start,
        begun: u64,
        done: Result<(u64, u64), &'static str>,
        shared: &LoopState<()>,
    ) {
        let record = &shared.record;
        let is_counted = shared.phases.counts(start.at);
        self.open -= u64::from(is_counted);
        record.add(count::WARMUP, u64::from(!is_counted));
        match done {
            Ok((opened, ended)) => {
                record.count_of(is_counted, count::CHURNED, 1);
                let times = [
                    (CHURN, ended.saturating_sub(start.at)),
                    (OPEN, opened.saturating_sub(begun)),
                ];
                record.ok_with(is_counted, times);
            }
            Err(kind) if is_counted => record.error(kind),
            Err(kind) => record.error_of_warmup(kind),
        }
    }
}
