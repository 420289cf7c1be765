//! Names whose addresses change, refuse, or are none.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::thread;

use harness_testing::assert_contains;
use harness_testing::processes::wait_until;
use harness_testing::program::ended_with;

use super::{REDIS, Subject, UNSHARE, can_run, on_daemons, on_each_daemon};

/// The name of a server that a daemon connects to, in an `/etc/hosts` that only the daemon sees.
const NAME: &str = "server.test";

/// Gives the name these addresses.
fn set_addresses(subject: &Subject, addresses: &[&str]) {
    let lines = addresses
        .iter()
        .map(|address| format!("{address} {NAME}\n"));
    // Not a new file: this one is mounted.
    let hosts = subject.folder.path().join("hosts");
    fs::write(hosts, lines.collect::<String>()).unwrap();
}

fn command(subject: &Subject, variables: &[(&str, &str)]) -> Command {
    let hosts = subject.folder.path().join("hosts");
    let script = "mount --bind \"$1\" /etc/hosts; shift; exec \"$@\"";
    let hosts = hosts.to_str().unwrap();
    let mut command = subject.command(&["unshare", "-m", "sh", "-c", script, "sh", hosts]);
    command.envs(variables.iter().copied());
    command
}

/// Answers each request at an address with one event that has the address in it.
fn serve_events(address: &'static str, port: u16) {
    let listener = TcpListener::bind((address, port)).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let event = format!(
                "data: {{\"choices\":[{{\"delta\":{{\"content\":\"at {address}\"}}}}]}}\n\ndata: [DONE]\n\n"
            );
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            let _ = stream.write_all(format!("{head}{event}").as_bytes());
        }
    });
}

#[test]
fn a_backend_is_found_by_its_name_again_whatever_address_that_has() {
    if !can_run(UNSHARE) {
        return;
    }
    on_daemons(&["rust-streaming"], |subject| {
        let port = subject.spare_port();
        for address in ["127.0.0.2", "127.0.0.3"] {
            serve_events(address, port);
        }
        let base = format!("http://{NAME}:{port}");
        let variables = [
            ("DAEMON_BACKEND_PROVIDER", "openai"),
            ("DAEMON_OPENAI_BASE", &base),
            ("DAEMON_OPENAI_HTTP", "1"),
        ];
        set_addresses(subject, &["127.0.0.2"]);
        let process = subject.start_by(command(subject, &variables));
        for (addresses, answer) in [
            (&["127.0.0.2"][..], "at 127.0.0.2"),
            (&["127.0.0.3"], "at 127.0.0.3"),
            // The first one refuses.
            (&["127.0.0.4", "127.0.0.2"], "at 127.0.0.2"),
            (&["127.0.0.4"], "HTTP/1.1 502"),
            (&[], "HTTP/1.1 502"),
            (&["127.0.0.3"], "at 127.0.0.3"),
        ] {
            set_addresses(subject, addresses);
            let mut stream = subject.hand_over().unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            assert!(text.contains(answer), "{addresses:?}: {text}");
        }
        let log = subject.logged();
        assert_contains(&log, &["the backend failed: ", "refused"]);
        assert_eq!(process.stop(), Some(0));
    });
}

#[test]
fn a_redis_is_found_by_its_name_again_whatever_address_that_has() {
    if !can_run(UNSHARE) || !can_run(REDIS) {
        return;
    }
    on_daemons(&["presence-daemon"], |subject| {
        let url = format!("redis://{NAME}:{}", subject.spare_port());
        let mut redis = subject.start_redis("127.0.0.2");
        set_addresses(subject, &["127.0.0.2"]);
        let process = subject.start_by(command(subject, &[("REDIS_URL", &url)]));
        for (addresses, served) in [
            (&["127.0.0.2"][..], "127.0.0.2"),
            (&["127.0.0.3"], "127.0.0.3"),
            (&["127.0.0.4", "127.0.0.2"], "127.0.0.2"),
        ] {
            redis.kill();
            wait_until("Redis is missed", || {
                subject.metric("presence_redis_up") == 0
            });
            assert!(subject.serves(), "a node serves alone");
            set_addresses(subject, addresses);
            redis = subject.start_redis(served);
            wait_until("Redis is used", || subject.metric("presence_redis_up") == 1);
        }
        assert!(
            subject.logged().contains("lost Redis"),
            "{}",
            subject.logged()
        );
        assert_eq!(process.stop(), Some(0));
    });
}

#[test]
fn a_name_without_an_address_exits_with_2_and_names_option_and_remedy() {
    on_each_daemon(|subject| {
        let (option, remedy) = match subject.protocol {
            "http" | "presence" => ("--bind", "write an IP address"),
            "amqp" => ("--listen", "Name or service not known"),
            _ => ("--metrics-addr", "Name or service not known"),
        };
        let output = Command::new(subject.prepared.programs().next().unwrap())
            .args([option, &format!("{NAME}:80")])
            .output();
        ended_with(&output.unwrap(), 2, &[option, remedy], &subject.protocol);
    });
}
