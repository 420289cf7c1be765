//! Tests of files that must be found, and of those that must not.

use std::fs;
use std::os::unix::fs::symlink;

use crate::support::Daemon;

#[test]
fn the_files_that_are_made_have_their_exact_sizes() {
    let mut daemon = Daemon::start("--workers 1");
    let mut client = daemon.connect();
    for (path, length) in [
        ("/1kb.txt", 1024),
        ("/10kb.txt", 10_240),
        ("/100kb.txt", 102_400),
    ] {
        let answer = client.get(path);
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.field("content-type"), Some("text/plain"));
        assert!(
            answer
                .field("date")
                .is_some_and(|date| date.ends_with("GMT"))
        );
        assert!(
            answer.body == vec![0; length],
            "{path}: {}",
            answer.body.len()
        );
        // HEAD has the length of GET, and there is no body: the next response follows at once.
        client.send(format!("HEAD {path} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes());
        let head = client.head();
        assert_eq!(
            (head.status(), head.field("content-length")),
            (200, Some(length.to_string().as_str()))
        );
    }
    drop(client);
    assert!(daemon.stop().success());
}

#[test]
fn nothing_outside_of_the_folder_is_ever_served() {
    for cache in ["false", "true"] {
        let daemon = Daemon::start(&format!("--cache-enabled {cache}"));
        let www = daemon.www();
        fs::write(daemon.dir.path().join("secret"), "secret").unwrap();
        symlink(daemon.dir.path().join("secret"), www.join("absolute")).unwrap();
        symlink("../secret", www.join("relative")).unwrap();
        symlink("..", www.join("up")).unwrap();
        symlink("1kb.txt", www.join("inside")).unwrap();
        fs::create_dir(www.join("sub")).unwrap();
        let outside = daemon.dir.path().join("secret");
        for path in [
            "/../secret",
            "/sub/../../secret",
            "/%2e%2e/secret",
            "/%2E%2e/secret",
            "/.%2e/secret",
            "/..%2fsecret",
            "/%2e%2e%2fsecret",
            "/sub%2f..%2f..%2fsecret",
            "/..%5csecret",
            "/..\\secret",
            "/%252e%252e/secret",
            "//secret",
            "/./../secret",
            "/absolute",
            "/relative",
            "/up/secret",
            "/up/www/1kb.txt",
            "/1kb.txt%00",
            "/%00",
            "/%",
            "/%2",
            "/%zz",
            "/%ff",
            "/sub/../1kb.txt",
            "/./1kb.txt",
            "//1kb.txt",
            "/1kb.txt/",
            &format!("/{}", outside.display()),
            &format!("/{}", "a".repeat(300)),
            &format!("/{}x", "a/".repeat(2500)),
            "/proc/self/environ",
        ] {
            let answer = daemon.get(path);
            assert_eq!(answer.status(), 404, "{path}: {answer:?}");
            assert!(!answer.text().contains("secret"), "{path}");
        }
        for path in ["/1kb.txt", "/%31kb.txt", "/inside", "/1kb.txt?x=/../y"] {
            assert_eq!(daemon.get(path).status(), 200, "{path}");
        }
    }
}
