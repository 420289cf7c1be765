//! Simulated clients and a well-behaved one at one broker, which runs in process or is a program.

use std::io::{Read, Write};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::ask::{Ask, QUEUES, Queue, Settlement};
use super::channel::LONGEST;
use super::ledger::Ledger;
use super::peer::Peer;

/// Clients at the same time. Few, so that they reuse what others have left.
const CLIENTS: usize = 4;
/// Steps of the shortest world. The longest has `DOUBLINGS` times twice as many, and most are short.
const STEPS: usize = 8;
const DOUBLINGS: u32 = 4;

/// The broker of a world.
pub(crate) trait Server {
    type Socket: Read + Write;

    /// The turns in which each client must have been served.
    const TURNS: usize;

    fn connect(&mut self) -> Self::Socket;
    /// Lets the broker do what it can, or waits a little.
    fn turn(&mut self);
    /// Milliseconds pass.
    fn pass(&mut self, milliseconds: u64);
    /// Ends the broker, at once or `gracefully`, and starts it again.
    fn restart(&mut self, gracefully: bool);
    /// Returns the number of connections that the broker knows.
    fn connection_count(&self) -> usize;
    /// Checks what must hold when nobody has anything to do and this many clients wait for answers.
    fn check_idle(&self, waiting: usize) -> Result<(), String>;
}

/// One thing that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    Connect(usize),
    /// A client that is not connected connects first, and sends the whole greeting.
    Send(usize, u16, Ask),
    /// Sends a request but for its last bytes, which precede the next one.
    SendPart(usize, u16, Ask),
    /// Receives all that has arrived.
    Receive(usize),
    Leave(usize),
    Pass(u64),
    Turn,
    /// The broker is ended, at once or gracefully, and started again.
    Restart(bool),
}

/// The habits of the clients of a world.
struct Habits {
    /// Few, so that those who publish and those who consume meet.
    queues: [Queue; 3],
    /// The share of the longest messages, as its denominator. Many of them in a queue make memory short and outputs full.
    long: u32,
    /// The way in which a channel answers publishes.
    select: Ask,
}

/// Returns the steps of a seed, among them a restart of the broker if it `restarts`.
pub(crate) fn draw(seed: u64, restarts: bool) -> Vec<Event> {
    let mut random = StdRng::seed_from_u64(seed);
    let queues = [(); 3].map(|()| QUEUES[random.random_range(0..QUEUES.len())]);
    let (queues, long) = match random.random_range(0..5) {
        0 => ([queues[0]; 3], 1),
        _ => (queues, 50),
    };
    let select = [Ask::SelectConfirms, Ask::SelectTx][random.random_range(0..2)];
    let habits = Habits {
        queues,
        long,
        select,
    };
    let longest = STEPS << random.random_range(0..=DOUBLINGS);
    let length = random.random_range(STEPS..=longest);
    let steps = (0..length).map(|_| draw_event(&mut random, &habits));
    let mut steps: Vec<Event> = steps.collect();
    if restarts {
        let at = random.random_range(0..length);
        steps.insert(at, Event::Restart(random.random_ratio(1, 2)));
    }
    steps
}

fn draw_event(random: &mut StdRng, habits: &Habits) -> Event {
    let client = random.random_range(0..CLIENTS);
    let channel = random.random_range(1..=2);
    match random.random_range(0..100) {
        0..2 => Event::Connect(client),
        2..65 => Event::Send(client, channel, draw_ask(random, habits)),
        65..68 => Event::SendPart(client, channel, draw_ask(random, habits)),
        68..78 => Event::Receive(client),
        78..81 => Event::Leave(client),
        81..83 => Event::Pass([10, 1_001, 6_000, 2_000_000][random.random_range(0..4)]),
        _ => Event::Turn,
    }
}

fn draw_ask(random: &mut StdRng, habits: &Habits) -> Ask {
    let queue = habits.queues[random.random_range(0..habits.queues.len())];
    let length = if random.random_ratio(1, habits.long) {
        LONGEST
    } else {
        [10, 200, 20_000][random.random_range(0..3)]
    };
    // Whoever is not to lose anything acknowledges, and leaves the queue alone.
    let is_kept = queue == Queue::Kept;
    let no_ack = !is_kept && random.random_ratio(1, 3);
    match random.random_range(0..100) {
        0..24 => Ask::Publish(queue, length),
        24..30 => Ask::PublishToAll(length),
        30..42 => Ask::Consume(queue, no_ack),
        42..48 => Ask::Get(queue, no_ack),
        48 if !is_kept => Ask::Delete(queue),
        49 if !is_kept => Ask::Purge(queue),
        50..68 => {
            let how = [
                Settlement::Ack,
                Settlement::Ack,
                Settlement::Requeue,
                Settlement::Reject,
            ];
            Ask::Settle(
                random.random_range(0..100),
                random.random_ratio(1, 3),
                how[random.random_range(0..4)],
            )
        }
        48..50 | 68..76 => Ask::Declare(queue),
        76..80 => Ask::Bind(queue),
        80..84 => habits.select,
        84..88 if habits.select == Ask::SelectTx => {
            [Ask::Commit, Ask::RollBack][random.random_range(0..2)]
        }
        88..91 => Ask::Qos(random.random_range(0..4)),
        91 => Ask::Cancel,
        92 => Ask::Recover,
        93..96 => Ask::Close,
        _ => {
            let rare = [
                Ask::Goodbye,
                Ask::Begin(queue),
                Ask::Heartbeat,
                Ask::Redeclare(queue),
                Ask::SettleUnknown,
                Ask::StrayBody,
                Ask::Greet(random.random_range(0..4)),
            ];
            rare[random.random_range(0..rare.len())]
        }
    }
}

