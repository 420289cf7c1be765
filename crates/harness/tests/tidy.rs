//! The shape of the workspace: who may depend on whom, and what no file may hold.
//!
//! Nothing here names a driver or a daemon: a new one is judged by the kind that its name says, so that adding one
//! takes no line outside its own folder.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use harness::manifest::Manifest;
use toml::{Table, Value};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate lies in crates/")
        .to_owned()
}

/// What a crate is for, told by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `measure`: numbers.
    Measure,
    /// `harness`: time and processes.
    Harness,
    /// `*-daemon`: a subject under test.
    Daemon,
    /// `*-sdk`, `*-store`: shared by a driver and a daemon because it is the subject's own client or storage.
    Library,
    /// Everything else: a driver, or the suite that runs them.
    Driver,
}

impl Kind {
    fn of(name: &str) -> Self {
        match name {
            "measure" => Self::Measure,
            "harness" => Self::Harness,
            name if name.ends_with("-daemon") => Self::Daemon,
            name if name.ends_with("-sdk") || name.ends_with("-store") => Self::Library,
            _ => Self::Driver,
        }
    }

    /// The rules: what a crate of this kind may depend on in the workspace.
    fn may_use(self) -> &'static [Self] {
        match self {
            Self::Measure | Self::Library => &[],
            // The subject shares no code with the instrument but the histogram.
            Self::Harness => &[Self::Measure],
            Self::Daemon => &[Self::Measure, Self::Library],
            Self::Driver => &[Self::Measure, Self::Harness, Self::Library],
        }
    }
}

/// A crate of the workspace.
#[derive(Debug)]
struct Member {
    name: String,
    folder: PathBuf,
    manifest: Table,
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

