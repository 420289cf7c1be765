//! Each command, directly and through a daemon.

use serde_json::{Value, json};

use crate::support::Folder;

#[test]
fn each_command_does_the_same_directly_and_through_a_daemon() {
    let (direct, served) = (Folder::new(), Folder::new());
    served.start_daemon();
    let direct = printed_by_all(&direct);
    assert_eq!(direct, printed_by_all(&served));
    assert!(direct.contains("Fix the door"), "{direct}");
}

/// Runs all commands. Returns what they print, without ids that are drawn and without times.
fn printed_by_all(folder: &Folder) -> String {
    let create = |id: &str, arguments: &str| {
        assert_eq!(folder.done(&format!("create --id {id} {arguments}")), id);
    };
    create("t-house", "'Build the house' --type epic");
    create(
        "t-door",
        "'Fix the door' -p 0 --label wood --assignee ann --parent t-house",
    );
    create(
        "t-paint",
        "'Paint it' --depends-on door --description 'Red.\nTwo coats.'",
    );
    let mut printed = Vec::new();
    let mut run = |arguments: &str| printed.push(folder.done(arguments));
    run("ready");
    run("blocked");
    run("list --label wood");
    run("list coats --status open");
    run("count --type task");
    run("update t-door --status in_progress --add-label metal --priority 1");
    run("claim t-house");
    run("update t-house --expected-status in_progress --status open -a ''");
    run("dep add t-paint t-house --kind related");
    run("dep tree t-paint");
    run("dep remove t-paint t-house");
    run("label add t-paint red");
    run("label remove t-paint red");
    run("close t-door t-house --reason done");
    run("reopen t-house");
    run("ready --limit 1");
    run("stale --days 0");
    run("stats");
    run("resolve pai");
    let comment = folder.json("comment add t-paint 'Blue is better.'");
    assert_eq!(comment["author"], "tester");
    assert!(
        folder
            .done("comment list paint")
            .ends_with("tester\nBlue is better.")
    );
    run("list --sort title --all");
    run("create --id t-extra Superfluous --depends-on t-paint");
    run("delete t-extra");
    let shown = folder.json("show paint");
    assert_eq!(shown["description"], "Red.\nTwo coats.");
    assert_eq!(
        shown["dependencies"],
        json!([{"depends_on": "t-door", "kind": "blocks"}])
    );
    let events = folder.done("events");
    assert!(events.lines().count() >= 10, "{events}");
    assert!(events.contains("t-door  tester  closed"), "{events}");
    printed.join("\n---\n")
}

#[test]
fn texts_of_others_cannot_control_a_terminal() {
    let folder = Folder::new();
    folder.done("create --id t-1 '\x1b[2Jcleared' --description 'a\x07b'");
    for command in ["list", "show t-1"] {
        let printed = folder.done(command);
        assert!(printed.contains("\\u{1b}[2J"), "{printed:?}");
        assert!(!printed.contains(['\x1b', '\x07']), "{printed:?}");
    }
    assert_eq!(folder.json("show t-1")["title"], "\x1b[2Jcleared");
}

