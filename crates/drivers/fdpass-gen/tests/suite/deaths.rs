//! A daemon that dies with clients in its hands.

use std::path::Path;
use std::process::Command;

use harness_testing::assert_contains;
use harness_testing::program::words;
use harness_testing::result::{self, ResultFile};

use crate::drive;

/// Takes five handoffs, answers the first correctly, and then exits with four open clients.
const DYING: &str = r#"
import os, socket, sys
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(sys.argv[1])
listener.listen(64)
held = []
while True:
    connection, _ = listener.accept()
    data, descriptors, _, _ = socket.recv_fds(connection, 65536, 1)
    connection.close()
    if not descriptors:
        continue
    held.append(descriptors[0])
    if len(held) == 1:
        os.write(descriptors[0], b'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {"content":"a"}\n\ndata: [DONE]\n\n')
        os.close(descriptors[0])
    if len(held) == 5:
        print("out of luck", file=sys.stderr, flush=True)
        os._exit(7)
"#;

const DYING_MANIFEST: &str = r#"
about   = "Dies with clients in its hands"
serves  = ["fdpass"]
needs   = [["python3", "--version"]]
run     = ["python3", "{dir}/dying.py", "{socket}"]
ready   = { unix = "{socket}" }
"#;

/// Returns a call that launches a daemon with a script and a manifest.
fn with_daemon(folder: &Path, script: &str, manifest: &str) -> Command {
    let daemon = folder.join("daemons/dying");
    std::fs::create_dir_all(&daemon).unwrap();
    std::fs::write(daemon.join("dying.py"), script).unwrap();
    std::fs::write(daemon.join("daemon.toml"), manifest).unwrap();
    let mut program = drive::program(folder);
    program
        .current_dir(folder)
        .args(["--daemon", "dying", "--messages", "1"]);
    program
}

/// Runs the dying daemon; returns the result.
fn with_a_dying_daemon(folder: &Path, arguments: &str) -> ResultFile {
    let mut program = with_daemon(folder, DYING, DYING_MANIFEST);
    program.args(["--connections", "600", "--ramp-up", "120s"]);
    let output = program.args(words(arguments)).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let result = result::read(folder);
    // Long before the planned end, and ten times what it takes.
    assert!(
        result["wall_s"].as_f64().unwrap() < 60.0,
        "the run ends with its daemon"
    );
    result
}

fn last_words(result: &ResultFile) -> &str {
    let died = result.warning("DaemonDied").expect("a warning");
    died["message"].as_str().unwrap()
}

#[test]
fn a_daemon_that_dies_half_way_leaves_a_result_with_its_last_words() {
    let folder = tempfile::tempdir().unwrap();
    let result = with_a_dying_daemon(folder.path(), "");
    assert!(last_words(&result).contains("out of luck"), "{result:?}");
    assert_eq!(result["errors"]["lost"], 4, "{}", result["errors"]);
    assert!(result::find(folder.path(), "daemon.log").is_some());
}

#[test]
fn the_run_ends_with_the_first_of_several_daemons_that_dies() {
    let folder = tempfile::tempdir().unwrap();
    let result = with_a_dying_daemon(folder.path(), "--instances 2");
    let words = last_words(&result);
    assert_contains(words, &["of 2", "out of luck"]);
    assert!(result["errors"]["lost"].as_u64().unwrap() >= 4);
    for socket in result["daemon"]["target"].as_str().unwrap().split(", ") {
        assert!(!Path::new(socket).exists(), "{socket}");
    }
}

#[test]
fn a_daemon_that_ignores_its_stop_signal_is_named_on_the_screen() {
    let folder = tempfile::tempdir().unwrap();
    // It answers every client, and ends by SIGKILL alone.
    let script = DYING
        .replace(
            "held = []",
            "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)",
        )
        .replace("held.append(descriptors[0])", "held = [descriptors[0]]");
    let manifest = format!("{DYING_MANIFEST}stop = {{ grace = '100ms' }}\n");
    let mut program = with_daemon(folder.path(), &script, &manifest);
    let output = program
        .args(["--connections", "5", "--ramp-up", "0s", "--quiet"])
        .output();
    let output = output.unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    let expected =
        "dying had not ended 100 ms after its stop signal, and was killed: `stop` in its manifest";
    assert!(message.contains(expected), "{message}");
    assert_eq!(result::read(folder.path())["operations"]["ok"], 5);
}
