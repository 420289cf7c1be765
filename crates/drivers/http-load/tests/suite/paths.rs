//! Tests that the requested path is the one that the URL or the manifest names.

use std::fs;
use std::process::Command;

use harness_testing::program::Program;

use crate::program::{PROGRAM, program};
use crate::servers::well;

/// A web server of Python whose only file is `/hello.txt`.
const MINE: &str = r#"
about  = "a web server"
serves = ["http"]
run    = ["python3", "-m", "http.server", "{port}", "--bind", "127.0.0.1", "--directory", "{dir}"]
ready  = { tcp = "127.0.0.1:{port}" }
url    = "http://127.0.0.1:{port}/hello.txt"
"#;

/// Every request is for the path as typed, and the sentence of the plan names it.
#[test]
fn a_url_is_requested_as_typed_also_without_a_path() {
    for (typed, path) in [
        ("", "/"),
        ("/", "/"),
        ("?x=1", "/?x=1"),
        ("/a/b?c=d#e", "/a/b?c=d"),
    ] {
        let server = well();
        let url = format!("http://{}{typed}", server.address());
        let ran = program(&[&url, "-c", "1", "-d", "200ms", "--warmup", "0s"]).run();
        let sentence = ran.result["plan_sentence"].as_str().unwrap();
        assert!(sentence.starts_with(&format!("GET {path}: ")), "{sentence}");
        let line = format!("GET {path} HTTP/1.1\r\n");
        for request in server.seen() {
            let request = String::from_utf8_lossy(&request).into_owned();
            assert!(request.starts_with(&line), "{typed:?}: {request}");
        }
        assert!(server.finish().requests > 2);
    }
}

#[test]
fn a_named_daemon_is_checked_and_asked_for_the_path_of_its_manifest() {
    let folder = tempfile::tempdir().unwrap();
    let mine = folder.path().join("daemons/mine");
    fs::create_dir_all(&mine).unwrap();
    fs::write(mine.join("daemon.toml"), MINE).unwrap();
    fs::write(mine.join("hello.txt"), "Hello, load.\n").unwrap();
    let mut check = Command::new(PROGRAM);
    check.args(["check", "--daemon", "mine"]);
    check.current_dir(&folder).env_remove("DROVER_ROOT");
    let checked = check.output().unwrap();
    let shown = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "{checked:?}");
    assert!(shown.contains("13 bytes"), "{shown}");
    let call = ["--quiet", "--daemon", "mine", "-c", "1", "-d", "500ms"];
    let mut call = Program::new(PROGRAM).args(call);
    call.command()
        .current_dir(&folder)
        .env_remove("DROVER_ROOT");
    let ran = call.run();
    assert_eq!(ran.result.operations("failed"), 0, "{}", ran.stderr);
    assert_eq!(ran.result["answer"]["length"], 13, "{}", ran.result);
    let sentence = ran.result["plan_sentence"].as_str().unwrap();
    assert!(sentence.starts_with("GET /hello.txt: "), "{sentence}");
}
