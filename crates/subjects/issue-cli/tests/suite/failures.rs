//! Wrong calls, refusals, and an output that is closed.

use std::io::Read as _;
use std::os::unix::net::UnixListener;
use std::process::Stdio;

use issue_rpc::{database_identity, socket_path};
use serde_json::Value;

use crate::support::{Folder, text};

#[test]
fn a_wrong_call_names_the_remedy() {
    let folder = Folder::empty();
    let error = folder.refused(2, "list");
    assert!(error.contains("run `issue init`"), "{error}");
    let error = folder.refused(2, "list --db none.db");
    assert!(error.contains("issue init --db none.db"), "{error}");
    folder.done("init");
    let error = folder.refused(2, "init");
    assert!(error.contains("exists already"), "{error}");
    for (arguments, word) in [
        ("create ''", "title"),
        ("create a --priority 7", "0..=4"),
        ("create a --type story", "possible values: bug"),
        ("list --created-after yesterday", "created_after"),
        ("list --timeout soon", "not a number of seconds"),
        ("list --limit -1", "'-1'"),
        (r#"call create '{"titel":"a"}'"#, "unknown field `titel`"),
    ] {
        let error = folder.refused(2, arguments);
        assert!(error.contains(word), "{arguments:?}: {error}");
    }
}

#[test]
fn a_refusal_has_a_code_and_leaves_everything_as_it_was() {
    let folder = Folder::new();
    folder.done("create --id t-1 one");
    folder.done("create --id t-2 two --depends-on t-1");
    for (arguments, code) in [
        ("show nothing", "not_found"),
        ("show t-", "not_found"),
        ("dep add t-1 t-2", "cycle"),
        ("create again --id t-1", "conflict"),
        ("create a --depends-on nothing", "not_found"),
        ("daemon status", "unknown_operation"),
    ] {
        let output = folder.run(&format!("{arguments} --json"));
        let failure: Value = serde_json::from_slice(&output.stderr).unwrap();
        assert_eq!(failure["code"], code, "{arguments:?}: {failure}");
        let expected = if code == "unknown_operation" { 2 } else { 1 };
        assert_eq!(output.status.code(), Some(expected), "{arguments:?}");
    }
    let error = folder.refused(1, "close t-1 nothing t-2");
    assert!(
        error.contains("1 of 3 issues were done before it"),
        "{error}"
    );
    assert_eq!(folder.json("stats")["closed"], 1);
    assert_eq!(folder.json("stats")["total"], 2);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let folder = Folder::new();
    let lines = (0..2_000).map(|number| {
        format!("{{\"operation\":\"create\",\"args\":{{\"title\":\"issue number {number}\"}}}}\n")
    });
    let output = folder.run_with("batch -", &lines.collect::<String>());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut child = folder
        .command("list")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut some = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), text(&output.stderr)),
        (Some(0), String::new())
    );
}

#[test]
fn a_daemon_that_does_not_answer_is_given_up_after_the_timeout() {
    let folder = Folder::new();
    let socket = socket_path(&database_identity(&folder.database()).unwrap());
    let silent = UnixListener::bind(&socket).unwrap();
    let error = folder.refused(3, "create a --timeout 0.2");
    assert!(
        error.contains("no answer to create within 200ms"),
        "{error}"
    );
    drop(silent);
    // The socket is left behind: nobody listens, so the next request goes to the database.
    assert_eq!(folder.json("stats")["total"], 0);
}

#[test]
fn a_writer_that_is_stopped_ends_no_timeout_and_keeps_nobody_from_reading() {
    let folder = Folder::new();
    folder.done("create --id t-1 job");
    let store = issue_store::Store::open(&folder.database(), issue_store::Options::default());
    let mut writer = store.unwrap().writer().unwrap();
    let held = writer.begin().unwrap();
    assert!(folder.done("list").starts_with("t-1"));
    let error = folder.refused(3, "create late --timeout 0.2");
    assert!(error.contains("another process holds"), "{error}");
    drop(held);
    assert_eq!(folder.done("count"), "1");
}

#[test]
fn a_socket_in_a_folder_that_others_can_use_is_not_asked() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = Folder::empty();
    // The path of the socket would be too long beside the database.
    let database = folder.path().join("x".repeat(120)).join("issues.db");
    let database = database.to_str().unwrap();
    let runtime = folder.path().join("run");
    let sockets = runtime.join("issue-daemon");
    std::fs::create_dir_all(&sockets).unwrap();
    std::fs::set_permissions(&sockets, std::fs::Permissions::from_mode(0o777)).unwrap();
    let run = |arguments: &str| {
        let mut command = folder.command(&format!("--db {database} {arguments}"));
        command.env("XDG_RUNTIME_DIR", &runtime).output().unwrap()
    };
    assert!(run("init").status.success());
    let refused = run("create 'my secret'");
    let error = crate::support::text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{error}");
    assert!(error.contains("is open to others (mode 777)"), "{error}");
    std::fs::set_permissions(&sockets, std::fs::Permissions::from_mode(0o700)).unwrap();
    assert!(run("create 'my secret'").status.success());
}
