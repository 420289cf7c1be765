//! Tests of files that are sent while they change, and of the memory that idle connections take.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

use crate::support::{Client, Daemon};

/// More than all buffers take between the daemon and a client that does not read.
const LARGE: usize = 50 << 20;

#[test]
fn a_file_that_shrinks_while_it_is_sent_ends_the_connection() {
    let daemon = Daemon::start("--workers 1");
    let path = daemon.www().join("large");
    File::create(&path).unwrap().set_len(LARGE as u64).unwrap();
    let mut client = daemon.connect();
    client.send(b"GET /large HTTP/1.1\r\nHost: test\r\n\r\n");
    let announced = client.head().field("content-length").unwrap().to_owned();
    assert_eq!(announced, LARGE.to_string());
    File::create(&path).unwrap();
    // Less than was announced, and then the end: no other response follows.
    client.send(b"GET /1kb.txt HTTP/1.1\r\nHost: test\r\n\r\n");
    let mut rest = Vec::new();
    let _ = client.0.read_to_end(&mut rest);
    assert!(rest.len() < LARGE, "{}", rest.len());
    assert!(rest.iter().all(|byte| *byte == 0));
    assert_eq!(daemon.get("/large").body.len(), 0);
}

#[test]
fn a_file_that_is_removed_or_replaced_while_it_is_sent_arrives_whole() {
    let daemon = Daemon::start("--workers 1");
    let path = daemon.www().join("large");
    fs::write(&path, vec![7; LARGE]).unwrap();
    let mut client = daemon.connect();
    client.send(b"GET /large HTTP/1.1\r\nHost: test\r\n\r\n");
    client.head();
    fs::remove_file(&path).unwrap();
    fs::write(&path, "new").unwrap();
    let mut body = vec![0; LARGE];
    client.0.read_exact(&mut body).unwrap();
    assert!(body.iter().all(|byte| *byte == 7));
    assert_eq!(client.get("/large").body, b"new");
    fs::remove_file(&path).unwrap();
    assert_eq!(client.get("/large").status(), 404);
}

#[test]
fn a_large_range_comes_from_its_place_whatever_keeps_the_file() {
    let bytes: Vec<u8> = (0..3_000_000_u32)
        .map(|index| (index % 251) as u8)
        .collect();
    for cache in ["false", "true"] {
        let daemon = Daemon::start(&format!("--workers 1 --cache-enabled {cache}"));
        for (name, length) in [("a", 900_000), ("b", bytes.len())] {
            fs::write(daemon.www().join(name), &bytes[..length]).unwrap();
            let mut client = daemon.connect();
            for range in [
                0..1,
                1..length,
                100_000..200_000,
                0..length,
                length - 1..length,
            ] {
                let last = range.end - 1;
                let request = format!(
                    "GET /{name} HTTP/1.1\r\nHost: test\r\nRange: bytes={}-{last}\r\n\r\n",
                    range.start
                );
                let answer = client.send(request.as_bytes()).answer();
                let wanted = format!("bytes {}-{last}/{length}", range.start);
                assert_eq!(answer.field("content-range"), Some(&*wanted));
                assert!(answer.body == bytes[range], "{wanted}");
            }
        }
    }
}

#[test]
fn a_time_that_no_date_can_name_is_the_nearest_one() {
    let daemon = Daemon::start("--workers 1");
    for (name, time, date) in [
        (
            "old",
            SystemTime::UNIX_EPOCH - Duration::from_secs(1_000_000),
            "Thu, 01 Jan 1970 00:00:00 GMT",
        ),
        (
            "new",
            SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000),
            "Tue, 02 Oct 2096 07:06:40 GMT",
        ),
    ] {
        let mut file = File::create(daemon.www().join(name)).unwrap();
        file.write_all(b"x").unwrap();
        file.set_modified(time).unwrap();
        let answer = daemon.get(&format!("/{name}"));
        assert_eq!(answer.field("last-modified"), Some(date));
    }
}

#[test]
fn an_index_is_served_and_nothing_outside_of_the_folder() {
    for cache in ["false", "true"] {
        let daemon = Daemon::start(&format!("--workers 1 --cache-enabled {cache}"));
        let (www, dir) = (daemon.www(), daemon.dir.path());
        fs::create_dir(dir.join("outside")).unwrap();
        fs::write(dir.join("outside/index.html"), "secret").unwrap();
        fs::create_dir_all(www.join("linked")).unwrap();
        fs::create_dir_all(www.join("folder/index.html")).unwrap();
        fs::create_dir_all(www.join("sub")).unwrap();
        symlink(
            dir.join("outside/index.html"),
            www.join("linked/index.html"),
        )
        .unwrap();
        symlink("../outside", www.join("outside")).unwrap();
        fs::write(www.join("sub/index.html"), "index").unwrap();
        symlink("sub", www.join("inside")).unwrap();
        for (path, status) in [
            ("/", 403),
            ("/linked/", 403),
            ("/folder/", 403),
            ("/outside/", 404),
            ("/outside", 404),
            ("/../outside/", 404),
            ("/sub/../../outside/", 404),
            ("/%2e%2e/outside/", 404),
            ("//", 404),
            ("/.", 404),
            ("/./", 404),
            ("/sub//", 404),
            ("//sub/", 404),
            ("/sub", 301),
            ("/sub/", 200),
            ("/inside/", 200),
            ("/sub/index.html", 200),
        ] {
            let answer = daemon.get(path);
            assert_eq!(answer.status(), status, "{path}: {answer:?}");
            match status {
                200 => assert_eq!(answer.text(), "index", "{path}"),
                301 => assert_eq!(answer.field("location"), Some("/sub/")),
                _ => assert!(!answer.text().contains("secret"), "{path}"),
            }
        }
    }
}

#[test]
fn an_idle_connection_takes_no_buffer() {
    let daemon = Daemon::start("--workers 1");
    let idle = |count: usize| -> Vec<Client> {
        let mut clients: Vec<Client> = (0..count).map(|_| daemon.connect()).collect();
        for client in &mut clients {
            assert_eq!(client.get("/1kb.txt").status(), 200);
        }
        clients
    };
    // Tables and buffers of the worker have their size then.
    let before = (idle(100), daemon.memory());
    let count = 1_000;
    let clients = idle(count);
    let each = (daemon.memory() - before.1) / count as u64;
    assert!(each < 1_200, "{each} bytes");
    drop(clients);
}
