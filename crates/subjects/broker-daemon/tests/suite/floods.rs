//! Crowds of clients, invalid input, and silent clients.

use std::io::{Read, Write};
use std::net::TcpStream;

use nix::sys::signal::Signal;

use crate::process::Process;
use crate::support::{TIMEOUT, declare, publish, run, select_confirms, start};

fn connect(address: &str) -> TcpStream {
    let client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(TIMEOUT)).unwrap();
    client
}

#[test]
fn nonsense_is_answered_and_closed_while_others_are_served() {
    let broker = start(|_| {});
    let silent: Vec<TcpStream> = (0..100).map(|_| connect(&broker.address)).collect();
    for _ in 0..100 {
        let mut client = connect(&broker.address);
        client.write_all(b"EHLO broker\r\n").unwrap();
        let mut answer = Vec::new();
        // A reset is an end too: not all of the input was read.
        let _ = client.read_to_end(&mut answer);
        assert_eq!(answer, b"AMQP\x00\x00\x09\x01");
    }
    run(async {
        let connection = broker.connect().await;
        connection.create_channel().await.unwrap();
    });
    assert!(broker.metric("broker_connections_opened_total") >= 201);
    drop(silent);
}

#[test]
fn connections_above_the_limit_are_closed() {
    let broker = start(|config| config.max_connections = 2);
    let first = connect(&broker.address);
    let _second = connect(&broker.address);
    let mut third = connect(&broker.address);
    assert_eq!(third.read(&mut [0]).unwrap(), 0);
    assert_eq!(broker.metric("broker_connections_refused_total"), 1);
    drop(first);
}

#[test]
fn a_lack_of_descriptors_is_waited_out() {
    let broker = Process::start_after("ulimit -n 40;", &[]);
    let crowd: Vec<TcpStream> = (0..100).map(|_| connect(&broker.address)).collect();
    drop(crowd);
    run(async {
        let (connection, _channel) = broker.channel().await;
        connection.close(200, "".into()).await.unwrap();
    });
    assert_eq!(broker.end(Signal::SIGTERM), Some(0));
}

#[test]
fn a_crowd_leaves_the_descriptors_that_storing_needs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let broker = Process::start_after("ulimit -n 64;", &["--data-dir", path]);
    run(async {
        let (_connection, channel) = broker.channel().await;
        // All but one of them wait to be accepted, or are accepted and use the capacity.
        let _crowd: Vec<TcpStream> = (0..200).map(|_| connect(&broker.address)).collect();
        select_confirms(&channel).await;
        declare(&channel, "q", true).await;
        assert!(publish(&channel, "q", 2, b"m").await);
    });
    assert_eq!(broker.end(Signal::SIGTERM), Some(0));
}
