//! Interruptions: of system calls, and of the whole process.

use nix::sys::signal::Signal;

use super::{STRACE, can_run, on_each_daemon};

/// Waiting for events, and reading and writing files: other calls of a daemon never end with EINTR, because its sockets
/// are non-blocking.
#[test]
fn interrupted_system_calls_cost_no_request() {
    if !can_run(STRACE) {
        return;
    }
    on_each_daemon(|subject| {
        let process = subject.start();
        let calls = "epoll_wait,epoll_pwait,pread64,pwrite64";
        let _strace = process.inject(&format!("{calls}:error=EINTR:when=2+3"));
        subject.expect_answers(|| ());
        assert_eq!(process.stop(), Some(0));
    });
}

#[test]
fn a_daemon_that_is_stopped_and_continued_answers_every_request() {
    on_each_daemon(|subject| {
        let process = subject.start();
        subject.expect_answers(|| {
            for _ in 0..50 {
                process.signal(Signal::SIGSTOP);
                process.signal(Signal::SIGCONT);
            }
        });
        assert_eq!(process.stop(), Some(0));
    });
}
