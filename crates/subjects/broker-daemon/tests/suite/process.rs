//! The command itself: options, signals, exit codes, and recovery after a kill.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread;
use std::time::Duration;

use lapin::options::{BasicAckOptions, BasicGetOptions};
use lapin::{Channel, Connection, ConnectionProperties};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use test_kit::assert_contains;

use crate::frames::greeting;
use crate::raw::Raw;
use crate::support::{self, declare, get, run, select_confirms};

const BINARY: &str = env!("CARGO_BIN_EXE_broker-daemon");

/// The broker as a separate process, killed with the test.
pub(crate) struct Process {
    child: Child,
    notes: BufReader<ChildStderr>,
    pub(crate) address: String,
}

impl Process {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_after("", arguments)
    }

    /// Starts it through a shell that first runs `prelude`.
    pub(crate) fn start_after(prelude: &str, arguments: &[&str]) -> Self {
        let script = format!("{prelude} exec \"$@\"");
        let mut child = Command::new("sh")
            .args(["-c", &script, "sh", BINARY, "--listen", "127.0.0.1:0"])
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut notes = BufReader::new(child.stderr.take().unwrap());
        let said = |line: String| Some(line.split_once("listening on ")?.1.to_owned());
        let address = notes
            .by_ref()
            .lines()
            .find_map(|line| said(line.unwrap()))
            .unwrap();
        Self {
            child,
            notes,
            address,
        }
    }

    /// Returns the next line of its log.
    pub(crate) fn next_note(&mut self) -> String {
        let mut line = String::new();
        self.notes.read_line(&mut line).unwrap();
        line
    }

    /// Returns its resident memory.
    pub(crate) fn rss_bytes(&self) -> usize {
        let pages = fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap();
        let resident = pages.split_whitespace().nth(1).unwrap();
        resident.parse::<usize>().unwrap() * 4096
    }

    /// Returns the number of its open descriptors.
    pub(crate) fn open_files(&self) -> usize {
        let files = fs::read_dir(format!("/proc/{}/fd", self.child.id()));
        files.unwrap().count()
    }

    pub(crate) fn with_data(folder: &Path) -> Self {
        Self::start(&["--data-dir", folder.to_str().unwrap()])
    }

    /// Starts it and kills it after a time, however far it has come.
    pub(crate) fn kill_early(folder: &Path, after: Duration) {
        let mut child = Command::new(BINARY)
            .args(["--listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Any instant of the start is what the caller tests.
        thread::sleep(after);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    pub(crate) fn end(self, signal: Signal) -> Option<i32> {
        self.signal(signal);
        self.ended()
    }

    /// Waits for its end, caused by something else.
    pub(crate) fn ended(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    pub(crate) async fn channel(&self) -> (Connection, Channel) {
        let uri = format!("amqp://guest:guest@{}/%2f", self.address);
        let connection = Connection::connect(&uri, ConnectionProperties::default())
            .await
            .unwrap();
        let channel = connection.create_channel().await.unwrap();
        (connection, channel)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn publish(channel: &Channel, number: u32, mode: u8) {
    assert!(support::publish(channel, "kept", mode, &number.to_be_bytes()).await);
}

#[test]
fn confirmed_messages_survive_a_kill_and_acknowledged_ones_do_not_return() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Process::with_data(folder.path());
    run(async {
        let (_connection, channel) = broker.channel().await;
        declare(&channel, "kept", true).await;
        select_confirms(&channel).await;
        for number in 0..20 {
            publish(&channel, number, 2).await;
        }
        publish(&channel, 99, 1).await;
        let first = get(&channel, "kept").await.unwrap();
        first.ack(BasicAckOptions::default()).await.unwrap();
        // Later records of the log are on disk no earlier.
        publish(&channel, 20, 2).await;
    });
    assert_eq!(broker.end(Signal::SIGKILL), None);

    let broker = Process::with_data(folder.path());
    run(async {
        let (_connection, channel) = broker.channel().await;
        assert_eq!(declare(&channel, "kept", true).await, 20);
        for number in 1_u32..=20 {
            let options = BasicGetOptions { no_ack: true };
            let message = channel.basic_get("kept".into(), options).await.unwrap();
            let message = message.unwrap();
            assert_eq!(message.data, number.to_be_bytes());
            assert!(message.redelivered);
        }
    });
    assert_eq!(broker.end(Signal::SIGTERM), Some(0));

    let broker = Process::with_data(folder.path());
    run(async {
        let (_connection, channel) = broker.channel().await;
        assert_eq!(declare(&channel, "kept", true).await, 0);
    });
    assert_eq!(broker.end(Signal::SIGTERM), Some(0));
}

#[test]
fn a_damaged_log_stops_the_start_and_salvage_starts_with_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let broker = Process::with_data(folder.path());
    run(async {
        let (_connection, channel) = broker.channel().await;
        declare(&channel, "kept", true).await;
        select_confirms(&channel).await;
        for number in 0xABCD_0000..0xABCD_0010 {
            publish(&channel, number, 2).await;
        }
    });
    assert_eq!(broker.end(Signal::SIGTERM), Some(0));
    let mut files = fs::read_dir(folder.path()).unwrap();
    let segment = files.find_map(|file| {
        let path = file.unwrap().path();
        path.extension()
            .is_some_and(|end| end == "log")
            .then_some(path)
    });
    let segment = segment.unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    let body = 0xABCD_0007_u32.to_be_bytes();
    let at = bytes.windows(4).position(|part| part == body).unwrap();
    bytes[at] ^= 1;
    fs::write(&segment, bytes).unwrap();

    let refused = Command::new(BINARY)
        .args(["--listen", "127.0.0.1:0", "--data-dir", path])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let complaint = String::from_utf8(refused.stderr).unwrap();
    assert!(complaint.contains("--salvage"), "{complaint}");
    // The second time there is nothing to salvage.
    for _ in 0..2 {
        let broker = Process::start(&["--data-dir", path, "--salvage"]);
        run(async {
            let (_connection, channel) = broker.channel().await;
            assert_eq!(declare(&channel, "kept", true).await, 15);
        });
        assert_eq!(broker.end(Signal::SIGTERM), Some(0));
    }
}

#[test]
fn two_brokers_do_not_share_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let _first = Process::with_data(folder.path());
    let path = folder.path().to_str().unwrap();
    let second = Command::new(BINARY)
        .args(["--listen", "127.0.0.1:0", "--data-dir", path])
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(1));
    let complaint = String::from_utf8(second.stderr).unwrap();
    assert!(complaint.contains("BROKER_DATA_DIR"), "{complaint}");
}

#[test]
fn a_wrong_option_is_named_and_exits_with_2() {
    let output = Command::new(BINARY)
        .env("BROKER_USER", "nobody")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_contains(&complaint, &["BROKER_USER", "guest:guest"]);
}

fn call(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(BINARY).args(arguments).output().unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[test]
fn a_generated_file_is_read_back_unchanged_and_never_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["first.toml", "second.toml"].map(|name| folder.path().join(name));
    let [first, second] = [&first, &second].map(|path| path.to_str().unwrap());
    let no_errors = (Some(0), String::new());
    assert_eq!(call(&["--generate-config", first]), no_errors);
    assert_eq!(
        call(&["--config", first, "--generate-config", second]),
        no_errors
    );
    let [text, copy] = [first, second].map(|path| fs::read_to_string(path).unwrap());
    assert_eq!(text, copy);
    let (code, error) = call(&["--generate-config", first]);
    assert!(code == Some(2) && error.contains(first), "{error}");
    let broker = Process::start(&["--config", first]);
    Raw::connect(&broker.address);
}

#[test]
fn settings_are_read_from_a_file_and_passwords_from_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let user = write("user", "guest:a,b\n");
    let config = format!("user = ['@{user}']\nvhost = ['/', 'x']\nheartbeat = 7\n");
    let config = write("config", &config);
    let broker = Process::start(&["--config", &config, "--heartbeat", "8"]);
    let mut client = Raw::greet(&broker.address, &greeting("a,b", "x"));
    client.await_method((20, 11));
    let written = folder.path().join("written");
    let written = written.to_str().unwrap();
    call(&[
        "--config",
        &config,
        "--heartbeat",
        "8",
        "--generate-config",
        written,
    ]);
    let written = fs::read_to_string(written).unwrap();
    assert!(written.contains("\nheartbeat = 8\n"), "{written}");

    for (text, words) in [
        ("user = ['@/nowhere/user']", ["user: ", "/nowhere/user"]),
        ("user = ['guest']", ["user: ", "guest:guest"]),
        ("heartbeat = true", ["heartbeat: ", "number"]),
        ("heart_beat = 1", ["heart_beat", "heartbeat"]),
    ] {
        let config = write("config", text);
        let (code, error) = call(&["--config", &config]);
        assert_eq!(code, Some(2), "{error}");
        let is_named = words.iter().all(|word| error.contains(word));
        assert!(is_named && error.contains(&config), "{text}: {error}");
    }
}

#[test]
fn sigterm_closes_clients_with_320_and_exits_with_0() {
    let broker = Process::start(&[]);
    run(async {
        let (connection, channel) = broker.channel().await;
        broker.signal(Signal::SIGTERM);
        while connection.status().connected() {
            // Any method will do: it ends with the connection.
            let asked = channel
                .basic_get("none".into(), BasicGetOptions::default())
                .await;
            assert!(asked.is_err());
        }
    });
    assert_eq!(broker.end(Signal::SIGTERM), Some(0));
}
