//! Disks, folders and logs that fail.

use std::fs::{self, File};
use std::io::{PipeWriter, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd as _;
use std::thread;

use harness_testing::processes::wait_until;
use load::clock;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;

use super::{
    Process, REDIS, STRACE, Subject, UNSHARE, can_run, on_daemons, on_each_daemon, requests,
};

/// The end of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Log {
    /// A file on a full disk.
    Full,
    /// A pipe whose reader has ended.
    Closed,
    /// A full pipe whose reader reads nothing.
    Unread,
}

#[test]
fn a_log_that_takes_nothing_delays_nobody() {
    if !can_run(REDIS) {
        return;
    }
    on_each_daemon(|subject| {
        for log in [Log::Full, Log::Closed, Log::Unread] {
            let redis = (subject.protocol == "presence").then(|| subject.start_redis("127.0.0.1"));
            let mut command = subject.command(&[]);
            let (reader, writer) = std::io::pipe().unwrap();
            match log {
                Log::Full => {
                    let full = File::options().write(true).open("/dev/full");
                    command.stderr(full.unwrap())
                }
                Log::Closed | Log::Unread => command.stderr(writer.try_clone().unwrap()),
            };
            command.env("HTTP_DAEMON_LOGGING_LEVEL", "debug").env(
                "REDIS_URL",
                format!("redis://127.0.0.1:{}", subject.spare_port()),
            );
            let process = subject.start_by(command);
            let reader = (log == Log::Unread).then_some(reader);
            if reader.is_some() {
                fill(writer);
            }
            let is_up = |up| subject.metric("presence_redis_up") == up;
            match redis {
                Some(redis) => {
                    drop(redis);
                    wait_until("Redis is missed", || is_up(0));
                    let _again = subject.start_redis("127.0.0.1");
                    wait_until("Redis is used", || is_up(1));
                }
                None => (0..20).for_each(|_| send_what_is_logged(subject)),
            }
            assert!(subject.serves(), "{log:?}");
            assert_eq!(process.stop(), Some(0), "{log:?}");
        }
    });
}

/// Fills a pipe, and keeps it full until its reader is dropped.
fn fill(mut writer: PipeWriter) {
    let end = writer.try_clone().unwrap();
    thread::spawn(move || while writer.write_all(&[b'x'; 4096]).is_ok() {});
    wait_until("the pipe is full", || {
        let mut polled = [PollFd::new(end.as_fd(), PollFlags::POLLOUT)];
        poll(&mut polled, PollTimeout::ZERO).unwrap() == 0
    });
}

