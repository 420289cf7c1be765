//! Typical mistakes in calls: each message says what is wrong, where, and what to do.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;

use harness_testing::mistakes::check;
use harness_testing::program::ended_with;

#[test]
fn a_wrong_call_is_named_with_its_remedy() {
    let web_server = |status: &'static str| {
        let web = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = format!("etcd://{}", web.local_addr().unwrap());
        std::thread::spawn(move || {
            let (mut client, _) = web.accept().unwrap();
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 9\r\n\r\nnone\nhere");
            client.write_all(answer.as_bytes()).unwrap();
            let _ = client.read_to_end(&mut Vec::new());
        });
        target
    };
    let (missing, other) = (web_server("404 Not Found"), web_server("200 OK"));
    let long = format!("/{}", "x".repeat(120));
    check(
        env!("CARGO_BIN_EXE_issue-stress"),
        &[],
        &format!(
            "
            --clients 5 => use --agents:
            -o x.json => use --output:
            /no/such.sock => no daemon answers at /no/such.sock … start it … leave it out
            postgresql:/no/such => /no/such … start it … correct the target
            redis://127.0.0.1:6379 => TARGET … only its Unix socket … write redis:SOCKET
            redis:/no/such => /no/such … start it … correct the target
            etcd://127.0.0.1:70000 => 70000 … a port is from 1 to 65535
            / => TARGET … a folder … path of the socket in it
            redis:/ => TARGET … a folder
            '' => TARGET … path is empty
            etcd://127.0.0.1:1 => 127.0.0.1:1 … start it
            issue-deamon => did you mean --daemon issue-daemon?
            --scenario polling => --scenario … polling-agents
            {long} => TARGET … 1 to 107 bytes
            {missing} => status 404: none: check that this is the database
            {other} => not one of etcd: none: check that this is the database
        "
        ),
    );
}

#[test]
fn one_database_is_not_divided_over_daemons_for_lack_of_descriptors() {
    let mut limited = Command::new("prlimit");
    let call = [
        "--nofile=109",
        env!("CARGO_BIN_EXE_issue-stress"),
        "-a",
        "10",
    ];
    let output = limited.args(call).output().unwrap();
    ended_with(&output, 5, &["the daemon needs 110 open files"], &call);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(!message.contains("--instances"), "{message}");
}
