//! The life of one connection.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http_body_util::BodyExt as _;
use hyper::Response;
use hyper::body::Incoming;
use hyper::client::conn::http1::Connection;
use hyper::client::conn::http2;
use hyper_util::rt::TokioIo;
use load::clock;
use load::net::dial::dial;

use super::dial::{ConnectError, Stream, open};
use super::executor::LocalExecutor;
use super::fault;
use super::sender::Sender;
use super::slot::{Elapsed, RequestSlot, SlotGuard};
use super::stream::{CountingStream, IoCounters};
use super::worker::HyperWorker;
use crate::content::Checksum;
use crate::counters::CompletedResponse;
use crate::outcome::{self, count};
use crate::roles::checks::{Captured, ResponseCapture};
use crate::roles::clients::{ConnectionState, EndedConnection, Owner, PendingConnect};
use crate::roles::operation::Operation;
use crate::spec::{BLOCKED, SENDING, TLS};

type Io = TokioIo<CountingStream>;

/// State that the request slots of one connection share.
struct ConnectionTask<'d, 'a> {
    worker: &'d HyperWorker<'a>,
    counters: Rc<IoCounters>,
    /// Its owner, with the last operation that was started on it.
    owner: Cell<Owner>,
    /// True until its client's first request is answered.
    awaiting_first_response: Cell<bool>,
    /// An operation whose redirect was the connection's last response.
    redirected: Cell<Option<Operation>>,
    /// True if an operation failed with it.
    failed: Cell<bool>,
    /// Its share of the worker's unsettled operations.
    unsettled: Cell<i64>,
    /// Operations whose requests the server did not take before it closed the connection.
    not_taken: RefCell<Vec<Operation>>,
    /// True once the connection has answered a request.
    has_answered: Cell<bool>,
}

/// The reason why a request has no response.
enum Unanswered {
    /// The request failed. The connection may still be usable.
    Failed { kind: &'static str, usable: bool },
    /// The server did not take it before it closed the connection, so it can be repeated (RFC 9113 §6.8).
    NotTaken,
}

/// Runs a connection from connecting to its end. If the server closes it without taking some of the requests, they are
/// repeated over another one.
pub(super) async fn serve(worker: &HyperWorker<'_>, mut pending: PendingConnect) {
    let settings = &worker.shared.settings;
    let task = ConnectionTask {
        worker,
        counters: IoCounters::new(worker.record(), settings.phases),
        owner: Cell::new(pending.owner),
        awaiting_first_response: Cell::new(pending.is_first),
        redirected: Cell::new(None),
        failed: Cell::new(false),
        unsettled: Cell::new(0),
        not_taken: RefCell::default(),
        has_answered: Cell::new(false),
    };
    loop {
        let first = SlotGuard::new(&worker.slots);
        let operation = pending.operation;
        let state = match task.open(&first.slot).await {
            Ok(stream) => {
                let io = TokioIo::new(CountingStream::new(stream, &task.counters));
                if settings.http2 {
                    Box::pin(task.serve_many(io, &first.slot, operation)).await
                } else {
                    task.serve_one(io, &first.slot, operation).await
                }
            }
            Err(kind) => {
                task.fail_not_taken(kind);
                return worker.connect_failed(pending, kind);
            }
        };
        drop(first);
        match task.reconnect(state) {
            Some(next) => pending = next,
            None => return task.ended(state),
        }
    }
}

impl ConnectionTask<'_, '_> {
    async fn open(&self, slot: &RequestSlot) -> Result<Stream, &'static str> {
        let shared = self.worker.shared;
        let settings = &shared.settings;
        let index = self.owner.get().index;
        let server = &shared.servers[shared.server_of(index)];
        let began = clock::now();
        slot.set_deadline(began + settings.connect_timeout.as_nanos() as u64);
        let tls = self.worker.prepared(index).tls.as_ref();
        let socket = dial(&server.peer, &mut self.worker.sources.borrow_mut());
        let opened = open(tls, settings.http2, socket, began);
        match slot.with_deadline(Box::pin(opened)).await {
            Ok(Ok((stream, times))) => {
                let (mut clients, mut state) = self.worker.borrow();
                clients.opened(times.connecting_ns, &mut state);
                if let Some(ns) = times.tls_ns {
                    state.record.value(TLS, ns);
                }
                Ok(stream)
            }
            Ok(Err(error)) => {
                if let ConnectError::Tls(why) = &error {
                    shared.log_once(why);
                }
                Err(error.kind())
            }
            Err(Elapsed) => Err(outcome::CONNECT_TIMEOUT),
        }
    }

