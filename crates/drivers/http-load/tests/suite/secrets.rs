//! Secrets, which reach the server and no output.

use std::path::{Path, PathBuf};
use std::process::Command;

use harness_testing::result;

use crate::program::PROGRAM;
use crate::servers::well;

/// Returns the text of every file below a folder.
fn texts(folder: &Path) -> Vec<(PathBuf, String)> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let found = entries.flat_map(|entry| match entry.path() {
        path if path.is_dir() => texts(&path),
        path => {
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            vec![(path, text)]
        }
    });
    found.collect()
}

#[test]
fn a_secret_reaches_the_server_and_nothing_that_is_shown_or_stored() {
    let server = well();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        format!("@{}", path.display())
    };
    let fields = "Authorization: Bearer s3cret\n\nCookie: a=\"s3cret\"; b=s3cret\n";
    let headers = file("fields", fields);
    let url = file(
        "url",
        &format!("http://{}/x?token=s3cret&a=1\n", server.address()),
    );
    let out = tempfile::tempdir().unwrap();
    let call = |more: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command
            .args(["-H", &headers, "-H", "X-Plain: plain"])
            .args("-c 1 --warmup 0s -d 200ms --check header.x-token==s3cret".split(' '))
            .args(more)
            .current_dir(&out);
        command.output().unwrap()
    };
    let texts_of = |output: &std::process::Output| {
        [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said).into_owned())
    };
    let mut options = vec![&*url];
    options.extend(
        "--processes 2 --threads 1 --into run --output output.json --format json".split(' '),
    );
    let ran = call(&options);
    let [shown, said] = texts_of(&ran);
    assert!(matches!(ran.status.code(), Some(0 | 3)), "{said}");
    let seen = server.seen();
    let seen = String::from_utf8_lossy(seen.last().unwrap());
    for sent in [
        "GET /x?token=s3cret&a=1 ",
        "Authorization: Bearer s3cret\r\n",
        "Cookie: a=\"s3cret\"; b=s3cret\r\n",
        "X-Plain: plain\r\n",
    ] {
        assert!(seen.contains(sent), "{sent:?} is not in {seen}");
    }
    let stored = texts(out.path());
    assert!(
        stored
            .iter()
            .any(|(path, _)| path.ends_with("run/result.json"))
    );
    for (path, text) in &stored {
        assert!(!text.contains("s3cret"), "{}: {text}", path.display());
    }
    let result = result::read(out.path());
    let kept = [
        "Authorization: [redacted]",
        "Cookie: [redacted]",
        "X-Plain: plain",
    ];
    assert_eq!(result["plan"]["driver"]["headers"], serde_json::json!(kept));
    let target = result["daemon"]["target"].as_str().unwrap();
    assert!(target.ends_with("/x?token=[redacted]&a=1"), "{target}");
    assert!(!(shown + &said).contains("s3cret"));

    // A printed plan can't be run as if it were complete.
    let printed = call(&[&url, "--print-plan"]);
    let [shown, said] = texts_of(&printed);
    assert_eq!(printed.status.code(), Some(0), "{said}");
    assert!(
        shown.starts_with("# Secrets were removed.") && !shown.contains("s3cret"),
        "{shown}"
    );
    std::fs::write(out.path().join("plan.toml"), shown).unwrap();
    let mut again = Command::new(PROGRAM);
    let again = again
        .args(["--plan", "plan.toml", &url])
        .current_dir(&out)
        .output()
        .unwrap();
    let [_, said] = texts_of(&again);
    assert_eq!(again.status.code(), Some(2), "{said}");
    assert!(
        said.contains("set it again") && said.contains("@FILE"),
        "{said}"
    );
}

#[test]
fn runs_with_other_secrets_are_repetitions_of_each_other() {
    let server = well();
    let out = tempfile::tempdir().unwrap();
    for secret in ["one", "two"] {
        let ran = Command::new(PROGRAM)
            .args(["-c", "1", "--warmup", "0s", "-d", "200ms", "--out"])
            .arg(out.path())
            .args(["-H", &format!("X-Token: {secret}")])
            .arg(format!("http://{}/x?token={secret}", server.address()))
            .output()
            .unwrap();
        assert!(matches!(ran.status.code(), Some(0 | 3)), "{ran:?}");
    }
    let results = texts(out.path()).into_iter().map(|(path, _)| path);
    let results: Vec<PathBuf> = results
        .filter(|path| path.ends_with("result.json"))
        .collect();
    let levels = results.iter().map(|path| path.ancestors().nth(2).unwrap());
    let levels: Vec<&Path> = levels.collect();
    assert!(levels.len() == 2 && levels[0] == levels[1], "{results:?}");
}

#[test]
fn an_error_shows_no_secret_of_what_was_typed() {
    let out = tempfile::tempdir().unwrap();
    for arguments in [
        &["http://user:s3cret@127.0.0.1:1/"][..],
        &["user:s3cret@127.0.0.1:1"],
        &["http://127.0.0.1:1/?api_key=s3cret"],
        &["-H", "Authorization: s3cret\r\nx", "http://127.0.0.1:1/"],
        &["--no-such-option=http://user:s3cret@h/"],
        &["-H", "@/no/such/file", "http://127.0.0.1:1/?token=s3cret"],
    ] {
        let mut command = Command::new(PROGRAM);
        let output = command.args(arguments).current_dir(&out).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            matches!(output.status.code(), Some(1 | 2)),
            "{arguments:?}: {said}"
        );
        assert!(
            said.contains("error:") && !said.contains("s3cret"),
            "{arguments:?}: {said}"
        );
    }
}
