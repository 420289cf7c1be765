//! Names of servers whose addresses refuse or change.

use std::fs;
use std::path::Path;

use harness_testing::program::ended_with;

use super::{
    Mount, end, folders, is_undisturbed, on_each_of_tcp, wait_for_next_second, wait_until_under_way,
};
use crate::support::Started;

/// An address that the resolver puts before others, as in `localhost`; nobody listens on it.
const FIRST: &str = "::1 target.test\n";
const REFUSES: &str = "127.0.0.9 target.test\n";
const SERVES: &str = "127.0.0.1 target.test\n";

#[test]
fn address_that_refuses_is_passed_over_and_a_change_is_for_the_next_run() {
    on_each_of_tcp(|driver| {
        let (folder, run) = folders();
        let hosts = folder.path().join("hosts");
        fs::write(&hosts, "").unwrap();
        let from = ["--bind", hosts.to_str().unwrap()];
        let Some(_mount) = Mount::create(&from, Path::new("/etc/hosts")) else {
            return;
        };
        driver.with_server(|address| {
            let address = address.replace("127.0.0.1", "target.test");
            fs::write(&hosts, [FIRST, REFUSES, SERVES].concat()).unwrap();
            let started = Started::spawn(&mut driver.call_on(&run, &address));
            wait_until_under_way(&run);
            fs::write(&hosts, REFUSES).unwrap();
            wait_for_next_second(&run);
            is_undisturbed(driver, &end(started, folder.path()));
            let mut next = driver.call_on(&folder.path().join("next"), &address);
            let refused = next.output().unwrap();
            ended_with(&refused, 2, &["Connection refused", "start the"], driver);
            fs::write(&hosts, "").unwrap();
            let unknown = next.output().unwrap();
            ended_with(&unknown, 2, &["correct the name"], driver);
        });
    });
}
