//! Names of servers whose addresses refuse or change.

use std::fs;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;

use harness_testing::program::ended_with;

use super::{
    DRIVERS, Mount, end, folders, is_undisturbed, on_each_of_tcp, wait_for_next_second,
    wait_until_under_way,
};
use crate::support::Started;

/// An address that the resolver puts before others, as in `localhost`; nobody listens on it.
const FIRST: &str = "::1 target.test\n";
const REFUSES: &str = "127.0.0.9 target.test\n";
const SERVES: &str = "127.0.0.1 target.test\n";
const ALSO_SERVES: &str = "127.0.0.2 target.test\n";

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

/// Listens on an address, and forwards connections to another one.
fn forward(from: SocketAddr, to: SocketAddr) {
    let listener = TcpListener::bind(from).unwrap();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(to).unwrap();
            for (mut from, mut to) in [(&client, &server), (&server, &client)]
                .map(|(from, to)| (from.try_clone().unwrap(), to.try_clone().unwrap()))
            {
                thread::spawn(move || {
                    let _ = io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                });
            }
        }
    });
}

/// Connections go to every address of a name in turn, and the result says so. What refuses in the run is named.
#[test]
fn all_addresses_of_a_name_have_their_part_of_the_load() {
    let (folder, run) = folders();
    let hosts = folder.path().join("hosts");
    fs::write(&hosts, [FIRST, REFUSES, SERVES, ALSO_SERVES].concat()).unwrap();
    let from = ["--bind", hosts.to_str().unwrap()];
    let Some(_mount) = Mount::create(&from, Path::new("/etc/hosts")) else {
        return;
    };
    let http = DRIVERS.iter().find(|driver| driver.protocol == "http");
    let http = http.unwrap();
    http.with_server(|url| {
        let address = url.strip_prefix("http://").unwrap();
        let address: SocketAddr = address.split('/').next().unwrap().parse().unwrap();
        forward(([127, 0, 0, 2], address.port()).into(), address);
        let url = url.replace("127.0.0.1", "target.test");
        let started = Started::spawn(&mut http.call_on(&run, &url));
        wait_until_under_way(&run);
        let ran = end(started, folder.path());
        is_undisturbed(http, &ran);
        assert_eq!(ran.result.count("addresses"), 2);
        let note = "connections went to 2 addresses in turn";
        assert!(ran.stdout.contains(note), "{}", ran.stdout);
        for unused in ["[::1]", "127.0.0.9"] {
            let note = format!("{unused}:{}, which is not used", address.port());
            assert!(ran.stderr.contains(&note), "{}", ran.stderr);
        }
    });
}