#[test]
fn a_request_of_the_protocol_is_sent_as_it_is() {
    let folder = Folder::new();
    let created = folder.done(r#"call create '{"title":"raw"}'"#);
    assert!(created.starts_with(r#"{"id":"#), "{created}");
    assert!(
        folder
            .refused(2, "call create [1]")
            .contains("not a JSON object")
    );
    let error = folder.refused(2, "call invent");
    assert!(
        error.contains("no operation is called \"invent\""),
        "{error}"
    );
}

#[test]
fn completions_name_the_commands() {
    let folder = Folder::empty();
    for shell in ["bash", "zsh", "fish"] {
        assert!(
            folder
                .done(&format!("completions {shell}"))
                .contains("blocked"),
            "{shell}"
        );
    }
}

#[test]
fn a_claimed_issue_is_refused_to_others() {
    let folder = Folder::new();
    folder.done("create --id t-1 job");
    assert!(folder.done("claim t-1").contains("@tester"));
    let error = folder.refused(1, "claim t-1 --assignee bob");
    assert!(error.contains("assigned to tester"), "{error}");
    let error = folder.refused(1, "update t-1 -p 0 --expected-status open");
    assert!(error.contains("t-1 is in_progress"), "{error}");
    folder.done("create --id t-2 job");
    assert!(folder.done("ready --claim").starts_with("t-2"));
    assert_eq!(folder.done("ready --claim"), "");
}

#[test]
fn a_completed_id_is_named_and_an_ambiguous_one_is_refused() {
    let folder = Folder::new();
    folder.done("create --id t-abcd12 a");
    let output = folder.run("close t-abcd1");
    assert!(output.status.success());
    let note = crate::support::text(&output.stderr);
    assert_eq!(note.trim_end(), "issue: t-abcd1 is completed to t-abcd12");
    let whole = folder.run("reopen t-abcd12");
    assert_eq!(crate::support::text(&whole.stderr), "");
    folder.done("create --id t-abcd13 b");
    folder.refused(1, "close t-abcd1");
    let output = folder.run("create c --depends-on abcd12");
    let note = crate::support::text(&output.stderr);
    assert!(note.contains("completed to t-abcd12"), "{note}");
}

#[test]
fn closed_issues_are_listed_on_request() {
    let folder = Folder::new();
    for id in ["t-1", "t-2"] {
        folder.done(&format!("create --id {id} {id}"));
    }
    folder.done("close t-1 --reason 'fixed in abc'");
    let listed = |arguments: &str| {
        let printed = folder.done(&format!("list {arguments}"));
        let ids = printed.lines().filter_map(|line| line.split(' ').next());
        ids.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(listed(""), ["t-2"]);
    assert_eq!(listed("--all"), ["t-2", "t-1"]);
    assert_eq!(listed("--all --sort updated"), ["t-1", "t-2"]);
    assert_eq!(listed("--status closed"), ["t-1"]);
    assert_eq!(listed("--closed-after 2000-01-01T00:00:00Z"), ["t-1"]);
}

#[test]
fn an_issue_is_shown_with_its_close_reason_its_comments_and_what_depends_on_it() {
    let folder = Folder::new();
    folder.done("create --id t-1 epic");
    folder.done("create --id t-2 part --parent t-1");
    folder.done("create --id t-3 next --depends-on t-1");
    folder.done("comment add t-1 'Nearly there.'");
    folder.done("close t-1 --reason 'fixed in abc'");
    let shown = folder.done("show t-1");
    for expected in [
        "closed because: fixed in abc",
        "parent-child of: t-2  open  part",
        "blocks of: t-3  open  next",
        "Nearly there.",
    ] {
        assert!(shown.contains(expected), "{shown}");
    }
    let error = folder.refused(1, "delete t-1");
    assert!(error.contains("t-2, t-3 depend on t-1"), "{error}");
    assert_eq!(folder.done("delete t-1 --force"), "deleted t-1");
    assert_eq!(folder.done("count"), "2");
}

#[test]
fn the_folder_of_a_new_database_is_private_and_its_prefix_is_remembered() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = Folder::empty();
    folder.done("init --prefix web");
    let metadata = std::fs::metadata(folder.path().join(".issues")).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o700);
    assert!(folder.done("create a").starts_with("web-"));
}

#[test]
fn a_long_list_is_printed_whole_or_up_to_its_limit_and_goes_on_after_it() {
    let folder = Folder::new();
    let creates = "{\"operation\":\"create\",\"args\":{\"title\":\"a\"}}\n".repeat(1_002);
    assert!(folder.run_with("batch -", &creates).status.success());
    // The keys of the last order begin with a hyphen.
    for list in ["list", "ready", "list --sort created"] {
        let json = |more: &str| folder.json(&format!("{list} {more}"));
        assert_eq!(folder.done(list).lines().count(), 1_002, "{list:?}");
        let whole = json("");
        let first = json("--limit 1001");
        let next = first["next"].as_str().unwrap();
        let rest = json(&format!("--after {next}"));
        let issues = |part: &Value| part["issues"].as_array().unwrap().clone();
        assert_eq!(issues(&first).len(), 1_001, "{list:?}");
        assert_eq!([issues(&first), issues(&rest)].concat(), issues(&whole));
        assert_eq!(whole["next"], Value::Null, "{list:?}");
    }
}
