//! One connection: it is made, asked over, and gone.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use harness::clock;
use http_body_util::BodyExt as _;
use hyper::Response;
use hyper::body::Incoming;
use hyper::client::conn::http1::Connection;
use hyper::client::conn::http2;
use hyper_util::rt::TokioIo;

use super::desk::{Birth, Desk, State, add};
use super::dial::{Stream, open};
use super::fault;
use super::local::Local;
use super::meter::{Meter, Metered};
use super::seat::{Late, Seat};
use super::sender::Sender;
use crate::checks::{Keeper, Seen};
use crate::content::Sum;
use crate::operation::Operation;
use crate::outcome;
use crate::turn::Answered;

type Io = TokioIo<Metered<Stream>>;

/// What the seats of one connection share.
struct Link<'d, 'a> {
    desk: &'d Desk<'a>,
    meter: Rc<Meter>,
    place: u32,
    pool: bool,
    /// The last operation that was begun on it.
    last: Cell<Option<Operation>>,
    /// One that it did not follow to its end: its redirect was the last answer.
    led_on: Cell<Option<Operation>>,
    /// Whether one failed with it.
    failed: Cell<bool>,
    /// Its share of the desk's.
    unsettled: Cell<u64>,
}

/// The whole life of a connection.
pub(super) async fn live(desk: &Desk<'_>, birth: Birth) {
    let Birth {
        operation,
        place,
        pool,
    } = birth;
    let settings = &desk.driver.settings;
    let link = Link {
        desk,
        meter: Meter::new(&desk.totals, settings.phases),
        place,
        pool,
        last: Cell::new(operation),
        led_on: Cell::new(None),
        failed: Cell::new(false),
        unsettled: Cell::new(0),
    };
    let first = desk.seat();
    let state = match link.open(&first.seat).await {
        Ok(stream) => {
            let io = TokioIo::new(Metered::new(stream, &link.meter));
            match settings.http2 {
                true => Box::pin(link.serve_many(io, &first.seat, operation)).await,
                false => link.serve_one(io, &first.seat, operation).await,
            }
        }
        Err(kind) => {
            match operation {
                Some(operation) => link.fail(&operation, kind),
                None => desk.unconnected(kind),
            }
            State::Connecting
        }
    };
    drop(first);
    match (link.led_on.take(), link.last.get().filter(|_| !pool)) {
        (Some(operation), _) => desk.moved(state, operation, place),
        (None, Some(last)) => desk.client_lost(state, link.failed.get(), last, place),
        (None, None) => desk.pool_lost(state, operation.is_some()),
    }
    link.settle(-link.unsettled.get().cast_signed());
}