/// Does what a daemon logs, and waits for its end.
fn send_what_is_logged(subject: &Subject) {
    let bytes = match subject.protocol {
        "fdpass" => {
            let sender = requests::handoff(&subject.socket()).unwrap();
            requests::pass(&sender, &[]).unwrap();
            return;
        }
        "amqp" => {
            let mut bytes = requests::publishing();
            let user = bytes.windows(6).position(|part| part == b"\0guest");
            bytes[user.unwrap() + 1] = b'G';
            bytes
        }
        "http" => b"no request\r\n\r\n".to_vec(),
        _ => return,
    };
    let mut stream = subject.connect().unwrap();
    // It may end while it is being sent to.
    let _ = stream.write_all(&bytes);
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
fn a_removed_socket_is_a_problem_of_health() {
    on_daemons(&["rust-streaming", "issue-daemon"], |subject| {
        let process = subject.start();
        let health = || subject.page("/healthz").unwrap();
        assert!(health().starts_with("HTTP/1.1 200"), "{}", health());
        fs::remove_dir_all(subject.socket().parent().unwrap()).unwrap();
        let problem = format!("{} was removed", subject.socket().display());
        assert!(health().starts_with("HTTP/1.1 503"), "{}", health());
        assert!(health().contains(&problem), "{}", health());
        assert_eq!(process.stop(), Some(0));
    });
}

/// The issue daemon says so in its answers: its own tests show that.
#[test]
fn in_a_removed_data_folder_nothing_is_confirmed() {
    on_daemons(&["broker-daemon", "http-daemon"], |subject| {
        let mut process = subject.start();
        fs::remove_dir_all(subject.data()).unwrap();
        let refused = subject.request().unwrap_err().to_string();
        if subject.protocol == "http" {
            assert!(refused.starts_with("HTTP/1.1 404"), "{refused}");
            return;
        }
        wait_until("it logs the reason", || {
            subject.logged().contains("the disk failed")
        });
        assert!(
            subject.logged().contains("was removed"),
            "{}",
            subject.logged()
        );
        assert_eq!(subject.metric("broker_disk_out"), 1);
        process.signal(Signal::SIGTERM);
        assert_eq!(process.ended().code(), Some(1));
    });
}

/// Each worker begins when it gets a CPU, while others may serve already. Here none begins before the folder is removed:
/// the daemon waits to print its addresses.
#[test]
fn a_folder_removed_before_the_workers_begin_is_one_without_files() {
    on_daemons(&["http-daemon"], |subject| {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut command = subject.command(&[]);
        command.stderr(writer.try_clone().unwrap());
        fill(writer);
        let _process = Process::spawn(&mut command);
        // On the port of the metrics it listens last.
        let last = SocketAddr::from(([127, 0, 0, 1], subject.ports[1].port()));
        wait_until("it listens", || TcpStream::connect(last).is_ok());
        fs::remove_dir_all(subject.data()).unwrap();
        drop(reader);
        let refused = subject.request().unwrap_err().to_string();
        assert!(refused.starts_with("HTTP/1.1 404"), "{refused}");
    });
}

/// Starts a daemon whose folders, for data and for its socket, are a file system of their own that only it sees.
/// `script` has the options of mount as `$1`, the folders as `$2` and `$3`, and the command behind them.
fn start_mounted(subject: &Subject, script: &str, options: &str) -> Process {
    let folders = [
        subject.data(),
        subject.socket().parent().unwrap().to_owned(),
    ];
    let [data, socket] = folders.map(|folder| folder.to_string_lossy().into_owned());
    let runner = [
        "unshare", "-m", "sh", "-c", script, "sh", options, &data, &socket,
    ];
    Process::spawn(&mut subject.command(&runner))
}

#[test]
fn a_start_on_a_read_only_or_full_disk_exits_with_1_and_names_the_path() {
    if !can_run(UNSHARE) {
        return;
    }
    let names = [
        "rust-streaming",
        "broker-daemon",
        "http-daemon",
        "issue-daemon",
    ];
    on_daemons(&names, |subject| {
        let script =
            "mount -t tmpfs -o $1 none $2; mount -t tmpfs -o $1 none $3; shift 3; exec \"$@\"";
        for (options, reason) in [
            ("ro", "Read-only file system"),
            ("nr_inodes=1", "No space left on device"),
        ] {
            let mut process = start_mounted(subject, script, options);
            assert_eq!(process.ended().code(), Some(1), "{}", subject.logged());
            let log = subject.logged();
            let line = log.lines().last().unwrap();
            let folder = subject.folder.path().to_string_lossy();
            assert!(line.contains(reason) && line.contains(&*folder), "{line}");
        }
    });
}

/// The first start makes one file of three.
#[test]
fn files_for_which_there_was_no_room_are_made_by_the_next_start() {
    if !can_run(UNSHARE) {
        return;
    }
    on_daemons(&["http-daemon"], |subject| {
        let script = "folder=$2; mount -t tmpfs -o $1 none $folder; shift 3; \"$@\"; \
            mount -o remount,size=1m $folder; exec \"$@\"";
        let _process = start_mounted(subject, script, "size=8k");
        wait_until("it serves", || subject.serves());
        assert!(
            subject.logged().contains("www/10kb.txt: No space left"),
            "{}",
            subject.logged()
        );
        let address = ([127, 0, 0, 1], subject.port()).into();
        assert_eq!(
            requests::get(address, "/100kb.txt")
                .unwrap()
                .matches('\0')
                .count(),
            102_400
        );
    });
}

/// The reason, in the words of each daemon: of an answer, of a page, and of the log.
#[test]
fn a_failing_disk_confirms_nothing_and_loses_nothing() {
    if !can_run(STRACE) {
        return;
    }
    on_daemons(
        &["broker-daemon", "http-daemon", "issue-daemon"],
        |subject| {
            let process = subject.start();
            let strace = process.inject("fsync,fdatasync,openat2:error=EIO");
            let refused = subject.request().unwrap_err().to_string();
            let health = || subject.page("/healthz").unwrap();
            match subject.protocol {
                // The kernel may report success for the next sync although data is lost.
                "amqp" => {
                    wait_until("it logs the reason", || {
                        subject.logged().contains("the disk failed")
                    });
                    assert_eq!(subject.metric("broker_disk_out"), 1);
                    assert!(health().contains("the disk failed"), "{}", health());
                    drop(strace);
                    assert!(!subject.serves());
                    assert_eq!(process.stop(), Some(1));
                    let _again = subject.start();
                    assert!(subject.request().unwrap() > 1);
                }
                "issue" => {
                    assert!(refused.contains("disk I/O error"), "{refused}");
                    assert_eq!(subject.metric("issue_daemon_read_only"), 1);
                    assert!(health().contains("disk I/O error"), "{}", health());
                    drop(strace);
                    wait_until("it writes again", || subject.serves());
                    assert!(health().ends_with("ok\n"), "{}", health());
                    assert_eq!(process.stop(), Some(0));
                }
                _ => {
                    assert!(refused.starts_with("HTTP/1.1 500"), "{refused}");
                    drop(strace);
                    assert!(subject.serves());
                }
            }
        },
    );
}

/// An answer promises that something is on the disk, so it takes as long as the disk does.
#[test]
fn a_slow_disk_delays_confirms_and_not_the_metrics() {
    if !can_run(STRACE) {
        return;
    }
    on_daemons(&["broker-daemon", "issue-daemon"], |subject| {
        let process = subject.start();
        let _strace = process.inject("fsync,fdatasync:delay_enter=1s");
        let start = clock::now();
        thread::scope(|scope| {
            let request = scope.spawn(|| subject.request());
            assert!(subject.page("/healthz").is_some());
            request.join().unwrap().unwrap();
        });
        assert!(clock::now() - start >= 1_000_000_000);
    });
}
