//! System calls that are interrupted.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use harness_testing::program::CompletedRun;
use nix::sys::signal::{Signal, kill};

use super::{
    can_trace, end, folders, is_undisturbed, on_each, wait_for_next_second, wait_until_under_way,
};
use crate::support::Started;

/// Calls that the kernel interrupts. Writing to an event descriptor, as Tokio does, is not among them.
const CALLS: &str =
    "read,recvfrom,sendto,recvmsg,epoll_wait,poll,ppoll,accept4,fsync,clock_nanosleep";

#[test]
fn every_second_call_that_is_interrupted_costs_nothing() {
    if !can_trace() {
        return;
    }
    on_each(|driver| {
        let (folder, run) = folders();
        driver.with_server(|address| {
            let started = Started::spawn(&mut driver.short_call_on(&run, address));
            wait_until_under_way(&run);
            let inject = format!("inject={CALLS}:error=EINTR:when=1+2");
            let mut strace = Command::new("strace");
            strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &inject, "-p"]);
            let strace = Started::spawn(strace.arg(started.pid.to_string()));
            // It is not ended by a signal: Tokio reads signals from a socket whose reads nothing interrupts.
            is_undisturbed(driver, &CompletedRun::read(&started.end(), folder.path()));
            strace.end();
        });
    });
}

#[test]
fn storm_of_signals_costs_nothing() {
    let signals = [
        Signal::SIGWINCH,
        Signal::SIGCHLD,
        Signal::SIGXFSZ,
        Signal::SIGSTOP,
        Signal::SIGCONT,
    ];
    on_each(|driver| {
        let (folder, run) = folders();
        driver.with_server(|address| {
            let started = Started::spawn(&mut driver.call_on(&run, address));
            let pid = started.pid;
            wait_until_under_way(&run);
            let has_ended = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    while !has_ended.load(Ordering::Relaxed) {
                        for signal in signals {
                            // The process may have ended; until it is waited for, nobody else has its number.
                            let _ = kill(pid, signal);
                        }
                        // Otherwise the process does nothing but take signals.
                        thread::sleep(Duration::from_millis(1));
                    }
                });
                wait_for_next_second(&run);
                wait_for_next_second(&run);
                let ran = end(started, folder.path());
                has_ended.store(true, Ordering::Relaxed);
                is_undisturbed(driver, &ran);
            });
        });
    });
}