/// The clients of a broker.
pub(crate) struct World<S: Server> {
    server: S,
    ledger: Ledger,
    clients: [Option<Peer<S::Socket>>; CLIENTS],
    /// The client that does nothing wrong, so it must always be served.
    neighbour: Peer<S::Socket>,
    pub(crate) sessions: u64,
}

impl<S: Server> World<S> {
    pub(crate) fn new(mut server: S) -> Result<Self, String> {
        let neighbour = Peer::new(server.connect(), 0);
        let mut world = Self {
            server,
            ledger: Ledger::default(),
            clients: [const { None }; CLIENTS],
            neighbour,
            sessions: 1,
        };
        world.prepare()?;
        Ok(world)
    }

    /// Lets the neighbour declare what the clients share.
    fn prepare(&mut self) -> Result<(), String> {
        self.neighbour.log_in();
        let shared = QUEUES.iter().filter(|queue| **queue != Queue::Own);
        let declare: Vec<Ask> = shared.map(|queue| Ask::Declare(*queue)).collect();
        self.ask_all(&declare)?;
        self.ask_all(&[Ask::Bind(Queue::Kept), Ask::Bind(Queue::Plain)])
    }

    fn restart(&mut self, gracefully: bool) -> Result<(), String> {
        self.server.restart(gracefully);
        if !gracefully {
            // They need not be on disk.
            self.ledger.over.clear();
        }
        for peer in self.clients.iter_mut().flatten() {
            // What was sent before the end counts.
            peer.receive(&mut self.ledger)?;
            peer.is_over = true;
        }
        self.neighbour = Peer::new(self.server.connect(), self.sessions as usize);
        self.sessions += 1;
        self.prepare()
    }

    pub(crate) fn step(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Connect(client) => drop(self.connect(client)),
            Event::Send(client, channel, ask) | Event::SendPart(client, channel, ask) => {
                if let Some(peer) = self.connect(client) {
                    peer.log_in();
                }
                if let Some(peer) = &mut self.clients[client] {
                    peer.ask(channel, ask, &mut self.ledger);
                    peer.write(if matches!(event, Event::Send(..)) {
                        0
                    } else {
                        5
                    });
                }
            }
            Event::Receive(client) => {
                if let Some(peer) = &mut self.clients[client] {
                    peer.receive(&mut self.ledger)?;
                }
            }
            Event::Leave(client) => self.clients[client] = None,
            Event::Restart(gracefully) => self.restart(gracefully)?,
            Event::Pass(milliseconds) => self.server.pass(milliseconds),
            Event::Turn => {
                self.server.turn();
                self.ask_all(&[Ask::Declare(Queue::Kept)])?;
            }
        }
        Ok(())
    }

    /// Connects a client that is not connected.
    fn connect(&mut self, client: usize) -> Option<&mut Peer<S::Socket>> {
        if self.clients[client]
            .as_ref()
            .is_some_and(|peer| !peer.is_over)
        {
            return None;
        }
        let number = self.sessions as usize;
        self.sessions += 1;
        Some(self.clients[client].insert(Peer::new(self.server.connect(), number)))
    }

    /// Lets the neighbour send requests, and waits for their answers.
    fn ask_all(&mut self, asks: &[Ask]) -> Result<(), String> {
        for ask in asks {
            self.neighbour.ask(1, *ask, &mut self.ledger);
        }
        for _ in 0..S::TURNS {
            self.neighbour.write(0);
            self.server.turn();
            self.neighbour.receive(&mut self.ledger)?;
            if self.neighbour.is_over {
                return Err("closed: a client that did nothing wrong".to_owned());
            }
            if self.neighbour.is_answered() {
                return Ok(());
            }
        }
        Err(format!("slow: no answers to {asks:?}"))
    }

    /// Lets all clients read and acknowledge until nothing more comes.
    fn settle(&mut self) -> Result<(), String> {
        let mut idle = 0;
        while idle < 3 {
            idle += 1;
            let clients = self.clients.iter_mut().flatten();
            for peer in clients.filter(|peer| !peer.is_over) {
                if peer.write(0) | peer.receive(&mut self.ledger)? {
                    idle = 0;
                }
                peer.settle_all(&mut self.ledger);
            }
            self.server.turn();
        }
        Ok(())
    }

    /// Lets all clients do what they have begun, then leave.
    pub(crate) fn leave(&mut self) -> Result<(), String> {
        self.settle()?;
        let clients = self.clients.iter_mut().flatten();
        for peer in clients.filter(|peer| !peer.is_over) {
            peer.commit_all(&mut self.ledger);
        }
        self.settle()?;
        self.ask_all(&[Ask::Declare(Queue::Kept)])?;
        let clients = self.clients.iter().flatten();
        let waiting = clients.filter(|peer| !peer.is_answered()).count();
        self.server.check_idle(waiting)?;
        self.clients = [const { None }; CLIENTS];
        for _ in 0..S::TURNS {
            self.server.turn();
            if self.server.connection_count() == 1 {
                return Ok(());
            }
        }
        let count = self.server.connection_count() - 1;
        Err(format!(
            "leak: {count} connections stay after everybody has left"
        ))
    }

    /// Takes what is left of the queue that loses nothing, checks it, and deletes all queues.
    pub(crate) fn end(mut self) -> Result<S, String> {
        while !self.ledger.is_complete {
            self.ask_all(&[Ask::Get(Queue::Kept, true); 8])?;
        }
        self.ledger.check()?;
        self.ask_all(&QUEUES.map(Ask::Delete))?;
        Ok(self.server)
    }
}
