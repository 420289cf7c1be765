//! Limits of open files.

use harness_testing::program::ended_with;

use super::{by, folders, on_each};

#[test]
fn too_few_descriptors_are_refused_with_two_commands_that_help() {
    on_each(|driver| {
        let (_folder, run) = folders();
        driver.with_server(|address| {
            let call = driver.call_on(&run, address);
            let output = by(["prlimit", "--nofile=90"], &call).output().unwrap();
            let words = [
                "open files",
                "RLIMIT_NOFILE",
                "sudo prlimit --pid",
                "ulimit -Hn",
            ];
            ended_with(&output, 5, &words, driver);
            assert!(!run.exists(), "{driver:?}");
        });
    });
}
