//! A consumer: hands over its actions, and takes deliveries and answers.

use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use ::lapin::Channel;
use ::lapin::message::Delivery;
use ::lapin::options::{
    BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicGetOptions, BasicNackOptions,
    QueueDeclareOptions,
};
use ::lapin::types::{FieldTable, ShortString};
use amq_protocol::protocol::basic;
use futures_util::{Stream as _, StreamExt as _};
use load::clock;

use super::LapinWorker;
use crate::roles::connection::Lost;
use crate::roles::consumer::{Action, Consumer, Perform};
use crate::roles::worker::{ReceivedMessage, WorkerState};
use crate::settings::Settings;
use crate::topology;
use amqp_client::stamp::Stamp;

/// Deliveries taken before other clients are served.
const AT_ONCE: usize = 256;

/// A pending `basic.get`, or a query of the queue's depth.
type Request = Pin<Box<dyn Future<Output = ::lapin::Result<Received>>>>;

pub(super) struct LapinConsumer {
    pub(super) role: Consumer,
    pub(super) io: Channels,
}

/// A consumer's channel, and what is pending on it.
pub(super) struct Channels {
    queue: ShortString,
    tag: ShortString,
    get: basic::Get,
    channel: Option<Rc<Channel>>,
    stream: Option<::lapin::Consumer>,
    /// There is at most one: a consumer that polls queries no depth.
    request: Option<Request>,
    /// Wakes its connection.
    pub(super) waker: Waker,
}

/// An answer or message of the broker.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one at a time, and a box would be allocated for each delivery"
)]
enum Received {
    Delivery(Delivery),
    /// A `basic.get` found nothing.
    Empty,
    /// The depth of the queue. All earlier deliveries are taken.
    Depth(u32),
    /// The subscription has ended.
    Cancelled,
}

/// Attaches a channel to a consumer, which then consumes or polls.
pub(super) async fn attach(
    engine: &LapinWorker<'_>,
    index: usize,
    channel: Rc<Channel>,
) -> ::lapin::Result<()> {
    let (first, consume) = {
        let clients = &mut *engine.clients.borrow_mut();
        let LapinConsumer { role, io } = &mut clients.consumers[index];
        // From here on the role may ask for the queue's depth, and waits for the answer.
        io.channel = Some(Rc::clone(&channel));
        let first = role.attach(&clients.state, clock::now());
        let consume = topology::consume(&clients.state.run.plan.driver, role.number());
        (first, consume)
    };
    let stream = match first {
        Some(Action::Consume) => Some(start_consuming(&channel, consume).await?),
        _ => None,
    };
    let io = &mut engine.clients.borrow_mut().consumers[index].io;
    io.stream = stream;
    if let Some(action) = first {
        io.perform(action);
    }
    Ok(())
}

/// Sends `basic.consume` and waits for the answer. Without an answer, lapin knows its consumer only once the frame is
/// written, and drops earlier deliveries, which blocks the queue for ever.
async fn start_consuming(
    channel: &Channel,
    consume: basic::Consume,
) -> ::lapin::Result<::lapin::Consumer> {
    let options = BasicConsumeOptions {
        no_local: consume.no_local,
        no_ack: consume.no_ack,
        exclusive: consume.exclusive,
        nowait: false,
    };
    let (queue, tag) = (consume.queue, consume.consumer_tag);
    channel
        .basic_consume(queue, tag, options, consume.arguments)
        .await
}

async fn get(channel: Rc<Channel>, get: basic::Get) -> ::lapin::Result<Received> {
    let options = BasicGetOptions { no_ack: get.no_ack };
    let answer = channel.basic_get(get.queue, options).await?;
    Ok(answer.map_or(Received::Empty, |message| {
        Received::Delivery(message.delivery)
    }))
}

async fn query_depth(channel: Rc<Channel>, queue: ShortString) -> ::lapin::Result<Received> {
    let options = QueueDeclareOptions {
        passive: true,
        ..QueueDeclareOptions::default()
    };
    let arguments = FieldTable::default();
    let queue = channel.queue_declare(queue, options, arguments).await?;
    Ok(Received::Depth(queue.message_count()))
}

/// Has lapin queue a frame without waiting until it is written. If the connection is lost, its stream reports that.
fn hand_over(answer: impl Future<Output = ::lapin::Result<()>>) {
    let _ = pin!(answer).poll(&mut Context::from_waker(Waker::noop()));
}

