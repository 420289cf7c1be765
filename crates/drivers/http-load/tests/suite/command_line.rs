//! The command line that a result and its page say, to be copied.

use std::fs;
use std::path::Path;
use std::process::Command;

use harness_testing::result;

use crate::program::PROGRAM;
use crate::servers::{url, well};

/// Runs a command in a folder, and returns its output.
fn output(command: &mut Command, folder: &Path) -> String {
    let output = command.current_dir(folder).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the command line of a page, as a browser copies it.
fn copied_from_page(page: &str) -> String {
    let rest = page.split("<code class=\"command\">").nth(1).unwrap();
    let line = rest.split("</code>").next().unwrap();
    let line = line.replace("&quot;", "\"").replace("&lt;", "<");
    line.replace("&gt;", ">").replace("&amp;", "&")
}

/// Returns the command line of a report in Markdown, which indents it by two blanks.
fn copied_from_markdown(report: &str) -> String {
    let rest = report
        .split("**command:**\n\n  ```text\n  ")
        .nth(1)
        .unwrap();
    let lines = rest.split("\n  ```").next().unwrap();
    lines.replace("\n  ", "\n")
}

#[test]
fn a_command_line_copied_from_a_report_makes_the_same_plan_in_an_empty_folder() {
    let server = well();
    let url = format!("{}?a=1&b=$HOME", url(&server));
    let typed = [
        &url,
        "-m",
        "POST",
        "--body",
        "two  words\n*<b>*",
        "-H",
        "X-Quote: it's \"that\" \\ `x`",
        "-c",
        "2",
        "-d",
        "200ms",
        "--warmup",
        "0s",
        "--threads",
        "1",
        "--quiet",
    ];
    let call = |more: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(typed).args(more).env("HTTP_LOAD_DRAIN", "7 s");
        command
    };
    let folder = tempfile::tempdir().unwrap();
    let plan = output(&mut call(&["--print-plan"]), folder.path());
    assert!(plan.contains("drain = \"7s\""), "{plan}");
    let report = output(&mut call(&["--into", "run", "--full"]), folder.path());
    let page = fs::read_to_string(folder.path().join("run/report.html")).unwrap();
    let programs = Path::new(PROGRAM).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    for line in [copied_from_page(&page), copied_from_markdown(&report)] {
        let empty = tempfile::tempdir().unwrap();
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("{line} --print-plan")])
            .env("PATH", &path);
        assert_eq!(output(&mut shell, empty.path()), plan, "{line}");
    }
}

#[test]
fn secrets_of_a_command_line_are_redacted() {
    let server = well();
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(PROGRAM);
    let url = format!("{}?token=s3cret", url(&server));
    command.args([
        &url,
        "-H",
        "Authorization: Bearer s3cret",
        "--header=X-Api-Key: s3cret",
    ]);
    command.args([
        "-c", "1", "-d", "200ms", "--warmup", "0s", "--into", "run", "--quiet",
    ]);
    let report = output(&mut command, folder.path());
    assert!(!report.contains("s3cret"), "{report}");
    let line = result::read(folder.path())["commands"][0].to_string();
    let parts = [
        "token=[redacted]'",
        "'Authorization: [redacted]'",
        "'--header=X-Api-Key: [redacted]'",
    ];
    for part in parts {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    assert!(!line.contains("s3cret"), "{line}");
}