    /// Returns the next connection for the operations that the server did not take, if there are any. They fail if the
    /// connection answered nothing: otherwise such a server would be asked without end.
    fn reconnect(&self, ended: ConnectionState) -> Option<PendingConnect> {
        if !self.has_answered.take() {
            self.fail_not_taken(outcome::EARLY_CLOSE);
        }
        let operation = self.not_taken.borrow_mut().pop()?;
        // The operation is open, so that the loop does not end meanwhile.
        self.settle(-self.unsettled.get());
        let owner = self.owner.get();
        let (mut clients, mut state) = self.worker.borrow();
        Some(PendingConnect {
            owner,
            is_first: self.awaiting_first_response.get(),
            ..clients.connect_redirected(operation, owner.index, ended, &mut state)
        })
    }

    fn fail_not_taken(&self, kind: &'static str) {
        let operations = self.not_taken.take();
        operations.iter().for_each(|one| self.fail(one, kind));
    }

    /// Hands the end of the connection to the worker: its client goes on with another one.
    fn ended(&self, state: ConnectionState) {
        self.first_answered();
        let owner = self.owner.get();
        match self.redirected.take() {
            Some(operation) => self.worker.on_redirect(operation, owner.index, state),
            None => self.worker.ended(EndedConnection {
                state,
                owner,
                failed: self.failed.get(),
            }),
        }
        self.settle(-self.unsettled.get());
    }

    /// Reports the client's first response, or the end of the connection before it.
    fn first_answered(&self) {
        if self.awaiting_first_response.take() {
            let (mut clients, mut state) = self.worker.borrow();
            clients.first_answered(&mut state);
        }
    }

    /// Serves one request after the other (HTTP/1.1).
    async fn serve_one(
        &self,
        io: Io,
        slot: &Rc<RequestSlot>,
        operation: Option<Operation>,
    ) -> ConnectionState {
        let prepared = self.worker.prepared(self.owner.get().index);
        let Ok((sender, connection)) = prepared.http1.handshake(io).await else {
            return self.unusable(operation);
        };
        let (mut connection, mut excess) = (Some(connection), 0);
        let state = {
            let mut serving = pin!(self.send_requests(slot, Sender::One(sender), operation));
            poll_fn(|context| {
                // Repeat until nothing changes: a response that has arrived should not wait while other connections are
                // served.
                loop {
                    let progress = self.counters.progress();
                    if let Poll::Ready(left) = serving.as_mut().poll(context) {
                        return Poll::Ready(left);
                    }
                    let Some(open) = &mut connection else {
                        return Poll::Pending;
                    };
                    match Pin::new(open).poll(context) {
                        Poll::Ready(ended) => {
                            // Dropping the connection notifies the sender.
                            let parts = connection.take().map(Connection::into_parts);
                            let left = parts.map_or(0, |parts| parts.read_buf.len());
                            excess = if ended.is_err() { left } else { 0 };
                            slot.end();
                        }
                        Poll::Pending if self.counters.progress() == progress => {
                            return Poll::Pending;
                        }
                        Poll::Pending => {}
                    }
                }
            })
            .await
        };
        // Bytes that hyper has read beyond the last response.
        if let Some(open) = connection.take() {
            excess += open.into_parts().read_buf.len();
        }
        if excess > 0 && !self.failed.get() {
            let (_, state) = self.worker.borrow();
            state.record.count(count::EXCESS, excess as u64);
        }
        let keeps = self.worker.shared.settings.keep_alive;
        if state == ConnectionState::Busy && keeps && excess == 0 && !self.failed.get() {
            self.worker.count(count::CLOSED);
        }
        state
    }

