//! Servers that are killed, stopped, slow or unreachable, or that break off, under load.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use harness_testing::peer::serve;
use harness_testing::processes::children;
use harness_testing::program::CompletedRun;
use harness_testing::result;
use nix::libc::linger;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::Pid;

use super::{
    Driver, end, folders, is_undisturbed, on_each, on_each_of_tcp, wait_for_next_second,
    wait_until_under_way,
};
use crate::support::Started;

/// Asserts that operations succeeded and then failed, and that each has one end.
#[track_caller]
fn has_failures(driver: &Driver, ran: &CompletedRun) {
    let CompletedRun { result, stderr, .. } = ran;
    result.adds_up();
    let operations = &result["operations"];
    assert!(result.operations("ok") > 0, "{driver:?}: {operations}");
    let bad = result.operations("failed") + result.operations("unfinished");
    assert!(bad > 0, "{driver:?}: {operations}");
    assert_ne!(result["verdict"], "VALID", "{driver:?}");
    assert_eq!(ran.code, 1, "{driver:?}: {stderr}");
}

#[test]
fn daemon_that_is_killed_ends_the_run_and_is_named() {
    on_each(|driver| {
        let (folder, run) = folders();
        let started = Started::spawn(&mut driver.call(&run));
        wait_until_under_way(&run);
        let is_daemon = |pid: &&i32| {
            let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
            program.to_string_lossy().ends_with("-daemon")
        };
        let pids = children(started.pid);
        let daemon = *pids
            .iter()
            .find(is_daemon)
            .expect("it has launched a daemon");
        kill(Pid::from_raw(daemon), Signal::SIGKILL).unwrap();
        let ran = CompletedRun::read(&started.end(), folder.path());
        ran.result.adds_up();
        let died = ran.result.warning("DaemonDied");
        let died = died.unwrap_or_else(|| panic!("{driver:?}: {}", ran.result["warnings"]));
        assert!(
            died["message"].as_str().unwrap().contains("SIGKILL"),
            "{driver:?}: {died}"
        );
        assert!(ran.stdout.contains("SIGKILL"), "{driver:?}: {}", ran.stdout);
        assert_eq!(
            (ran.code, &ran.result["verdict"]),
            (1, &"INVALID".into()),
            "{driver:?}"
        );
    });
}

#[test]
fn server_that_is_stopped_fails_what_it_does_not_answer_in_time() {
    on_each(|driver| {
        let (folder, run) = folders();
        driver.with_daemon(|address, daemon| {
            let started = Started::spawn(&mut driver.impatient_call_on(&run, address));
            wait_until_under_way(&run);
            kill(daemon, Signal::SIGSTOP).unwrap();
            result::wait_for(&run, "failed", 1);
            has_failures(driver, &end(started, folder.path()));
        });
    });
}

#[test]
fn server_that_pauses_is_charged_for_its_pause_and_loses_nothing() {
    on_each(|driver| {
        let (folder, run) = folders();
        driver.with_daemon(|address, daemon| {
            let started = Started::spawn(&mut driver.call_on(&run, address));
            wait_until_under_way(&run);
            kill(daemon, Signal::SIGSTOP).unwrap();
            // The pause is what is measured.
            thread::sleep(Duration::from_millis(400));
            kill(daemon, Signal::SIGCONT).unwrap();
            wait_for_next_second(&run);
            let ran = end(started, folder.path());
            is_undisturbed(driver, &ran);
            let series = ran.result["series"].as_array().unwrap();
            let longest_ns = series
                .iter()
                .filter_map(|series| series["max_ns"].as_u64())
                .max();
            assert!(longest_ns > Some(300_000_000), "{driver:?}: {longest_ns:?}");
        });
    });
}

/// Starts a proxy to a server. Once `begins` is true, it passes only as many bytes of the server on as `limit` returns
/// for the number of the connection; then `cut` gets the connection, with further bytes of the server to be read.
fn proxy(
    server: SocketAddr,
    begins: &Arc<AtomicBool>,
    limit: fn(usize) -> usize,
    cut: fn(&TcpStream, &TcpStream),
) -> SocketAddr {
    let (begins, count) = (Arc::clone(begins), AtomicUsize::new(0));
    serve(move |mut client| {
        let mut server = TcpStream::connect(server).ok()?;
        let (mut from, mut to) = (client.try_clone().ok()?, server.try_clone().ok()?);
        thread::spawn(move || io::copy(&mut from, &mut to));
        let mut left = limit(count.fetch_add(1, Ordering::Relaxed));
        let mut buffer = [0; 4_096];
        while let Ok(length @ 1..) = server.read(&mut buffer) {
            let mut passed = length;
            if begins.load(Ordering::Relaxed) {
                passed = length.min(left);
                left -= passed;
            }
            client.write_all(&buffer[..passed]).ok()?;
            if passed < length {
                cut(&client, &server);
            }
        }
        client.shutdown(Shutdown::Read).ok()
    })
}

/// Runs a load through a proxy, and returns the result.
fn through_proxy(
    driver: &Driver,
    limit: fn(usize) -> usize,
    cut: fn(&TcpStream, &TcpStream),
) -> CompletedRun {
    let (folder, run) = folders();
    let mut ran = None;
    driver.with_server(|address| {
        let port = address.rsplit(':').next().unwrap();
        let port = port.split('/').next().unwrap();
        let begins = Arc::new(AtomicBool::new(false));
        let server = SocketAddr::from(([127, 0, 0, 1], port.parse().unwrap()));
        let proxy = proxy(server, &begins, limit, cut);
        let address = address.replace(port, &proxy.port().to_string());
        let started = Started::spawn(&mut driver.impatient_call_on(&run, &address));
        wait_until_under_way(&run);
        begins.store(true, Ordering::Relaxed);
        result::wait_for(&run, "failed", 1);
        wait_for_next_second(&run);
        ran = Some(end(started, folder.path()));
    });
    ran.unwrap()
}

#[test]
fn server_that_is_unreachable_without_a_word_fails_what_is_open() {
    on_each_of_tcp(|driver| {
        // Nothing of the server is passed on, and nothing is closed.
        let ran = through_proxy(driver, |_| 0, |_, _| {});
        has_failures(driver, &ran);
    });
}

#[test]
fn resets_in_every_state_of_a_connection_are_failures_of_their_own() {
    on_each_of_tcp(|driver| {
        let reset = |client: &TcpStream, server: &TcpStream| {
            let now = linger {
                l_onoff: 1,
                l_linger: 0,
            };
            setsockopt(client, sockopt::Linger, &now).unwrap();
            // The reading thread ends, so that both copies of the socket are closed. The driver may have closed first.
            let _ = client.shutdown(Shutdown::Read);
            let _ = server.shutdown(Shutdown::Both);
        };
        // From nothing, through the handshake, to some answers.
        let ran = through_proxy(driver, |connection| connection * 37 % 1_500, reset);
        has_failures(driver, &ran);
    });
}
