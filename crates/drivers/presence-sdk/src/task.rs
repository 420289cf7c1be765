//! The task of a client: moves bytes between the connection and the session.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::event::DisconnectCause;
use crate::options::Options;
use crate::session::Session;
use crate::shared::{Command, Shared};
use crate::wire::Wire;

/// The time in which the last frames of a closed client must be sent.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The task of a client.
#[derive(Debug)]
pub(crate) struct Task {
    session: Session,
    /// The open connection. A field, so that the future of the task does not have a copy for each of its steps.
    wire: Option<Wire>,
    options: Arc<Options>,
    shared: Arc<Shared>,
    endpoint: Box<Endpoint>,
    /// One timer for everything. It may fire early, never late.
    timer: Pin<Box<Sleep>>,
    commands: VecDeque<Command>,
}

/// The reason for which a connection is no longer served.
enum End {
    Closing,
    Broken(DisconnectCause),
}

impl Task {
    pub(crate) fn new(
        wire: Wire,
        endpoint: Endpoint,
        options: Arc<Options>,
        shared: Arc<Shared>,
    ) -> Self {
        Self {
            wire: Some(wire),
            session: Session::new(Arc::clone(&options), Arc::clone(&shared)),
            options,
            shared,
            endpoint: Box::new(endpoint),
            timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
            commands: VecDeque::new(),
        }
    }

    /// Serves the client until it is closed, or until its attempts to reconnect are used up.
    pub(crate) async fn run(mut self: Box<Self>) {
        let mut attempts = 0;
        let mut is_first = true;
        while let Some(ping_within) = self.wire.as_ref().map(|wire| wire.ping_within) {
            let opened = Instant::now();
            self.session.on_connected(ping_within, is_first, opened);
            is_first = false;
            let is_at_once;
            match std::future::poll_fn(|cx| self.poll_serve(cx)).await {
                End::Closing => return Box::pin(self.close()).await,
                End::Broken(cause) => {
                    self.wire = None;
                    is_at_once = cause == DisconnectCause::Requested;
                    self.session.on_disconnected(cause);
                }
            }
            if opened.elapsed() > self.options.reconnect.max {
                attempts = 0;
            }
            // Boxed: the handshake needs kilobytes, for a short time.
            self.wire = Box::pin(self.reconnect(&mut attempts, is_at_once)).await;
        }
    }

    async fn close(&mut self) {
        if let Some(wire) = &mut self.wire {
            let closed = wire.close(&mut self.session.frames);
            // A peer that reads nothing must not keep the client open.
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, closed).await;
        }
        self.confirm_close();
    }

    fn confirm_close(&mut self) {
        // Before the answer: a caller that is told so must find the client closed.
        self.shared.close();
        if let Some(reply) = self.session.take_closing() {
            let _ = reply.send(Ok(()));
        }
    }

    /// Tries to open a connection until it succeeds, for the first time at once or after a delay. Returns `None` if the
    /// client is to end.
    async fn reconnect(&mut self, attempts: &mut u32, mut is_at_once: bool) -> Option<Wire> {
        loop {
            let limit = self.options.reconnect.attempts;
            if self.session.is_closing() || limit.is_some_and(|limit| *attempts >= limit) {
                self.confirm_close();
                return None;
            }
            let delay = if std::mem::take(&mut is_at_once) {
                Duration::ZERO
            } else {
                self.options.reconnect.delay(*attempts)
            };
            *attempts = attempts.saturating_add(1);
            let (endpoint, options) = (self.endpoint.clone(), Arc::clone(&self.options));
            let mut attempt = Box::pin(async move {
                tokio::time::sleep(delay).await;
                Wire::open(&endpoint, &options).await
            });
            let outcome =
                std::future::poll_fn(|cx| self.poll_disconnected(attempt.as_mut(), cx)).await;
            match outcome? {
                Ok(wire) => return Some(wire),
                Err(error) => self.session.on_reconnect_failed(*attempts, error),
            }
        }
    }

    /// Serves calls while an attempt to connect runs. Returns `None` once the client was asked to close.
    fn poll_disconnected(
        &mut self,
        attempt: Pin<&mut impl Future<Output = Result<Wire, Error>>>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Wire, Error>>> {
        let now = Instant::now();
        self.take_commands(now, cx);
        if self.session.is_closing() {
            self.confirm_close();
            return Poll::Ready(None);
        }
        if let Poll::Ready(outcome) = attempt.poll(cx) {
            return Poll::Ready(Some(outcome));
        }
        // Without a connection, nothing that is due can break it.
        while self.poll_timer(now, cx) {
            let _ = self.session.on_time(Instant::now());
        }
        Poll::Pending
    }

    /// Serves a connection until it ends.
    fn poll_serve(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        let now = Instant::now();
        self.take_commands(now, cx);
        if self.session.take_reconnect() && !self.session.is_closing() {
            return Poll::Ready(End::Broken(DisconnectCause::Requested));
        }
        match self.poll_io(now, cx) {
            Err(cause) => Poll::Ready(End::Broken(cause)),
            Ok(()) if self.session.is_closing() => Poll::Ready(End::Closing),
            Ok(()) => Poll::Pending,
        }
    }

    fn poll_io(&mut self, now: Instant, cx: &mut Context<'_>) -> Result<(), DisconnectCause> {
        let wire = self.wire.as_mut().expect("the connection is open");
        while let Poll::Ready(text) = wire.poll_text(cx) {
            self.session.on_text(text?.as_ref(), now)?;
        }
        while self.poll_timer(now, cx) {
            self.session.on_time(Instant::now())?;
        }
        let wire = self.wire.as_mut().expect("the connection is open");
        if let Poll::Ready(sent) = wire.poll_send(&mut self.session.frames, cx) {
            sent?;
        }
        Ok(())
    }

    fn take_commands(&mut self, now: Instant, cx: &Context<'_>) {
        self.shared.take_commands(&mut self.commands, cx.waker());
        while let Some(command) = self.commands.pop_front() {
            self.session.on_command(command, now);
        }
    }

    /// Arms the timer. Returns true if something is due.
    fn poll_timer(&mut self, now: Instant, cx: &mut Context<'_>) -> bool {
        let Some(due) = self.session.next_due() else {
            return false;
        };
        if due <= now {
            return true;
        }
        // A timer that fires early is cheaper than one that is moved with each request.
        if self.timer.is_elapsed() || self.timer.deadline() > due {
            self.timer.as_mut().reset(due);
        }
        if self.timer.as_mut().poll(cx).is_pending() {
            return false;
        }
        // It fired: look again with the time of now.
        self.poll_timer(Instant::now(), cx)
    }
}

impl Drop for Task {
    /// Fails the calls that wait, also when the runtime ends first.
    fn drop(&mut self) {
        self.shared.close();
    }
}