    /// Serves up to `--streams` requests at the same time (HTTP/2).
    async fn serve_many(
        &self,
        io: Io,
        slot: &Rc<RequestSlot>,
        operation: Option<Operation>,
    ) -> ConnectionState {
        let local = LocalExecutor::default();
        let made = http2::Builder::new(local.clone()).handshake(io).await;
        let Ok((sender, connection)) = made else {
            return self.unusable(operation);
        };
        let more: Vec<_> = (1..self.worker.shared.settings.streams)
            .map(|_| SlotGuard::new(&self.worker.slots))
            .collect();
        let more = more.iter().map(|guard| &guard.slot);
        let slots: Vec<&Rc<RequestSlot>> = std::iter::once(slot).chain(more).collect();
        let mut serving: FuturesUnordered<_> = slots
            .iter()
            .enumerate()
            .map(|(index, slot)| {
                let first = match index {
                    0 => operation,
                    _ => {
                        let repeated = self.not_taken.borrow_mut().pop();
                        repeated.or_else(|| self.one_more(clock::now()))
                    }
                };
                self.send_requests(slot, Sender::Many(sender.clone()), first)
            })
            .collect();
        drop(sender);
        let (mut connection, mut left) = (Some(connection), ConnectionState::Idle);
        poll_fn(|context| {
            loop {
                while let Poll::Ready(Some(one)) = serving.poll_next_unpin(context) {
                    if one == ConnectionState::Busy {
                        left = one;
                    }
                }
                let Some(open) = &mut connection else {
                    return if serving.is_empty() {
                        Poll::Ready(())
                    } else {
                        Poll::Pending
                    };
                };
                let Poll::Ready(ended) = Pin::new(open).poll(context) else {
                    return Poll::Pending;
                };
                // hyper returns requests that it has not sent only when the connection is dropped.
                connection = None;
                // No error: a GOAWAY announced the end (RFC 9113 §6.8), so the connection is not lost.
                if ended.is_ok() && !serving.is_empty() {
                    left = ConnectionState::Busy;
                    self.worker.count(count::CLOSED);
                }
                slots.iter().for_each(|slot| slot.end());
            }
        })
        .await;
        left
    }

    /// Starts one more operation of a closed-loop client, which keeps a fixed number in flight.
    fn one_more(&self, now: u64) -> Option<Operation> {
        let owner = self.owner.get();
        if owner.pool {
            return None;
        }
        let (mut clients, mut state) = self.worker.borrow();
        let next = clients.next_of_client(owner, now, &mut state)?;
        let last = next.index;
        self.owner.set(Owner { last, ..owner });
        Some(next)
    }

    /// Waits for the next operation of the pool; `None` once the connection has ended.
    async fn more(&self, slot: &Rc<RequestSlot>) -> Option<Operation> {
        // A client that leaves closes its connection.
        let pool = self.owner.get().pool;
        if pool {
            self.worker.next(slot).await
        } else {
            None
        }
    }

    fn settle(&self, more: i64) {
        self.unsettled.set(self.unsettled.get() + more);
        self.worker.settle(more);
    }

    fn unusable(&self, operation: Option<Operation>) -> ConnectionState {
        self.not_taken.borrow_mut().extend(operation);
        self.fail_not_taken(outcome::EARLY_CLOSE);
        ConnectionState::Busy
    }

    fn fail(&self, operation: &Operation, kind: &'static str) {
        self.failed.set(true);
        self.worker.fail(operation, kind);
    }

    /// Handles a redirect whose connection ends before it is followed. With several streams the operation fails, like
    /// the others of the connection; a single one goes on over another connection.
    fn leave(&self, operation: Operation) {
        match self.worker.shared.settings.streams {
            1 => self.redirected.set(Some(operation)),
            _ => self.fail(&operation, outcome::EARLY_CLOSE),
        }
    }

    /// Sends one request after the other.
    async fn send_requests(
        &self,
        slot: &Rc<RequestSlot>,
        mut sender: Sender,
        first: Option<Operation>,
    ) -> ConnectionState {
        let keeps = self.worker.shared.settings.keep_alive;
        let mut captured = self.worker.shared.checks.new_capture();
        let mut next = first;
        loop {
            let mut operation = match next {
                Some(operation) => operation,
                None => match self.more(slot).await {
                    Some(operation) => operation,
                    None => return ConnectionState::Idle,
                },
            };
            let counted = operation.counted;
            self.counters.begin(counted);
            let kept = captured.as_deref_mut();
            let asked = self
                .send_request(slot, &mut sender, &mut operation, kept)
                .await;
            self.counters.end(counted);
            self.settle(1);
            let (now, usable, has_ended) = match asked {
                Ok(answered) => {
                    self.has_answered.set(true);
                    self.first_answered();
                    let captured = captured.as_deref();
                    let (mut clients, state) = self.worker.borrow();
                    let has_ended =
                        clients.answered(&mut operation, answered, captured, &state.record);
                    (answered.now, keeps, has_ended)
                }
                Err(Unanswered::Failed { kind, usable: true }) => {
                    self.worker.fail(&operation, kind);
                    (clock::now(), true, true)
                }
                Err(Unanswered::Failed { kind, .. }) => {
                    self.fail(&operation, kind);
                    return ConnectionState::Busy;
                }
                Err(Unanswered::NotTaken) => {
                    self.settle(-1);
                    self.worker.count(count::RETRIES);
                    self.not_taken.borrow_mut().push(operation);
                    return ConnectionState::Busy;
                }
            };
            slot.set_deadline(now + self.worker.shared.settings.timeout.as_nanos() as u64);
            if !usable || !sender.ready(slot).await {
                if !has_ended {
                    self.leave(operation);
                }
                return ConnectionState::Busy;
            }
            self.counters.record_progress();
            next = if has_ended {
                self.one_more(now)
            } else {
                Some(operation)
            };
            self.settle(-1);
        }
    }

