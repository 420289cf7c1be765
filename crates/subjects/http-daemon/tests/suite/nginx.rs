//! The same requests to this daemon and to nginx, with the same files: the same statuses, fields and bytes.

use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, SystemTime};

use test_kit::{skip, wait_until};

use crate::support::{Answer, Client, Daemon};

const TAG: &str = "\"3b9aca00-3e8\"";
const DATE: &str = "Sun, 09 Sep 2001 01:46:40 GMT";
const EARLIER: &str = "Sun, 09 Sep 2001 01:46:39 GMT";
const LATER: &str = "Fri, 31 Dec 2100 23:59:59 GMT";

/// Fields that must be the same for a file, and those for any answer.
const OF_FILES: [&str; 5] = [
    "content-length",
    "content-type",
    "etag",
    "last-modified",
    "accept-ranges",
];
const OF_ALL: [&str; 1] = ["content-range"];

/// nginx in one process, on a Unix socket.
struct Nginx {
    child: Child,
    socket: PathBuf,
}

impl Nginx {
    fn start(folder: &Path, www: &Path) -> Self {
        let (shown, socket) = (folder.display(), folder.join("nginx.sock"));
        // A date after the last change means that there is no newer version, as RFC 9110, 13.1.3 says.
        let config = format!(
            "daemon off; master_process off; pid {shown}/nginx.pid; error_log stderr crit; events {{}}
            http {{
                access_log off; if_modified_since before;
                default_type application/octet-stream; types {{ text/plain txt; text/html html; }}
                client_body_temp_path {shown}/body; proxy_temp_path {shown}/proxy;
                fastcgi_temp_path {shown}/fastcgi; scgi_temp_path {shown}/scgi;
                uwsgi_temp_path {shown}/uwsgi;
                server {{ listen unix:{}; root {}; }}
            }}",
            socket.display(),
            www.display()
        );
        let file = folder.join("nginx.conf");
        fs::write(&file, config).unwrap();
        let child = Command::new("nginx")
            .args(["-e", "stderr", "-c"])
            .arg(&file)
            .spawn();
        let nginx = Self {
            child: child.unwrap(),
            socket,
        };
        wait_until("nginx listens", || {
            UnixStream::connect(&nginx.socket).is_ok()
        });
        nginx
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns what matters of the answer to a request, after which the connection must end.
fn ask(socket: &Path, line: &str, fields: &str) -> (u16, Vec<String>, Vec<u8>) {
    let mut client = Client(UnixStream::connect(socket).unwrap());
    client.send(
        format!("{line} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n").as_bytes(),
    );
    let (mut head, mut rest) = (client.head(), client.rest());
    without_boundary(&mut head, &mut rest);
    let is_file = matches!(head.status(), 200 | 206 | 304);
    let names = if is_file { &OF_FILES[..] } else { &[] };
    let value = |name: &&str| Some(format!("{name}: {}", head.field(name)?));
    let mut seen: Vec<String> = names.iter().chain(&OF_ALL).filter_map(value).collect();
    // That of nginx is absolute.
    if let Some(location) = head.field("location") {
        seen.push(location.trim_start_matches("http://a").to_owned());
    }
    (head.status(), seen, if is_file { rest } else { Vec::new() })
}

/// Replaces the boundary of an answer with several ranges: each server makes its own, of 20 digits.
fn without_boundary(head: &mut Answer, rest: &mut Vec<u8>) {
    let Some((_, boundary)) = head
        .field("content-type")
        .and_then(|kind| kind.split_once("boundary="))
    else {
        return;
    };
    assert_eq!(boundary.len(), 20);
    let boundary = boundary.to_owned();
    head.head = head.head.replace(&boundary, "BOUNDARY");
    let mut at = 0;
    while let Some(found) = rest[at..]
        .windows(20)
        .position(|window| window == boundary.as_bytes())
    {
        rest.splice(at + found..at + found + 20, *b"BOUNDARY");
        at += found;
    }
}

/// Starts both servers with the same files, all of which have the same time.
fn both(test: impl FnOnce(&Path, &Path)) {
    if Command::new("nginx").arg("-v").output().is_err() {
        return skip("nginx");
    }
    let folder = tempfile::tempdir().unwrap();
    let ours = folder.path().join("ours.sock");
    let daemon = Daemon::start(&format!("--workers 1 --unix {}", ours.display()));
    let www = daemon.www();
    fs::create_dir_all(www.join("sub/empty")).unwrap();
    let bytes: Vec<u8> = (0..300_000_u32).map(|index| (index % 251) as u8).collect();
    for (name, length) in [
        ("a.txt", 1_000),
        ("empty.txt", 0),
        ("large.bin", bytes.len()),
        ("index.html", 10),
        ("sub/index.html", 20),
    ] {
        fs::write(www.join(name), &bytes[..length]).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let file = File::options().write(true).open(www.join(name)).unwrap();
        file.set_modified(time).unwrap();
    }
    let nginx = Nginx::start(folder.path(), &www);
    test(&ours, &nginx.socket);
}

#[test]
fn requests_are_answered_as_nginx_answers_them() {
    let weak = format!("W/{TAG}");
    let list = format!("\"a\", {TAG}");
    let mut requests: Vec<(String, String)> = Vec::new();
    for method in ["GET", "HEAD"] {
        for path in [
            "/",
            "/?a=b",
            "/a.txt",
            "/%61.txt",
            "/empty.txt",
            "/large.bin",
            "/sub",
            "/sub?a=b",
            "/sub/",
            "/sub/empty",
            "/sub/empty/",
            "/missing",
            "/missing/",
            "/a.txt/",
        ] {
            requests.push((format!("{method} {path}"), String::new()));
        }
        for (name, value) in [
            ("If-None-Match", TAG),
            ("If-None-Match", &weak),
            ("If-None-Match", &list),
            ("If-None-Match", "*"),
            ("If-None-Match", "\"a\""),
            ("If-None-Match", "3b9aca00-3e8"),
            ("If-Modified-Since", DATE),
            ("If-Modified-Since", EARLIER),
            ("If-Modified-Since", LATER),
            ("If-Modified-Since", "Sunday, 09-Sep-01 01:46:40 GMT"),
            ("If-Modified-Since", "yesterday"),
            ("If-Match", TAG),
            ("If-Match", &weak),
            ("If-Match", &list),
            ("If-Match", "*"),
            ("If-Match", "\"a\""),
            ("If-Unmodified-Since", DATE),
            ("If-Unmodified-Since", EARLIER),
            ("If-Unmodified-Since", LATER),
        ] {
            let field = format!("{name}: {value}\r\n");
            requests.push((format!("{method} /a.txt"), field));
        }
    }
    for range in [
        "0-0",
        "5-9",
        "5-",
        "-5",
        "-1000",
        "-2000",
        "999-",
        "999-2000",
        "0-",
        "-0",
        "1000-",
        "5-4",
        "",
        "-",
        "a-b",
        "0",
        "0-0,300000-",
        "0-0,2-2",
        "5-9,-5, 0-1",
        "0-499,500-999",
        "0-499,0-499,0-499",
        "0-99999,100000-199999,299999-",
        "0-0,5-4",
        "0-0,x",
        "18446744073709551616-",
        " 1 - 2 ",
        "0-999",
    ] {
        for path in ["/a.txt", "/large.bin"] {
            let field = format!("Range: bytes={range}\r\n");
            requests.push((format!("GET {path}"), field));
        }
    }
    for (name, value) in [
        ("If-Range", TAG),
        ("If-Range", &weak),
        ("If-Range", "\"a\""),
        ("If-Range", DATE),
        ("If-Range", LATER),
        ("If-Match", "\"a\""),
        ("If-None-Match", TAG),
    ] {
        let fields = format!("Range: bytes=1-2\r\n{name}: {value}\r\n");
        requests.push(("GET /a.txt".to_owned(), fields));
    }
    requests.push(("GET /a.txt".to_owned(), "Range: lines=1-2\r\n".to_owned()));
    requests.push((
        "GET /empty.txt".to_owned(),
        "Range: bytes=0-\r\n".to_owned(),
    ));
    both(|ours, nginx| {
        let mut differences = Vec::new();
        for (line, fields) in &requests {
            let (ours, nginx) = (ask(ours, line, fields), ask(nginx, line, fields));
            if ours != nginx {
                let seen = |(status, fields, body): (_, _, Vec<u8>)| (status, fields, body.len());
                differences.push((line, fields, seen(ours), seen(nginx)));
            }
        }
        assert!(differences.is_empty(), "{differences:#?}");
    });
}

#[test]
fn where_nginx_differs_this_daemon_does_what_the_rfc_says() {
    both(|ours, nginx| {
        for (line, fields, status, of_nginx) in [
            // RFC 9110, 14.2: a range has a meaning for GET alone.
            ("HEAD /a.txt", "Range: bytes=0-0\r\n", 200, 206),
            // 14.1.2: a number beyond the end means the end, however large it is.
            (
                "GET /a.txt",
                "Range: bytes=0-99999999999999999999\r\n",
                206,
                416,
            ),
            // 13.1.4: a date that is not valid is ignored.
            ("GET /a.txt", "If-Unmodified-Since: never\r\n", 200, 412),
        ] {
            let found = (ask(ours, line, fields).0, ask(nginx, line, fields).0);
            assert_eq!(found, (status, of_nginx), "{line} {fields}");
        }
        // 13.2.2: with a tag, the date has no meaning.
        let both = format!("If-None-Match: {TAG}\r\nIf-Modified-Since: {EARLIER}\r\n");
        let found = (
            ask(ours, "GET /a.txt", &both).0,
            ask(nginx, "GET /a.txt", &both).0,
        );
        assert_eq!(found, (304, 200));
    });
}

#[test]
fn content_that_could_hide_a_request_ends_the_connection_as_with_nginx() {
    both(|ours, nginx| {
        for (fields, statuses) in [
            ("Transfer-Encoding: gzip, chunked\r\n", (501, 501)),
            ("Transfer-Encoding: chunked, chunked\r\n", (400, 501)),
            (
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                (400, 400),
            ),
            (
                "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
                (400, 400),
            ),
            ("Content-Length: 3\r\nContent-Length: 4\r\n", (400, 400)),
            ("Content-Length: +3\r\n", (400, 400)),
        ] {
            let status = |socket| {
                let mut client = Client(UnixStream::connect(socket).unwrap());
                let hidden = "0\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n";
                client
                    .send(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n{hidden}").as_bytes());
                let status = client.head().status();
                let rest = client.rest();
                assert!(!rest.windows(5).any(|bytes| bytes == b"HTTP/"), "{fields}");
                status
            };
            assert_eq!((status(ours), status(nginx)), statuses, "{fields}");
        }
    });
}
