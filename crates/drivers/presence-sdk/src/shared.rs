//! State that handles share with the task of their client.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tokio::sync::oneshot;

use crate::error::Error;
use crate::event_log::EventLog;
use crate::room_view::RoomView;

/// The answer to a heartbeat or an update of the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Heartbeat {
    /// True if the state changed, so that the members of the room got an event.
    pub changed: bool,
    /// The epoch of the member.
    pub epoch: u64,
    /// True while the server knows only the members of its own node.
    pub is_degraded: bool,
}

/// Takes the outcome of a call. The caller may have dropped the other end.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// A call that a handle passes to the task.
#[derive(Debug)]
pub(crate) enum Command {
    Join(Box<JoinCommand>),
    Heartbeat {
        generation: u64,
        patch: Option<Box<str>>,
        reply: Reply<Heartbeat>,
    },
    Leave {
        generation: u64,
        reply: Option<Reply<()>>,
    },
    Reconnect,
    Close(Option<Reply<()>>),
}

/// A join, boxed because it is rare.
#[derive(Debug)]
pub(crate) struct JoinCommand {
    pub(crate) generation: u64,
    pub(crate) room: Box<str>,
    pub(crate) user: Box<str>,
    pub(crate) state: String,
    pub(crate) reply: Reply<()>,
}

/// The state of the connection, as handles see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Connected,
    Reconnecting,
    Closed,
}

/// State behind a lock that is never held across a wait.
#[derive(Debug)]
pub(crate) struct Shared {
    inner: Mutex<Inner>,
    queue_capacity: usize,
}

/// The shared state itself.
#[derive(Debug)]
pub(crate) struct Inner {
    // A channel of tokio would hold a block of 32 commands per client, several kilobytes.
    commands: VecDeque<Command>,
    task: Option<Waker>,
    generations: u64,
    pub(crate) status: Status,
    pub(crate) view: Option<Box<RoomView>>,
    pub(crate) log: EventLog,
}

impl Shared {
    pub(crate) fn new(event_capacity: usize, queue_capacity: usize) -> Self {
        Self {
            inner: Mutex::new(Inner {
                commands: VecDeque::new(),
                task: None,
                generations: 0,
                status: Status::Connected,
                view: None,
                log: EventLog::new(event_capacity),
            }),
            queue_capacity,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a number for a new membership.
    pub(crate) fn next_generation(&self) -> u64 {
        let mut inner = self.lock();
        inner.generations += 1;
        inner.generations
    }

    /// Passes a call to the task.
    pub(crate) fn push(&self, command: Command) -> Result<(), Error> {
        let mut inner = self.lock();
        if inner.status == Status::Closed {
            return Err(Error::Closed);
        }
        // Joins, leaves and closes are few, and must not be lost.
        let is_bounded = matches!(command, Command::Heartbeat { .. });
        if is_bounded && inner.commands.len() >= self.queue_capacity {
            return Err(Error::QueueFull {
                limit: self.queue_capacity,
            });
        }
        inner.commands.push_back(command);
        if inner.commands.len() == 1
            && let Some(task) = &inner.task
        {
            task.wake_by_ref();
        }
        Ok(())
    }

    /// Moves the calls to `commands`, and wakes the task when there are more.
    pub(crate) fn take_commands(&self, commands: &mut VecDeque<Command>, waker: &Waker) {
        let mut inner = self.lock();
        match &mut inner.task {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        std::mem::swap(&mut inner.commands, commands);
    }

    /// Ends everything: further calls fail, and streams end.
    pub(crate) fn close(&self) {
        let commands = {
            let mut inner = self.lock();
            inner.status = Status::Closed;
            inner.task = None;
            if let Some(view) = &mut inner.view {
                view.suspend(true);
            }
            inner.log.close();
            std::mem::take(&mut inner.commands)
        };
        // Their callers get `Error::Closed`.
        drop(commands);
    }
}
