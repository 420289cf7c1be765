//! Misbehaving clients beside a well-behaved one.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

use amq_protocol::protocol::{AMQPClass, channel, connection};
use nix::sys::signal::Signal;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use test_kit::{scaled, seed, wait_until};

use crate::frames::{
    bind, consume, declare, declare_exchange, encode, greeting, greeting_by, publish,
};
use crate::process::Process;
use crate::raw::{BLOCKED, DELIVER, Raw};
use crate::support::{TIMEOUT, start};

const MIB: usize = 1 << 20;
/// Misbehaving clients of a full run.
const CLIENTS: u64 = 3000;

/// Generates almost valid input of a client.
fn nonsense(random: &mut StdRng) -> Vec<u8> {
    if random.random_ratio(1, 4) {
        let mut bytes = b"AMQP\x00\x00\x09\x01".to_vec();
        bytes.extend((0..random.random_range(1..500)).map(|_| random.random::<u8>()));
        return bytes;
    }
    let mut bytes = greeting("guest", "/");
    let known = bytes.len();
    for _ in 0..random.random_range(1..10) {
        bytes.extend(match random.random_range(0..4) {
            0 => encode(&[declare("fuzzed")]),
            1 => encode(&[bind("fuzzed", "amq.topic")]),
            2 => encode(&[consume("fuzzed")]),
            _ => encode(&publish("", "fuzzed", &[7; 50])),
        });
    }
    for _ in 0..random.random_range(1..6) {
        let at = random.random_range(known..bytes.len());
        bytes[at] = random.random();
    }
    bytes
}

#[test]
fn mutated_frames_harm_nobody_and_leave_nothing() {
    let broker = Process::start(&[]);
    let mut other = Raw::connect(&broker.address);
    let mut random = StdRng::seed_from_u64(seed());
    let clients = scaled(CLIENTS);
    let mut before = 0;
    for number in 0..clients {
        let mut client = TcpStream::connect(&broker.address).unwrap();
        client.set_read_timeout(Some(TIMEOUT)).unwrap();
        // It may be closed before all is sent, or be reset.
        let _ = client.write_all(&nonsense(&mut random));
        if number.is_multiple_of(3) {
            let _ = client.shutdown(Shutdown::Write);
            let _ = client.read_to_end(&mut Vec::new());
        }
        if number.is_multiple_of(100) {
            other.declare("served");
        }
        if number == clients / 3 {
            before = broker.rss_bytes();
        }
    }
    other.declare("served");
    let grown = broker.rss_bytes().saturating_sub(before);
    assert!(
        grown < 16 * MIB,
        "{grown} more bytes after {clients} clients"
    );
    assert_eq!(broker.end(Signal::SIGTERM), Some(0));
}

#[test]
fn a_client_that_vanishes_after_any_byte_leaves_nothing_and_takes_no_message_along() {
    let broker = start(|_| {});
    let mut other = Raw::connect(&broker.address);
    other.declare("q");
    other.send(&publish("", "q", b"kept"));
    let mut session = greeting("guest", "/");
    session.extend(encode(&[declare("q"), consume("q")]));
    session.extend(encode(&publish("", "nowhere", &[7; 300])));
    let mut clients = 0;
    for end in (0..=session.len()).step_by(7) {
        clients += 1;
        let mut client = TcpStream::connect(&broker.address).unwrap();
        client.write_all(&session[..end]).unwrap();
    }
    wait_until("all have come, and only the other is left", || {
        broker.metric("broker_connections_opened_total") == clients + 1
            && broker.metric("broker_connections") == 1
    });
    let messages = ["broker_messages_ready", "broker_messages_unacked"];
    assert_eq!(messages.map(|name| broker.metric(name)), [1, 0]);
    other.declare("q");
}

#[test]
fn a_fanout_to_many_queues_stays_within_the_memory_limit() {
    let broker = Process::start(&["--memory-limit", "32MiB"]);
    let mut client = Raw::connect(&broker.address);
    client.send(&[declare_exchange("fan", "fanout")]);
    for number in 0..500 {
        let queue = format!("q{number}");
        client.declare(&queue);
        client.send(&[bind(&queue, "fan")]);
    }
    let before = broker.rss_bytes();
    let mut sink = client.stream.try_clone().unwrap();
    let batch = encode(&publish("fan", "", b"small")).repeat(1000);
    // Until the broker stops reading, which is when it is closed here.
    let publisher = thread::spawn(move || while sink.write_all(&batch).is_ok() {});
    client.await_method(BLOCKED);
    let grown = broker.rss_bytes() - before;
    assert!(grown < 96 * MIB, "{grown} more bytes");
    client.stream.shutdown(Shutdown::Both).unwrap();
    publisher.join().unwrap();
}