impl Link<'_, '_> {
    async fn open(&self, seat: &Seat) -> Result<Stream, &'static str> {
        let driver = self.desk.driver;
        let settings = &driver.settings;
        let server = self.place as usize % driver.servers.len();
        let began = clock::now();
        seat.limit(began + settings.connect_timeout.as_nanos() as u64);
        let tls = driver.hyper[server].tls.as_ref();
        let socket = self.desk.dial(self.place);
        let opened = open(&driver.servers[server], tls, settings.http2, socket, began);
        match seat.within(Box::pin(opened)).await {
            Ok(Ok((stream, made))) => {
                self.desk.opened(made);
                Ok(stream)
            }
            Ok(Err(unconnected)) => {
                driver.say_once(&unconnected);
                Err(unconnected.kind())
            }
            Err(Late) => Err(outcome::CONNECT_TIMEOUT),
        }
    }

    /// Serves one request after the other.
    async fn serve_one(&self, io: Io, seat: &Rc<Seat>, operation: Option<Operation>) -> State {
        let driver = self.desk.driver;
        let server = self.place as usize % driver.servers.len();
        let made = driver.hyper[server].http1.handshake(io).await;
        let Ok((sender, connection)) = made else {
            return self.unusable(operation);
        };
        let (mut connection, mut excess) = (Some(connection), 0);
        let state = {
            let mut serving = pin!(self.ask_on(seat, Sender::One(sender), operation));
            poll_fn(|context| {
                // Until nothing happens any more: an answer that is there is not left lying while other connections
                // are served.
                loop {
                    let moves = self.meter.moves();
                    if let Poll::Ready(left) = serving.as_mut().poll(context) {
                        return Poll::Ready(left);
                    }
                    let Some(open) = &mut connection else {
                        return Poll::Pending;
                    };
                    match Pin::new(open).poll(context) {
                        Poll::Ready(ended) => {
                            // The sender is told when it is dropped.
                            let parts = connection.take().map(Connection::into_parts);
                            let left = parts.map_or(0, |parts| parts.read_buf.len());
                            excess = if ended.is_err() { left } else { 0 };
                            seat.end();
                        }
                        Poll::Pending if self.meter.moves() == moves => return Poll::Pending,
                        Poll::Pending => {}
                    }
                }
            })
            .await
        };
        // What hyper has read of a connection that is left, and nobody asked for.
        if let Some(open) = connection.take() {
            excess += open.into_parts().read_buf.len();
        }
        if !self.failed.get() {
            self.desk.excess(excess);
        }
        state
    }

    /// Serves as many requests at the same time as there are to be.
    async fn serve_many(&self, io: Io, seat: &Rc<Seat>, operation: Option<Operation>) -> State {
        let driver = self.desk.driver;
        let local = Local::default();
        let made = http2::Builder::new(local.clone()).handshake(io).await;
        let Ok((sender, connection)) = made else {
            return self.unusable(operation);
        };
        let more: Vec<_> = (1..driver.settings.streams)
            .map(|_| self.desk.seat())
            .collect();
        let more = more.iter().map(|seated| &seated.seat);
        let seats: Vec<&Rc<Seat>> = std::iter::once(seat).chain(more).collect();
        let mut serving: FuturesUnordered<_> = seats
            .iter()
            .enumerate()
            .map(|(place, seat)| {
                let first = if place == 0 {
                    operation
                } else {
                    self.one_more(clock::now())
                };
                self.ask_on(seat, Sender::Many(sender.clone()), first)
            })
            .collect();
        drop(sender);
        let mut connection = pin!(connection);
        let (mut over, mut left) = (false, State::Idle);
        poll_fn(|context| {
            loop {
                while let Poll::Ready(Some(one)) = serving.poll_next_unpin(context) {
                    if one == State::Busy {
                        left = one;
                    }
                }
                if over {
                    return if serving.is_empty() {
                        Poll::Ready(())
                    } else {
                        Poll::Pending
                    };
                }
                if connection.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                over = true;
                seats.iter().for_each(|seat| seat.end());
            }
        })
        .await;
        left
    }

    /// A client of a closed loop has so many requests on their way at all times.
    fn one_more(&self, now: u64) -> Option<Operation> {
        let last = self.last.get().filter(|_| !self.pool)?;
        let next = self.desk.again(last.group, last.index, now)?;
        self.last.set(Some(next));
        Some(next)
    }

    /// What there is to ask besides; `None` once the connection has ended.
    async fn more(&self, seat: &Rc<Seat>) -> Option<Operation> {
        match self.pool {
            true => self.desk.next(seat).await,
            // A user who leaves takes his connection with him.
            false => None,
        }
    }

    fn settle(&self, more: i64) {
        add(&self.unsettled, more);
        add(&self.desk.unsettled, more);
    }

    fn unusable(&self, operation: Option<Operation>) -> State {
        if let Some(operation) = operation {
            self.fail(&operation, outcome::EARLY_CLOSE);
        }
        State::Busy
    }

    fn fail(&self, operation: &Operation, kind: &'static str) {
        self.failed.set(true);
        self.desk.fail(operation, kind);
    }

    /// The connection ends before it was asked where a redirect leads. One of several at the same time ends with it, as the
    /// others do; one that is alone goes on over another.
    fn leave(&self, operation: Operation) {
        match self.desk.driver.settings.streams {
            1 => self.led_on.set(Some(operation)),
            _ => self.fail(&operation, outcome::EARLY_CLOSE),
        }
    }

    /// Asks one thing after the other.
    async fn ask_on(&self, seat: &Rc<Seat>, mut sender: Sender, first: Option<Operation>) -> State {
        let keeps = self.desk.driver.settings.keep_alive;
        let mut seen = self.desk.driver.checks.seen();
        let mut next = first;
        loop {
            let mut operation = match next {
                Some(operation) => operation,
                None => match self.more(seat).await {
                    Some(operation) => operation,
                    None => return State::Idle,
                },
            };
            let counted = u32::from(operation.counted);
            let meter = &self.meter;
            meter.counted.set(meter.counted.get() + counted);
            let kept = seen.as_deref_mut();
            let asked = self.ask(seat, &mut sender, &mut operation, kept).await;
            meter.counted.set(meter.counted.get() - counted);
            self.settle(1);
            let (now, usable, has_ended) = match asked {
                Ok(answered) => {
                    let seen = seen.as_deref();
                    let has_ended = self.desk.answered(&mut operation, answered, seen);
                    (answered.now, keeps, has_ended)
                }
                Err((kind, true)) => {
                    self.desk.fail(&operation, kind);
                    (clock::now(), true, true)
                }
                Err((kind, false)) => {
                    self.fail(&operation, kind);
                    return State::Busy;
                }
            };
            seat.limit(now + self.desk.driver.settings.timeout.as_nanos() as u64);
            if !usable || !sender.ready(seat).await {
                if !has_ended {
                    self.leave(operation);
                }
                return State::Busy;
            }
            self.meter.moved();
            next = match (has_ended, self.pool) {
                (false, _) => Some(operation),
                (true, true) => None,
                (true, false) => self.one_more(now),
            };
            self.settle(-1);
        }
    }

    /// Asks one thing and reads its answer: or fails, and perhaps the connection goes on nevertheless.
    async fn ask(
        &self,
        seat: &Seat,
        sender: &mut Sender,
        operation: &mut Operation,
        seen: Option<&mut Seen>,
    ) -> Result<Answered, (&'static str, bool)> {
        let driver = self.desk.driver;
        let checks = &driver.checks;
        let keeper = seen.map(|seen| Keeper { checks, seen });
        let server = self.place as usize % driver.servers.len();
        let messages = &driver.hyper[server].messages;
        let request = self.desk.message(operation, messages);
        let asked = clock::now();
        self.meter.first_byte.set(0);
        if operation.hop.is_none() {
            operation.sent = asked;
            self.desk.asked(operation);
        }
        seat.limit(operation.sent + driver.settings.timeout.as_nanos() as u64);
        let is_http2 = sender.is_http2();
        let exchange = async {
            let broken = |error: hyper::Error| {
                (
                    fault::kind(&error),
                    is_http2 && fault::is_of_one_stream(&error),
                )
            };
            let response = sender.send(request).await.map_err(broken)?;
            if !is_http2 {
                fault::framing(driver.is_head(), &response)
                    .map_err(|fault| (fault.kind(), false))?;
            }
            self.meter.moved();
            let status = response.status().as_u16();
            let first_byte = if is_http2 && driver.settings.phases {
                clock::now()
            } else {
                0
            };
            let mut sum = driver.compares(operation.index).then(Sum::default);
            let body = self.length(response, keeper, &mut sum).await;
            Ok((status, body.map_err(broken)?, sum, first_byte))
        };
        let (status, body, sum, head_at) = match seat.within(exchange).await {
            Ok(done) => done?,
            Err(Late) => return Err((outcome::TIMEOUT, is_http2)),
        };
        let now = clock::now();
        let (written, first_byte) = match is_http2 {
            true => (asked, head_at),
            false => (self.meter.written.get(), self.meter.first_byte.get()),
        };
        if driver.settings.phases && !is_http2 {
            self.desk.sent(operation, written.saturating_sub(asked));
        }
        Ok(Answered {
            status,
            place: self.place,
            body,
            sum: sum.map(|sum| sum.0),
            written,
            first_byte,
            now,
        })
    }

    /// Reads a content to its end; a `keeper` keeps of the answer what checks ask for.
    async fn length(
        &self,
        mut response: Response<Incoming>,
        mut keeper: Option<Keeper<'_>>,
        sum: &mut Option<Sum>,
    ) -> hyper::Result<u64> {
        if let Some(keeper) = &mut keeper {
            keeper.seen.clear();
            for (name, value) in response.headers() {
                keeper.field(name.as_str(), value.as_bytes());
            }
        }
        let mut length = 0;
        while let Some(frame) = response.frame().await {
            self.meter.moved();
            if let Some(data) = frame?.data_ref() {
                length += data.len() as u64;
                if let Some(keeper) = &mut keeper {
                    keeper.piece(data);
                }
                if let Some(sum) = sum {
                    sum.update(data);
                }
            }
        }
        self.meter.moved();
        Ok(length)
    }
}