    /// Its dependencies of any sort, for tests and for one platform included.
    fn dependencies(&self) -> Vec<(&String, &Value)> {
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

fn members() -> Vec<Member> {
    let members: Vec<Member> = folders(&root().join("crates"))
        .into_iter()
        .map(Member::read)
        .collect();
    assert!(
        members.len() >= 4,
        "only {} crates were found",
        members.len()
    );
    members
}

fn folders(parent: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = entries(parent)
        .into_iter()
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    folders
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries
        .map(|entry| entry.expect("a folder can be listed").path())
        .collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every file of the tree that people wrote, with its text. Binary files are left out.
fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut open = vec![root()];
    while let Some(folder) = open.pop() {
        for path in entries(&folder) {
            if path.is_symlink() || generated(&path) {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                found.push((path, text));
            }
        }
    }
    assert!(found.len() > 20, "only {} files were found", found.len());
    found
}

/// Builds, results, downloads and lock files: nobody wrote them.
fn generated(path: &Path) -> bool {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    if path.is_dir() {
        let hidden = name.starts_with('.') && ![".ci", ".github"].contains(&name);
        let result = path
            .parent()
            .is_some_and(|parent| parent.ends_with("bench-results"));
        hidden || result || ["target", "node_modules", "vendor", "__pycache__"].contains(&name)
    } else {
        name.ends_with(".lock") || name.ends_with(".log")
    }
}

fn rust_sources() -> Vec<(PathBuf, String)> {
    sources()
        .into_iter()
        .filter(|(path, _)| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

#[test]
fn crates_depend_only_on_what_their_kind_may() {
    let members = members();
    let names: BTreeSet<&str> = members.iter().map(|member| member.name.as_str()).collect();
    for member in &members {
        let allowed = Kind::of(&member.name).may_use();
        let inside = member
            .dependencies()
            .into_iter()
            .map(|(name, _)| name.as_str())
            .filter(|name| names.contains(name));
        let forbidden: Vec<&str> = inside
            .filter(|name| !allowed.contains(&Kind::of(name)))
            .collect();
        assert!(
            forbidden.is_empty(),
            "{} must not depend on {forbidden:?}",
            member.name
        );
    }
}

#[test]
fn a_crate_is_named_as_its_folder() {
    for member in members() {
        assert!(
            member.folder.ends_with(&member.name),
            "{} lies in {}",
            member.name,
            member.folder.display()
        );
    }
}

#[test]
fn measure_knows_no_runtime_clock_file_or_socket() {
    let measure = members()
        .into_iter()
        .find(|member| member.name == "measure")
        .expect("measure is a crate");
    let runtimes = measure
        .dependencies()
        .into_iter()
        .filter(|(name, _)| name.contains("tokio"))
        .count();
    assert_eq!(runtimes, 0, "measure depends on a runtime");
    let own = rust_sources()
        .into_iter()
        .filter(|(path, _)| path.starts_with(measure.folder.join("src")));
    for (path, text) in own {
        for word in [
            "Instant",
            "SystemTime::now",
            "std::fs",
            "std::net",
            "std::process",
            "std::env",
            "async ",
        ] {
            assert!(!text.contains(word), "{} mentions {word}", path.display());
        }
    }
}

#[test]
fn every_crate_inherits_lints_and_package_facts() {
    let inherits = |table: &Value| table.get("workspace").and_then(Value::as_bool) == Some(true);
    for member in members() {
        assert!(
            member.manifest.get("lints").is_some_and(inherits),
            "{} has lints of its own",
            member.name
        );
        for fact in ["version", "edition", "rust-version", "license", "publish"] {
            let inherited = member.manifest["package"].get(fact).is_some_and(inherits);
            assert!(inherited, "{} does not inherit {fact}", member.name);
        }
    }
}

#[test]
fn every_version_stands_in_the_workspace_manifest() {
    for member in members() {
        for (name, dependency) in member.dependencies() {
            let inherited = dependency.get("workspace").and_then(Value::as_bool) == Some(true);
            assert!(
                inherited,
                "{}: `{name}` wants `workspace = true`",
                member.name
            );
        }
    }
}

#[test]
fn every_crate_is_listed_in_the_architecture() {
    let architecture = read(&root().join("crates/README.md"));
    for member in members() {
        assert!(
            architecture.contains(&format!("`{}`", member.name)),
            "crates/README.md does not list `{}`",
            member.name
        );
    }
}

#[test]
fn every_daemon_has_a_manifest_that_is_understood() {
    let daemons = folders(&root().join("daemons"));
    assert!(!daemons.is_empty(), "there is no daemon");
    for folder in daemons {
        let path = folder.join("daemon.toml");
        Manifest::parse(&read(&path), &path).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn every_plan_opens_with_the_question_that_it_answers() {
    let plans: Vec<PathBuf> = folders(&root().join("configs"))
        .iter()
        .flat_map(|folder| entries(folder))
        .collect();
    assert!(!plans.is_empty(), "there is no plan");
    for path in plans.iter().filter(|path| {
        path.extension()
            .is_some_and(|extension| extension == "toml")
    }) {
        let text = read(path);
        let comment = text
            .lines()
            .next()
            .and_then(|line| line.strip_prefix('#'))
            .unwrap_or_default();
        assert!(
            comment.trim().len() > 10,
            "{} opens with no comment",
            path.display()
        );
        text.parse::<Table>()
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

#[test]
fn every_rust_file_says_in_its_first_line_what_it_is_for() {
    for (path, text) in rust_sources() {
        let first = text.lines().next().unwrap_or_default();
        assert!(
            first.starts_with("//! "),
            "{} opens with `{first}`",
            path.display()
        );
        assert!(
            !path.ends_with("mod.rs"),
            "{}: a module is `name.rs` beside `name/`",
            path.display()
        );
    }
}

/// Pieces, so that this file does not hold what it looks for.
#[test]
fn nothing_is_left_undone_and_no_lint_is_silenced_for_good() {
    let left: [&str; 5] = [
        concat!("to", "do!("),
        concat!("unimpl", "emented!("),
        concat!("#[ign", "ore"),
        concat!("#[al", "low("),
        concat!("#![al", "low("),
    ];
    for (path, text) in rust_sources() {
        for word in left {
            assert!(!text.contains(word), "{} holds `{word}`", path.display());
        }
    }
}

#[test]
fn no_file_names_a_path_of_one_machine() {
    let here = root().to_str().expect("the path is text").to_owned();
    // A tree that lies in `/src` would find itself in many a text.
    let own = (here.matches('/').count() > 1).then_some(here.as_str());
    let homes = [
        concat!("/ho", "me/"),
        concat!("/ro", "ot/"),
        concat!("/Us", "ers/"),
    ];
    for (path, text) in sources() {
        for machine in homes.iter().copied().chain(own) {
            assert!(
                !text.contains(machine),
                "{} names {machine}",
                path.display()
            );
        }
    }
}

#[test]
fn scripts_can_be_run() {
    for script in ["scripts/setup", ".ci/run"] {
        let mode = fs::metadata(root().join(script))
            .unwrap_or_else(|error| panic!("{script}: {error}"))
            .permissions()
            .mode();
        assert!(mode & 0o111 == 0o111, "{script} has no run bit");
    }
}

#[test]
fn the_kinds_keep_the_subject_apart_from_the_instrument() {
    assert!(
        !Kind::of("streaming-daemon")
            .may_use()
            .contains(&Kind::of("harness"))
    );
    assert!(
        !Kind::of("fdpass-gen")
            .may_use()
            .contains(&Kind::of("http-load"))
    );
    assert!(
        !Kind::of("fdpass-gen")
            .may_use()
            .contains(&Kind::of("streaming-daemon"))
    );
    assert!(
        Kind::of("presence-load")
            .may_use()
            .contains(&Kind::of("presence-sdk"))
    );
    assert!(Kind::of("measure").may_use().is_empty());
}
