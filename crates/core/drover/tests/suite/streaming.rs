//! Tests a real driver and a real daemon, as a user of the project runs them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use harness_testing::processes::wait_until_within;

use crate::support::{LIMIT, Started, ends_with, interrupt, json, messages};

const PLAN: &str = "# Does a tiny suite run?\nname = \"tiny\"\n[timeline]\nmeasure = \"2s\"\ndrain = \"20s\"\n\
    [[groups]]\nname = \"fixed\"\nclients = 5\nramp = \"1s\"\nops = 1\n[driver]\nmessages = 3\nmessage_delay = \"10ms\"\n\
    [suite]\ndaemons = [\"rust-streaming\"]\nrepeat = 2\nlevels = [\n  { name = \"5\", set = { \"groups.0.clients\" = 5 } },\n  \
    { name = \"10\", set = { \"groups.0.clients\" = 10 } },\n  { name = \"millions\", set = { \"groups.0.clients\" = 10000000 } },\n]\n";

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(3)
        .unwrap()
        .to_owned()
}

fn drover(folder: &Path) -> Command {
    let plan = folder.join("configs/fdpass/tiny.toml");
    fs::create_dir_all(plan.parent().unwrap()).unwrap();
    fs::write(&plan, PLAN).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_drover"));
    command
        .arg("run")
        .arg(plan)
        .args(["--force", "--retry-invalid", "0"])
        .arg("--out")
        .arg(folder.join("out"))
        .current_dir(root())
        .stdin(Stdio::null());
    command
}

pub(crate) fn results(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(results(&path));
        } else if path.ends_with("result.json") {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn a_suite_on_the_streaming_daemon_is_interrupted_and_goes_on_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = drover(folder.path());
    let child = Started::spawn(&mut first);
    wait_until_within(LIMIT, "the first result", || {
        results(folder.path()).len() == 1
    });
    interrupt(&child);
    let output = child.end();
    ends_with(&output, 3);
    let there = results(folder.path());
    let before: Vec<Vec<u8>> = there.iter().map(|path| fs::read(path).unwrap()).collect();

    let output = drover(folder.path()).output().unwrap();
    assert!(
        matches!(output.status.code(), Some(0 | 3)),
        "{}",
        messages(&output)
    );
    assert!(
        messages(&output).contains(&format!("{} of 6 runs are complete", there.len())),
        "{}",
        messages(&output)
    );
    let again: Vec<Vec<u8>> = there.iter().map(|path| fs::read(path).unwrap()).collect();
    assert!(before == again, "what was measured is not measured again");
    let all = results(folder.path());
    assert_eq!(all.len(), 4, "{all:?}");
    let last = json(&all[3]);
    assert_eq!(last["daemon"]["name"], "rust-streaming");
    let commands: Vec<&str> = last["commands"]
        .as_array()
        .unwrap()
        .iter()
        .map(|command| command.as_str().unwrap())
        .collect();
    assert!(commands[0].starts_with("drover run /"), "{commands:?}");
    assert!(commands[0].contains(" --retry-invalid 0 "), "{commands:?}");
    assert!(
        commands[1].starts_with("fdpass-gen --plan /"),
        "{commands:?}"
    );
    assert!(
        commands[1].contains(" --daemon rust-streaming "),
        "{commands:?}"
    );
    assert_eq!(commands.len(), 2, "{commands:?}");
    // Without the variable, drover builds what it runs.
    let is_built = std::env::var_os("DROVER_PROGRAMS").is_some();
    let profile = if is_built { "debug" } else { "release" };
    assert_eq!(last["machine"]["build_profile"], profile);
    assert_eq!(
        last["operations"]["ok"].as_u64(),
        last["level"].as_str().unwrap().parse().ok()
    );
    let suite = all[0].ancestors().nth(4).unwrap();
    let missed = &json(&suite.join("suite.json"))["unreached"];
    assert_eq!(
        (missed.as_array().unwrap().len(), &missed[0]["level"]),
        (1, &"millions".into())
    );
    let page = fs::read_to_string(suite.join("report.md")).unwrap();
    assert!(page.contains("open files"), "{page}");
    let left = Command::new("pgrep")
        .args(["-f", folder.path().to_str().unwrap()])
        .output()
        .unwrap();
    assert!(
        left.stdout.is_empty(),
        "left behind: {}",
        String::from_utf8_lossy(&left.stdout)
    );
}
