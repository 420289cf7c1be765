//! The end of a connection, and its effects on other connections.

use super::*;

type End = fn(&Connection<'_>) -> anyhow::Result<()>;

/// The ways in which a connection ends.
const ENDS: [(&str, End); 3] = [
    ("connection.close", |connection| connection.close()),
    ("a socket that is closed", |connection| {
        connection.wire.hang_up();
        Ok(())
    }),
    ("an error", |connection| {
        connection.breaks_on(1, 503, connection.open_vhost("/"))
    }),
];

pub(super) fn cases(case: Begin<'_>) {
    case("connection.close: with open channels and consumers").on_broker(|scope| {
        let connection = scope.connect()?;
        for _ in 0..5 {
            let channel = connection.channel()?;
            let queue = channel.queue()?;
            channel.consume(&queue)?;
        }
        connection.close()
    });
    case("connection.close: with any reply code").on_broker(|scope| {
        let connection = scope.connect()?;
        connection.call(connection::Close::default().with(|close| {
            close.reply_code = 541;
            close.reply_text = "bye".into();
        }))
    });
    case("connection.close-ok: out of the blue is 504")
        .on_broker(|scope| scope.connect()?.breaks_on(0, 504, connection::CloseOk {}));
    case("connection.close: one of two leaves the other alone").on_broker(|scope| {
        let (first, second) = (scope.connect()?, scope.connect()?);
        let channel = second.channel()?;
        let queue = channel.queue()?;
        channel.consume(&queue)?;
        first.channel()?;
        first.close()?;
        channel.publish("", &queue, "x")?;
        channel.delivers("x")?;
        second.close()
    });
    case("connection.close: an error names the method")
        .fatal(540, basic::Recover { requeue: false });
    let name = "connection.close: an error of content names no method or its own";
    case(name).breaks(505, |channel| {
        channel.send(basic::Publish::default())?;
        channel.send(passive("x"))
    });
    case("connection.close: 50 connections at once").on_channel(|channel| {
        let connections: Vec<Connection<'_>> = (0..50)
            .map(|_| channel.scope().connect())
            .collect::<anyhow::Result<_>>()?;
        connections.iter().try_for_each(|connection| {
            connection.channel()?;
            connection.close()
        })
    });
    for (what, end) in ENDS {
        let name = format!("connection: {what} gives back what was fetched");
        case(&name).on_channel(move |channel| {
            let queue = channel.shared_queue()?;
            channel.publish("", &queue, "x")?;
            let apart = channel.scope().connect()?;
            apart.channel()?.get(&queue)?;
            end(&apart)?;
            channel.take(&queue)?.is_again("x")
        });
        let name = format!("connection: {what} gives back what was delivered, in order");
        case(&name).on_channel(move |channel| {
            let queue = channel.shared_queue()?;
            channel.publish_all(&queue, &["a", "b", "c"])?;
            let apart = channel.scope().connect()?;
            let consuming = apart.channel()?;
            consuming.consume(&queue)?;
            consuming.deliveries(3)?;
            consuming.ack(1, false)?;
            consuming.is_quiet()?;
            end(&apart)?;
            channel.take(&queue)?.is_again("b")?;
            channel.take(&queue)?.is_again("c")
        });
        let name = format!("connection: {what} hands messages on to another consumer");
        case(&name).on_channel(move |channel| {
            let queue = channel.shared_queue()?;
            let apart = channel.scope().connect()?;
            let consuming = apart.channel()?;
            consuming.consume(&queue)?;
            channel.publish("", &queue, "x")?;
            consuming.delivery()?;
            channel.consume(&queue)?;
            end(&apart)?;
            channel.delivery()?.is_again("x")
        });
        let name = format!("connection: {what} takes what is not committed along");
        case(&name).on_channel(move |channel| {
            let queue = channel.shared_queue()?;
            let apart = channel.scope().connect()?;
            let transactional = apart.channel()?;
            transactional.transactional()?;
            transactional.publish("", &queue, "x")?;
            transactional.is_quiet()?;
            end(&apart)?;
            channel.is_quiet()?;
            channel.holds(&queue, 0)
        });
    }
}
