//! The crates of the workspace, and what each may depend on.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::tidy::tree::{folders, read, root};

/// The crates of core that depend on nothing here, so that every room may use them.
const TOOLS: [&str; 3] = ["workspace-hack", "build-version", "test-kit"];

/// The other crates of core: each may use those before it.
const CORE: [&str; 8] = [
    "measure",
    "load",
    "traffic",
    "tls-client",
    "subject",
    "harness-testing",
    "harness",
    "drover",
];

/// The ends of the names of crates that a subject shares with its driver: its protocol with a client, and its storage.
const CLIENTS: [&str; 2] = ["-rpc", "-store"];

/// A crate of the workspace.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) manifest: Table,
}

/// The arrows: returns true if one crate may depend on another, or with `for_tests` if only its tests may.
pub(crate) fn may_use(one: &Member, other: &Member, for_tests: bool) -> bool {
    let used = other.name.as_str();
    let layer = |name: &str| CORE.iter().position(|known| *known == name);
    if other.is_test_support() && !for_tests && !one.is_test_support() {
        return false;
    }
    // For its own tests, with all of its features.
    if one.name == used {
        return for_tests;
    }
    if TOOLS.contains(&used) {
        return !TOOLS.contains(&one.name.as_str());
    }
    // Programs that users call are no libraries.
    if other.is_driver() || used == "drover" {
        return false;
    }
    match (one.room(), other.room()) {
        ("core", "core") => layer(&one.name) > layer(used) || other.is_test_support(),
        ("drivers", "core" | "peers") => !other.is_mock(),
        ("drivers", "drivers") => used.ends_with("-sdk"),
        ("drivers", "subjects") => CLIENTS.iter().any(|end| used.ends_with(end)),
        ("subjects", "subjects") => !used.ends_with("-daemon"),
        ("subjects", "peers") => other.is_mock(),
        // A mock replaces a service of a subject, whose tests share nothing with the instrument.
        ("peers", "core" | "peers") => !one.is_mock() && !other.is_mock(),
        _ => false,
    }
}

impl Member {
    fn read(folder: PathBuf) -> Self {
        let text = read(&folder.join("Cargo.toml"));
        let manifest: Table = text
            .parse()
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let name = manifest["package"]["name"]
            .as_str()
            .expect("a package has a name")
            .to_owned();
        Self {
            name,
            folder,
            manifest,
        }
    }

    fn room(&self) -> &str {
        let room = self.folder.parent().and_then(Path::file_name);
        room.and_then(OsStr::to_str).expect("a room has a name")
    }

    pub(crate) fn is_driver(&self) -> bool {
        let metadata = self.manifest["package"].get("metadata");
        metadata.is_some_and(|metadata| metadata.get("drover").is_some())
    }

    /// Replaces a service or a system that a subject calls.
    fn is_mock(&self) -> bool {
        self.name.starts_with("mock-")
    }

    fn is_test_support(&self) -> bool {
        self.is_mock() || ["harness-testing", "test-kit"].contains(&self.name.as_str())
    }

    /// Returns true if it depends on another crate for its own code, not only for tests.
    pub(crate) fn is_built_with(&self, name: &str) -> bool {
        let built = self.manifest.get("dependencies").and_then(Value::as_table);
        built.is_some_and(|built| built.contains_key(name))
    }

    /// Its dependencies of any sort, for tests and for one platform included.
    pub(crate) fn dependencies(&self) -> Vec<(&String, &Value)> {
        let platforms = self.manifest.get("target").and_then(Value::as_table);
        let tables = [&self.manifest].into_iter().chain(
            platforms
                .into_iter()
                .flat_map(|of| of.values().filter_map(Value::as_table)),
        );
        let sorts = ["dependencies", "dev-dependencies", "build-dependencies"];
        tables
            .flat_map(|table| sorts.iter().filter_map(|sort| table.get(*sort)?.as_table()))
            .flatten()
            .collect()
    }
}

pub(crate) fn members() -> Vec<Member> {
    let members: Vec<Member> = folders(&root().join("crates"))
        .iter()
        .flat_map(|room| folders(room))
        .map(Member::read)
        .collect();
    assert!(
        members.len() >= 4,
        "only {} crates were found",
        members.len()
    );
    members
}
