//! Tests that the requested path is the one that the URL or the manifest names.

use std::fs;
use std::process::Command;

use harness_testing::program::{CompletedRun, Program};

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

/// The same in a session of its own, whose parent has ended.
const DETACHED: &str = r#"
about  = "a web server that detaches itself"
serves = ["http"]
run    = ["sh", "-c", "setsid -f python3 -m http.server {port} --bind 127.0.0.1 --directory {dir}; sleep 600"]
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
    let folder = folder_with(MINE);
    let mut check = Command::new(PROGRAM);
    check.args(["check", "--daemon", "mine"]);
    check.current_dir(&folder).env_remove("DROVER_ROOT");
    let checked = check.output().unwrap();
    let shown = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "{checked:?}");
    assert!(shown.contains("13 bytes"), "{shown}");
    let ran = run_in(&folder);
    assert_eq!(ran.result.operations("failed"), 0, "{}", ran.stderr);
    assert_eq!(ran.result["answer"]["length"], 13, "{}", ran.result);
    let sentence = ran.result["plan_sentence"].as_str().unwrap();
    assert!(sentence.starts_with("GET /hello.txt: "), "{sentence}");
    let apart = ran.result.warning("DaemonProcesses");
    assert!(apart.is_none(), "{}", ran.result);
}

#[test]
fn a_server_outside_the_launched_processes_makes_a_result_suspect() {
    let ran = run_in(&folder_with(DETACHED));
    let apart = ran.result.warning("DaemonProcesses").expect("it is named");
    assert_eq!(apart["severity"], "suspect");
    let message = apart["message"].as_str().unwrap();
    assert!(message.starts_with("python3"), "{message}");
}

/// Creates a project with one daemon, `mine`.
fn folder_with(manifest: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mine = folder.path().join("daemons/mine");
    fs::create_dir_all(&mine).unwrap();
    fs::write(mine.join("daemon.toml"), manifest).unwrap();
    fs::write(mine.join("hello.txt"), "Hello, load.\n").unwrap();
    folder
}

fn run_in(folder: &tempfile::TempDir) -> CompletedRun {
    let call = ["--quiet", "--daemon", "mine", "-c", "1", "-d", "500ms"];
    let mut call = Program::new(PROGRAM).args(call);
    call.command().current_dir(folder).env_remove("DROVER_ROOT");
    call.run()
}