impl Perform for Channels {
    fn perform(&mut self, action: Action) {
        let Some(channel) = &self.channel else {
            return;
        };
        match action {
            Action::Ack { tag, multiple } => {
                hand_over(channel.basic_ack(tag, BasicAckOptions { multiple }));
            }
            Action::Nack { tag, requeue } => {
                let multiple = false;
                hand_over(channel.basic_nack(tag, BasicNackOptions { multiple, requeue }));
            }
            Action::Cancel => {
                let options = BasicCancelOptions::default();
                hand_over(channel.basic_cancel(self.tag.clone(), options));
            }
            Action::Get => {
                self.request = Some(Box::pin(get(Rc::clone(channel), self.get.clone())));
                self.waker.wake_by_ref();
            }
            Action::QueryDepth => {
                let query = query_depth(Rc::clone(channel), self.queue.clone());
                self.request = Some(Box::pin(query));
                self.waker.wake_by_ref();
            }
            // It was sent when the channel was attached.
            Action::Consume => {}
        }
    }
}

impl Channels {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<::lapin::Result<Received>> {
        if let Some(stream) = &mut self.stream
            && let Poll::Ready(next) = Pin::new(stream).poll_next(context)
        {
            let Some(delivery) = next else {
                self.stream = None;
                return Poll::Ready(Ok(Received::Cancelled));
            };
            return Poll::Ready(delivery.map(Received::Delivery));
        }
        if let Some(request) = &mut self.request
            && let Poll::Ready(answer) = request.as_mut().poll(context)
        {
            self.request = None;
            return Poll::Ready(answer);
        }
        Poll::Pending
    }
}

/// Cancels a consumer and takes the deliveries under way. All arrived deliveries are then acknowledged: a requeued one
/// would reach another consumer, or be taken for a message that never arrived.
pub(super) async fn take_rest(engine: &LapinWorker<'_>, index: usize) {
    let (channel, stream, request) = {
        let io = &mut engine.clients.borrow_mut().consumers[index].io;
        (io.channel.clone(), io.stream.take(), io.request.take())
    };
    let deliver = |delivery: &Delivery| {
        let clients = &mut *engine.clients.borrow_mut();
        clients.consumers[index].on_delivery(&mut clients.state, delivery);
    };
    if let Some(request) = request
        && let Ok(Received::Delivery(delivery)) = request.await
    {
        deliver(&delivery);
    }
    if let (Some(channel), Some(mut stream)) = (channel, stream) {
        let cancel = channel.basic_cancel(stream.tag(), BasicCancelOptions::default());
        // A closed channel cancels nothing, and its stream ends.
        let _ = cancel.await;
        while let Some(Ok(delivery)) = stream.next().await {
            deliver(&delivery);
        }
    }
    let clients = &mut *engine.clients.borrow_mut();
    let LapinConsumer { role, io } = &mut clients.consumers[index];
    role.acknowledge_all(&clients.state, io);
}

impl LapinConsumer {
    pub(super) fn new(number: u32, settings: &Settings) -> Self {
        let role = Consumer::new(number, settings);
        let io = Channels {
            queue: settings.queue_of(role.number()).as_str().into(),
            tag: topology::tag(role.number()),
            get: topology::get(settings, role.number()),
            channel: None,
            stream: None,
            request: None,
            waker: Waker::noop().clone(),
        };
        Self { role, io }
    }

    pub(super) fn leave(&mut self, state: &WorkerState<'_>) {
        self.io.channel = None;
        self.io.stream = None;
        self.io.request = None;
        self.role.leave(state);
    }

    /// Takes what has arrived.
    pub(super) fn poll(
        &mut self,
        state: &mut WorkerState<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Lost> {
        for _ in 0..AT_ONCE {
            let Poll::Ready(received) = self.io.poll_next(context) else {
                return Ok(());
            };
            match received? {
                Received::Delivery(delivery) => self.on_delivery(state, &delivery),
                Received::Empty => self.role.on_empty(state, clock::now(), &mut self.io),
                Received::Depth(messages) => self.role.on_depth(state, messages, &mut self.io),
                Received::Cancelled => self.role.on_cancelled(state),
            }
        }
        context.waker().wake_by_ref();
        Ok(())
    }

    fn on_delivery(&mut self, state: &mut WorkerState<'_>, delivery: &Delivery) {
        let checked = Stamp::check(&delivery.data);
        let received = ReceivedMessage {
            tag: delivery.delivery_tag,
            redelivered: delivery.redelivered,
            stamp: checked.map(|(stamp, _)| stamp),
            is_intact: checked.is_some_and(|(_, is_intact)| is_intact),
        };
        self.role
            .on_delivery(state, &received, clock::now(), &mut self.io);
    }

    /// Acknowledges processed deliveries, and polls if that is due. Returns when the next of both is due.
    pub(super) fn on_timer(&mut self, state: &mut WorkerState<'_>, now: u64) -> u64 {
        match self.role.due() {
            due if due > now => due,
            _ => self.role.on_timer(state, now, &mut self.io),
        }
    }
}
