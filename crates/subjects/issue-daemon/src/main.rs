//! The command `issue-daemon`: options, signals, exit codes.

use std::process::ExitCode;

use anyhow::Context as _;
use daemon_kit::activation::{PassedSocket, passed_socket};
use daemon_kit::cli::{exit_code, parse_args, print_note, wrong_call};
use daemon_kit::{Signals, open_files};
use issue_daemon::{Config, Daemon, Options};
use nix::sys::socket::SockType;
use tokio::runtime::Builder;
use tokio::task::LocalSet;

const NAME: &str = env!("CARGO_PKG_NAME");

fn main() -> ExitCode {
    // Must come first: it takes descriptors by their numbers.
    let passed = match passed_socket() {
        Ok(passed) => passed,
        Err(error) => return wrong_call(NAME, &error),
    };
    if passed
        .as_ref()
        .is_some_and(|passed| passed.kind != SockType::Stream)
    {
        return wrong_call(
            NAME,
            "LISTEN_FDS: the passed socket is not of type stream: pass one of that type",
        );
    }
    let options: Options = match parse_args(build_version::version!()) {
        Ok(options) => options,
        Err(code) => return code,
    };
    give_long_answers_back();
    exit_code(NAME, serve(options.config(), passed))
}

/// Lets each long answer have pages of its own, which the system gets back with it. By default, glibc raises the size of
/// such blocks to the size of those that are freed: of three lists of 13 MB that were read, 50 MiB stayed.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "only the C library can be told so")]
fn give_long_answers_back() {
    const FROM_BYTES: i32 = 1 << 20;
    // SAFETY: sets a number (mallopt(3)), before there is another thread.
    unsafe { nix::libc::mallopt(nix::libc::M_MMAP_THRESHOLD, FROM_BYTES) };
}

/// Other C libraries have no such setting.
#[cfg(not(target_env = "gnu"))]
fn give_long_answers_back() {}

fn serve(config: Config, passed: Option<PassedSocket>) -> anyhow::Result<()> {
    open_files::raise_limit()?;
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let tasks = LocalSet::new();
    let ended = tasks.block_on(&runtime, async {
        // Before anything else, so that a signal never ends the process without its cleanup.
        let mut signals = Signals::new()?;
        let daemon = Daemon::start(config, passed.map(|passed| passed.socket))?;
        print_note(
            NAME,
            format_args!("listening on {}", daemon.socket().display()),
        );
        if let Some(address) = daemon.metrics_address() {
            print_note(NAME, format_args!("metrics on {address}"));
        }
        let ended = signals.run_until_shutdown(|asked| daemon.run(asked)).await;
        ended.unwrap_or(Ok(()))
    });
    runtime.shutdown_background();
    ended
}
