//! Steps of the system clock, which libfaketime shows to one process.

use std::env::consts::ARCH;
use std::fs;
use std::path::Path;

use harness_testing::processes::wait_until;
use harness_testing::skip;

use super::on_each_daemon;

/// A clock that is wrong must neither end connections nor expire what is stored: durations are of the monotonic clock.
#[test]
fn steps_of_the_clock_end_nothing_and_cost_no_request() {
    let library = format!("/usr/lib/{ARCH}-linux-gnu/faketime/libfaketime.so.1");
    if !Path::new(&library).is_file() {
        return skip("libfaketime, of the package libfaketime");
    }
    on_each_daemon(|subject| {
        let time = subject.folder.path().join("time");
        let set_clock = |offset: &str| {
            let new = time.with_extension("new");
            fs::write(&new, offset).unwrap();
            fs::rename(new, &time).unwrap();
        };
        set_clock("+0d");
        let mut command = subject.command(&[]);
        command
            .env("LD_PRELOAD", &library)
            .env("FAKETIME_TIMESTAMP_FILE", &time)
            .envs([
                ("FAKETIME_NO_CACHE", "1"),
                ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ]);
        let process = subject.start_by(command);
        subject.expect_answers(|| set_clock("@2040-01-01 00:00:00"));
        wait_until("its clock is another", || {
            subject.page("/healthz").unwrap().contains(" 2040 ")
        });
        subject.expect_answers(|| set_clock("@2020-01-01 00:00:00"));
        let sessions = || {
            (subject.protocol == "presence").then(|| subject.metric("presence_connections_open"))
        };
        let before = sessions();
        subject.expect_answers(|| ());
        assert_eq!(sessions(), before.map(|count| count + 100));
        assert_eq!(process.stop(), Some(0));
    });
}