#[test]
fn a_blocked_client_that_hangs_up_gives_its_deliveries_back() {
    let broker = start(|config| config.memory_limit = MIB);
    let (mut waiting, mut other) = (Raw::connect(&broker.address), Raw::connect(&broker.address));
    other.declare("q");
    other.declare("full");
    waiting.send(&[consume("q")]);
    other.send(&publish("", "q", b"m"));
    waiting.await_method(DELIVER);
    for _ in 0..20 {
        other.send(&publish("", "full", &[0; 100_000]));
    }
    other.await_method(BLOCKED);
    waiting.send(&publish("", "full", b"m"));
    waiting.await_method(BLOCKED);
    assert_eq!(broker.metric("broker_messages_unacked"), 1);
    waiting.stream.shutdown(Shutdown::Write).unwrap();
    let mut rest = Vec::new();
    waiting.stream.read_to_end(&mut rest).unwrap();
    while broker.metric("broker_messages_unacked") > 0 {
        thread::yield_now();
    }
    assert_eq!(broker.metric("broker_connections"), 1);
}

#[test]
fn a_client_that_vanished_is_probed_after_a_minute() {
    let broker = start(|_| {});
    let client = Raw::connect(&broker.address);
    let port = |address: &str| {
        format!(
            "{:04X}",
            address.rsplit(':').next().unwrap().parse::<u16>().unwrap()
        )
    };
    let ends = (
        format!("0100007F:{}", port(&broker.address)),
        format!(
            "0100007F:{}",
            port(&client.stream.local_addr().unwrap().to_string())
        ),
    );
    // Timer 2 is keepalive; then comes its due time, in hundredths of a second (proc_pid_net(5)).
    let timer = || {
        let table = fs::read_to_string("/proc/net/tcp").unwrap();
        let fields = table
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>());
        let mut ours = fields.filter(|fields| fields[1] == ends.0 && fields[2] == ends.1);
        let timer = ours.next().unwrap()[5].to_owned();
        let (kind, due) = timer.split_once(':').unwrap();
        (kind.to_owned(), u64::from_str_radix(due, 16).unwrap())
    };
    // While data is under way, another timer runs.
    let due = loop {
        match timer() {
            (kind, due) if kind == "02" => break Duration::from_millis(due * 10),
            _ => thread::yield_now(),
        }
    };
    assert!(due <= Duration::from_secs(61), "{due:?}");
}

#[test]
fn a_refused_login_is_said_with_user_vhost_and_reason() {
    let mut broker = Process::start(&[]);
    for (password, vhost, said) in [
        ("wrong", "/", "refused user \"guest\" at 127.0.0.1:"),
        ("guest", "no\nwhere", "unknown vhost \"no\\nwhere\""),
    ] {
        let mut client = TcpStream::connect(&broker.address).unwrap();
        client.set_read_timeout(Some(TIMEOUT)).unwrap();
        client.write_all(&greeting(password, vhost)).unwrap();
        let _ = client.shutdown(Shutdown::Write);
        let _ = client.read_to_end(&mut Vec::new());
        let line = broker.next_note();
        assert!(line.contains(said), "{line}");
    }
    assert_eq!(broker.end(Signal::SIGTERM), Some(0));
}

/// Returns an AMQPLAIN response: each field is its name, S for text, and the value with its length.
fn amqplain(user: &str, password: &str) -> String {
    let field = |name: &str, value: &str| {
        let [name_length, length] = [name, value].map(|text| u8::try_from(text.len()).unwrap());
        let [name_length, length] = [name_length, length].map(char::from);
        format!("{name_length}{name}S\0\0\0{length}{value}")
    };
    field("LOGIN", user) + &field("PASSWORD", password)
}

#[test]
fn logins_by_both_mechanisms_are_checked_and_refusals_are_counted() {
    let broker = start(|_| ());
    let right = amqplain("guest", "guest");
    for (mechanism, response, vhost, outcome) in [
        ("PLAIN", "\0guest\0guest", "/", "open"),
        ("PLAIN", "\0guest\0wrong", "/", "403"),
        ("AMQPLAIN", &right, "/", "open"),
        ("AMQPLAIN", &amqplain("guest", "wrong"), "/", "403"),
        ("AMQPLAIN", &amqplain("nobody", "guest"), "/", "403"),
        ("AMQPLAIN", &right[..right.len() - 1], "/", "hung up"),
        ("AMQPLAIN", &right.replace('S', "I"), "/", "hung up"),
        ("EXTERNAL", "guest", "/", "hung up"),
        ("AMQPLAIN", &right, "nowhere", "530"),
        ("PLAIN", "\0guest\0guest", "nowhere", "530"),
    ] {
        let greeting = greeting_by(mechanism, response, vhost);
        let mut client = Raw::greet(&broker.address, &greeting);
        let answer = loop {
            match client.next_method() {
                Some(AMQPClass::Connection(connection::AMQPMethod::Close(close))) => {
                    break close.reply_code.to_string();
                }
                Some(AMQPClass::Channel(channel::AMQPMethod::OpenOk(_))) => {
                    break "open".to_owned();
                }
                Some(_) => {}
                None => break "hung up".to_owned(),
            }
        };
        assert_eq!(answer, outcome, "{mechanism} {response:?} {vhost}");
    }
    assert_eq!(broker.metric("broker_logins_refused_total"), 3);
    assert_eq!(broker.metric("broker_vhosts_refused_total"), 2);
}
