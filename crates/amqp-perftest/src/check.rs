//! `amqp-perftest check`: performs every operation of the driver once on a real broker and compares the answers.

use amq_protocol::frame::AMQPFrame;
use amq_protocol::protocol::basic::{self, AMQPMethod as Basic, AMQPProperties};
use amq_protocol::protocol::{AMQPClass, confirm, queue};
use amq_protocol::types::FieldTable;
use anyhow::{Context as _, bail, ensure};
use harness::cli::{Failure, lines_of_files, of_the_daemon};
use harness::launcher::{self, Launcher, remark};
use harness::output;
use load::clock;
use subject::daemon::{DaemonError, Prepared};

use crate::cli::CheckArgs;
use crate::spec::SPEC;
use crate::topology::CHANNEL;
use crate::wire::{Message, Template};
use amqp_client::stamp::{self, Stamp};
use amqp_client::{Broker, Session};

/// Checks the brokers given on the command line. Returns true if every broker answered correctly.
///
/// # Errors
/// A wrong call, or a failure that has nothing to do with a broker.
pub(crate) fn run(typed: &CheckArgs) -> Result<bool, Failure> {
    if let Some(uri) = &typed.uri {
        for uri in lines_of_files("--uri", vec![uri.clone()])? {
            let broker = Broker::parse(&uri)?;
            if !say(&uri, check(&broker)).map_err(Failure::Run)? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    let root = launcher::root()?;
    let asked_for = !typed.daemon.is_empty() || launcher::everything_is_required();
    let launcher = Launcher::new().map_err(Failure::Run)?;
    let mut all_right = true;
    for name in launcher::named_or_all(&root, &typed.daemon, &SPEC.protocol)? {
        let prepared = match launcher::prepare(&root, &name, &SPEC.protocol, typed.quiet) {
            Ok(prepared) => prepared,
            Err(error @ DaemonError::ToolMissing { .. }) if !asked_for => {
                remark(typed.quiet, &format!("{name}: skipped: {error}"));
                continue;
            }
            Err(error) => return Err(of_the_daemon(error)),
        };
        all_right &= say(&name, check_launched(&launcher, &prepared)).map_err(Failure::Run)?;
    }
    Ok(all_right)
}

fn check_launched(launcher: &Launcher, prepared: &Prepared) -> anyhow::Result<usize> {
    let daemon = launcher.start(prepared, &[])?;
    let url = daemon.endpoint().url.as_deref();
    let found = url
        .context("its manifest has no `url`")
        .and_then(|url| check(&Broker::parse(url)?));
    // The launcher's tests cover how a daemon stops.
    launcher.stop(daemon);
    found
}

fn say(name: &str, found: anyhow::Result<usize>) -> anyhow::Result<bool> {
    let right = found.is_ok();
    let line = match found {
        Ok(steps) => format!("{name}: right, {steps} operations"),
        Err(error) => format!("{name}: WRONG: {error:#}"),
    };
    output::print(&line)?;
    Ok(right)
}

/// A broker under test.
struct Subject {
    session: Session,
    queue: String,
    sent: u64,
}

type Step = (&'static str, fn(&mut Subject) -> anyhow::Result<()>);

const STEPS: &[Step] = &[
    ("basic.publish with a confirm", publishes),
    ("basic.get of a published message", gets),
    ("basic.get from an empty queue", gets_nothing),
    ("a message with an empty body", carries_nothing),
    ("a message with a body of several frames", carries_much),
    ("basic.return of an unroutable message", returns),
    (
        "basic.consume with a prefetch and acknowledgements",
        consumes,
    ),
    ("basic.nack with requeue", gives_back),
    ("queue.declare, passive", counts),
    ("queue.delete, and 404 for the deleted queue", deletes),
];

fn check(broker: &Broker) -> anyhow::Result<usize> {
    let mut session = Session::open(broker, None).map_err(|error| broker.explain(&error))?;
    session.open_channel(CHANNEL)?;
    let select = confirm::AMQPMethod::Select(confirm::Select { nowait: false });
    session.call(CHANNEL, AMQPClass::Confirm(select))?;
    let queue = format!("amqp-perftest-check-{:x}", clock::unix_ns());
    let mut subject = Subject {
        session,
        queue,
        sent: 0,
    };
    subject.declare(false).context("queue.declare")?;
    for (name, step) in STEPS {
        step(&mut subject).with_context(|| (*name).to_owned())?;
    }
    subject.session.close();
    Ok(STEPS.len())
}

impl Subject {
    /// Declares the queue. Returns how many messages it holds.
    fn declare(&mut self, passive: bool) -> anyhow::Result<u32> {
        let declare = queue::Declare {
            queue: self.queue.as_str().into(),
            passive,
            durable: false,
            exclusive: true,
            auto_delete: false,
            nowait: false,
            arguments: FieldTable::default(),
        };
        let declare = AMQPClass::Queue(queue::AMQPMethod::Declare(declare));
        match self.session.call(CHANNEL, declare)? {
            AMQPClass::Queue(queue::AMQPMethod::DeclareOk(ok)) => Ok(ok.message_count),
            other => bail!("unexpected answer: {other:?}"),
        }
    }

    /// Publishes a body of `bytes` bytes, at least the length of a stamp.
    fn publish(&mut self, routing_key: &str, bytes: usize) -> anyhow::Result<Vec<u8>> {
        let mut body = vec![b'x'; bytes];
        let stamp = Stamp {
            run: 1,
            stream: stamp::stream(0, true),
            sequence: self.sent,
            start: clock::now(),
        };
        let message = Message {
            exchange: "",
            routing_key,
            mandatory: true,
            properties: &AMQPProperties::default(),
            body: &body,
        };
        let mut frames = Vec::new();
        Template::new(&message, CHANNEL, self.session.frame_max).append(&stamp, &mut frames);
        std::io::Write::write_all(&mut self.session.stream, &frames)?;
        self.sent += 1;
        stamp.write(&mut body);
        Ok(body)
    }

    fn basic(&mut self, method: Basic) -> anyhow::Result<()> {
        Ok(self.session.send(CHANNEL, AMQPClass::Basic(method))?)
    }

    fn next(&mut self) -> anyhow::Result<Basic> {
        match self.session.receive(CHANNEL)? {
            AMQPClass::Basic(method) => Ok(method),
            other => bail!("unexpected method: {other:?}"),
        }
    }

    fn confirmed(&mut self) -> anyhow::Result<()> {
        match self.next()? {
            Basic::Ack(ack) if ack.delivery_tag == self.sent => Ok(()),
            other => bail!(
                "unexpected method instead of the confirm of message {}: {other:?}",
                self.sent
            ),
        }
    }

    /// Reads the body that follows a method.
    fn body(&mut self) -> anyhow::Result<Vec<u8>> {
        let AMQPFrame::Header(CHANNEL, header) = self.session.frame()? else {
            bail!("no content header after the method");
        };
        let mut body = Vec::new();
        while (body.len() as u64) < header.body_size {
            match self.session.frame()? {
                AMQPFrame::Body(CHANNEL, piece) => body.extend(piece),
                other => bail!("unexpected frame inside a body: {other:?}"),
            }
        }
        Ok(body)
    }

    fn get(&mut self) -> anyhow::Result<Option<(u64, Vec<u8>)>> {
        let get = basic::Get {
            queue: self.queue.as_str().into(),
            no_ack: false,
        };
        self.basic(Basic::Get(get))?;
        match self.next()? {
            Basic::GetEmpty(_) => Ok(None),
            Basic::GetOk(ok) => Ok(Some((ok.delivery_tag, self.body()?))),
            other => bail!("unexpected method: {other:?}"),
        }
    }

    fn acknowledge(&mut self, tag: u64, multiple: bool) -> anyhow::Result<()> {
        self.basic(Basic::Ack(basic::Ack {
            delivery_tag: tag,
            multiple,
        }))
    }

    /// Publishes, gets and compares one body.
    fn round_trip(&mut self, bytes: usize) -> anyhow::Result<()> {
        let queue = self.queue.clone();
        let sent = self.publish(&queue, bytes)?;
        self.confirmed()?;
        let (tag, came) = self.get()?.context("the queue is empty")?;
        ensure!(
            came == sent,
            "the body of {} bytes differs from the published one",
            came.len()
        );
        self.acknowledge(tag, false)
    }
}

fn publishes(subject: &mut Subject) -> anyhow::Result<()> {
    let queue = subject.queue.clone();
    subject.publish(&queue, 1024)?;
    subject.confirmed()
}

fn gets(subject: &mut Subject) -> anyhow::Result<()> {
    let (tag, body) = subject.get()?.context("the queue is empty")?;
    let stamp = Stamp::read(&body).context("the body has no stamp")?;
    ensure!(
        stamp.sequence == 0 && body.len() == 1024,
        "unexpected message: {stamp:?} in {} bytes",
        body.len()
    );
    subject.acknowledge(tag, false)
}

fn gets_nothing(subject: &mut Subject) -> anyhow::Result<()> {
    let came = subject.get()?;
    ensure!(
        came.is_none(),
        "the queue returned a message that had been acknowledged"
    );
    Ok(())
}

fn carries_nothing(subject: &mut Subject) -> anyhow::Result<()> {
    let publish = basic::Publish {
        exchange: "".into(),
        routing_key: subject.queue.as_str().into(),
        mandatory: false,
        immediate: false,
    };
    let header = amq_protocol::frame::AMQPContentHeader {
        class_id: 60,
        body_size: 0,
        properties: AMQPProperties::default(),
    };
    subject.basic(Basic::Publish(publish))?;
    let header = amqp_client::frame::encode(&AMQPFrame::Header(CHANNEL, header));
    std::io::Write::write_all(&mut subject.session.stream, &header)?;
    subject.sent += 1;
    subject.confirmed()?;
    let (tag, body) = subject.get()?.context("the queue is empty")?;
    ensure!(
        body.is_empty(),
        "{} bytes came instead of an empty body",
        body.len()
    );
    subject.acknowledge(tag, false)
}

fn carries_much(subject: &mut Subject) -> anyhow::Result<()> {
    let frames = subject.session.frame_max as usize * 3;
    subject.round_trip(frames)
}

fn returns(subject: &mut Subject) -> anyhow::Result<()> {
    let nowhere = format!("{}-nowhere", subject.queue);
    let sent = subject.publish(&nowhere, 100)?;
    match subject.next()? {
        Basic::Return(back) => ensure!(back.reply_code == 312, "unexpected basic.return: {back:?}"),
        other => bail!("unexpected method instead of basic.return: {other:?}"),
    }
    ensure!(
        subject.body()? == sent,
        "the returned body differs from the published one"
    );
    subject.confirmed()
}

fn consumes(subject: &mut Subject) -> anyhow::Result<()> {
    let qos = basic::Qos {
        prefetch_count: 2,
        global: false,
    };
    subject
        .session
        .call(CHANNEL, AMQPClass::Basic(Basic::Qos(qos)))?;
    let queue = subject.queue.clone();
    let sent: Vec<Vec<u8>> = (0..3)
        .map(|_| {
            let sent = subject.publish(&queue, 64)?;
            subject.confirmed()?;
            anyhow::Ok(sent)
        })
        .collect::<Result<_, _>>()?;
    let consume = basic::Consume {
        queue: queue.as_str().into(),
        consumer_tag: "check".into(),
        no_local: false,
        no_ack: false,
        exclusive: false,
        nowait: false,
        arguments: FieldTable::default(),
    };
    let consume = AMQPClass::Basic(Basic::Consume(consume));
    match subject.session.call(CHANNEL, consume)? {
        AMQPClass::Basic(Basic::ConsumeOk(_)) => {}
        other => bail!("unexpected answer to basic.consume: {other:?}"),
    }
    let mut last = 0;
    for (place, sent) in sent.iter().enumerate() {
        if place == 2 {
            // The prefetch of 2 is used up: the third delivery comes only after this acknowledgement.
            subject.acknowledge(last, true)?;
        }
        match subject.next()? {
            Basic::Deliver(deliver) => last = deliver.delivery_tag,
            other => bail!("unexpected method instead of basic.deliver: {other:?}"),
        }
        ensure!(
            subject.body()? == *sent,
            "delivery {place} is not the message that was published in this place"
        );
    }
    subject.acknowledge(last, false)?;
    let cancel = basic::Cancel {
        consumer_tag: "check".into(),
        nowait: false,
    };
    let cancel = AMQPClass::Basic(Basic::Cancel(cancel));
    match subject.session.call(CHANNEL, cancel)? {
        AMQPClass::Basic(Basic::CancelOk(_)) => Ok(()),
        other => bail!("unexpected answer to basic.cancel: {other:?}"),
    }
}

fn gives_back(subject: &mut Subject) -> anyhow::Result<()> {
    let queue = subject.queue.clone();
    let sent = subject.publish(&queue, 64)?;
    subject.confirmed()?;
    let (tag, _) = subject.get()?.context("the queue is empty")?;
    subject.basic(Basic::Nack(basic::Nack {
        delivery_tag: tag,
        multiple: false,
        requeue: true,
    }))?;
    let (tag, again) = subject.get()?.context("the queue is empty")?;
    ensure!(
        again == sent,
        "the requeued message differs from the published one"
    );
    subject.acknowledge(tag, false)
}

fn counts(subject: &mut Subject) -> anyhow::Result<()> {
    let queue = subject.queue.clone();
    let before = subject.declare(true)?;
    subject.publish(&queue, 64)?;
    subject.confirmed()?;
    let after = subject.declare(true)?;
    ensure!(
        (before, after) == (0, 1),
        "queue.declare reported {before} and {after} messages, expected 0 and 1"
    );
    Ok(())
}

fn deletes(subject: &mut Subject) -> anyhow::Result<()> {
    let delete = queue::Delete {
        queue: subject.queue.as_str().into(),
        if_unused: false,
        if_empty: false,
        nowait: false,
    };
    let delete = AMQPClass::Queue(queue::AMQPMethod::Delete(delete));
    match subject.session.call(CHANNEL, delete)? {
        AMQPClass::Queue(queue::AMQPMethod::DeleteOk(ok)) => {
            ensure!(
                ok.message_count == 1,
                "queue.delete-ok reported {} messages, expected 1",
                ok.message_count
            );
        }
        other => bail!("unexpected answer to queue.delete: {other:?}"),
    }
    let passive = queue::Declare {
        queue: subject.queue.as_str().into(),
        passive: true,
        durable: false,
        exclusive: false,
        auto_delete: false,
        nowait: false,
        arguments: FieldTable::default(),
    };
    let passive = AMQPClass::Queue(queue::AMQPMethod::Declare(passive));
    match subject.session.call(CHANNEL, passive) {
        Err(error) if error.code() == Some(404) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(other) => bail!("the deleted queue still exists: {other:?}"),
    }
}
