//! Typical mistakes in calls: each message says what is wrong, where, and what to do.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use harness_testing::mistakes::{check, refused};

#[test]
fn a_wrong_call_is_named_with_its_remedy() {
    let web = TcpListener::bind("127.0.0.1:0").unwrap();
    let web_server = format!("etcd://{}", web.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut client, _) = web.accept().unwrap();
        client
            .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nnone\nhere")
            .unwrap();
        let _ = client.read_to_end(&mut Vec::new());
    });
    check(
        env!("CARGO_BIN_EXE_issue-stress"),
        &[],
        &[
            refused(&["--clients", "5"], &["use --agents:"]),
            refused(&["-o", "x.json"], &["use --output:"]),
            refused(
                &["/no/such.sock"],
                &[
                    "no daemon answers at /no/such.sock",
                    "start it",
                    "leave it out",
                ],
            ),
            refused(
                &["postgresql:/no/such"],
                &["/no/such", "start it", "correct the target"],
            ),
            refused(
                &["redis://127.0.0.1:6379"],
                &["TARGET", "only its Unix socket", "write redis:SOCKET"],
            ),
            refused(
                &["redis:/no/such"],
                &["/no/such", "start it", "correct the target"],
            ),
            refused(
                &[&format!("/{}", "x".repeat(120))],
                &["TARGET", "1 to 107 bytes"],
            ),
            refused(
                &["etcd://127.0.0.1:70000"],
                &["70000", "a port is from 1 to 65535"],
            ),
            refused(
                &[&web_server],
                &["status 404: none: check that this is the database"],
            ),
            refused(&["etcd://127.0.0.1:1"], &["127.0.0.1:1", "start it"]),
            refused(&["issue-deamon"], &["did you mean --daemon issue-daemon?"]),
            refused(
                &["--scenario", "polling"],
                &["--scenario", "polling-agents"],
            ),
        ],
    );
}