    /// Sends a request and reads its response.
    async fn send_request(
        &self,
        slot: &RequestSlot,
        sender: &mut Sender,
        operation: &mut Operation,
        captured: Option<&mut Captured>,
    ) -> Result<CompletedResponse, Unanswered> {
        let shared = self.worker.shared;
        let checks = &shared.checks;
        let capture = captured.map(|captured| ResponseCapture { checks, captured });
        let index = self.owner.get().index;
        let request = self.worker.message(operation, index);
        let asked = clock::now();
        self.counters.first_byte.set(0);
        if operation.sent == 0 {
            operation.sent = asked;
            let blocked_ns = asked.saturating_sub(operation.at).max(1);
            self.worker.record_phase(operation, BLOCKED, blocked_ns);
        }
        slot.set_deadline(operation.sent + shared.settings.timeout.as_nanos() as u64);
        let is_http2 = sender.is_http2();
        let exchange = async {
            let broken = |error: hyper::Error| {
                if is_http2 && fault::is_not_taken(&error) {
                    Unanswered::NotTaken
                } else {
                    Unanswered::Failed {
                        kind: fault::kind(&error),
                        usable: is_http2 && fault::is_of_one_stream(&error),
                    }
                }
            };
            let response = sender.send(request).await.map_err(broken)?;
            if !is_http2 {
                fault::framing(shared.is_head(operation.request), &response).map_err(|fault| {
                    Unanswered::Failed {
                        kind: fault.kind(),
                        usable: false,
                    }
                })?;
            }
            self.counters.record_progress();
            let status = response.status().as_u16();
            let first_byte = if is_http2 && shared.settings.phases {
                clock::now()
            } else {
                0
            };
            let mut sum = shared.compares(operation).then(Checksum::default);
            let body = self.length(response, capture, &mut sum).await;
            Ok((status, body.map_err(broken)?, sum, first_byte))
        };
        let (status, body, sum, head_at) = match slot.with_deadline(exchange).await {
            Ok(done) => done?,
            Err(Elapsed) => {
                return Err(Unanswered::Failed {
                    kind: outcome::TIMEOUT,
                    usable: is_http2,
                });
            }
        };
        let now = clock::now();
        let (written, first_byte) = if is_http2 {
            (asked, head_at)
        } else {
            (self.counters.written.get(), self.counters.first_byte.get())
        };
        if !is_http2 {
            let sending_ns = written.saturating_sub(asked);
            self.worker.record_phase(operation, SENDING, sending_ns);
        }
        Ok(CompletedResponse {
            stream: None,
            status,
            index,
            body,
            sum: sum.map(|sum| sum.0),
            written,
            first_byte,
            now,
        })
    }

    /// Reads a body to its end and returns its length; a `capture` keeps the parts that checks need.
    async fn length(
        &self,
        mut response: Response<Incoming>,
        mut capture: Option<ResponseCapture<'_>>,
        sum: &mut Option<Checksum>,
    ) -> hyper::Result<u64> {
        if let Some(capture) = &mut capture {
            capture.captured.clear();
            for (name, value) in response.headers() {
                capture.field(name.as_str(), value.as_bytes());
            }
        }
        let mut length = 0;
        while let Some(frame) = response.frame().await {
            self.counters.record_progress();
            if let Some(data) = frame?.data_ref() {
                length += data.len() as u64;
                if let Some(capture) = &mut capture {
                    capture.piece(data);
                }
                if let Some(sum) = sum {
                    sum.update(data);
                }
            }
        }
        self.counters.record_progress();
        Ok(length)
    }
}
