//! Runs the program; checks its messages and exit code, or reads its result.

use std::process::{Command, Output};

use serde_json::Value;

/// Longer than any run here takes on a busy machine, in seconds: after it, the program hangs.
pub(crate) const HANGS: &str = "120";

/// Builds a call of the program, which is killed (exit code 137) if it hangs.
pub(crate) fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--foreground", "-s", "KILL", HANGS]);
    command.arg(assert_cmd::cargo::cargo_bin!("http-load"));
    command.arg("--quiet").args(arguments);
    command
}

/// Checks the exit code, and that stderr contains all parts.
#[track_caller]
pub(crate) fn says(mut command: Command, code: i32, parts: &[&str]) {
    let out = tempfile::tempdir().unwrap();
    command.arg("--into").arg(out.path().join("run"));
    let Output { status, stderr, .. } = command.output().unwrap();
    let said = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(code), "{command:?}: {said}");
    for part in parts {
        assert!(
            said.contains(part),
            "{part:?} is not in {said}: {command:?}"
        );
    }
    assert!(!said.contains("panicked"), "{said}");
    let made = std::fs::read_dir(&out).unwrap().count();
    assert_eq!(
        made, 0,
        "a run that did not begin leaves nothing: {command:?}"
    );
}

/// Writes a plan of one closed group, with lines for its `[driver]` table and its top level.
pub(crate) fn plan(top: &str, driver: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = format!(
        "name = \"test\"\n{top}\n[timeline]\nmeasure = \"1s\"\ndrain = \"200ms\"\n\
         [[groups]]\nname = \"users\"\nworkers = 2\n[driver]\n{driver}\n"
    );
    std::fs::write(&file, text).unwrap();
    file
}

/// A completed run.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) result: Value,
    pub(crate) said: String,
}

impl Ran {
    pub(crate) fn after(mut command: Command) -> Self {
        let out = tempfile::tempdir().unwrap();
        command.arg("--into").arg(out.path().join("run"));
        Self::read(&command.output().unwrap(), &out)
    }

    pub(crate) fn read(output: &Output, out: &tempfile::TempDir) -> Self {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let text = std::fs::read_to_string(out.path().join("run/result.json"));
        let text = text.unwrap_or_else(|error| panic!("{error}: {:?}: {said}", output.status));
        Self {
            code: output.status.code().unwrap(),
            result: serde_json::from_str(&text).unwrap(),
            said,
        }
    }

    pub(crate) fn number(&self, name: &str) -> u64 {
        self.result["operations"][name].as_u64().unwrap()
    }

    /// Returns the kinds of errors.
    pub(crate) fn kinds(&self) -> Vec<&str> {
        let errors = self.result["errors"].as_object().unwrap();
        errors.keys().map(String::as_str).collect()
    }

    pub(crate) fn warned(&self, kind: &str) -> bool {
        let mut warnings = self.result["warnings"].as_array().unwrap().iter();
        warnings.any(|warning| warning["kind"] == kind)
    }

    /// Checks that every request is accounted for; in an open loop, every one that was due.
    #[track_caller]
    pub(crate) fn adds_up(&self, due: Option<u64>) {
        let errors = self.result["errors"].as_object().unwrap();
        let errors: u64 = errors.values().filter_map(Value::as_u64).sum();
        let of = |name: &str| self.number(name);
        let all = format!("{} {}", self.result["operations"], self.result["errors"]);
        assert_eq!(of("started"), of("ok") + errors + of("unfinished"), "{all}");
        assert_eq!(of("failed"), errors, "{all}");
        match due {
            Some(due) => assert_eq!(due, of("started") + of("missed"), "{all}"),
            None => assert_eq!(of("missed"), 0, "{all}"),
        }
        assert!(
            !self.warned("CountsDisagree") && !self.warned("WorkersFailed"),
            "{}",
            self.result["warnings"]
        );
        assert!(!self.said.contains("panicked"), "{}", self.said);
    }
}
