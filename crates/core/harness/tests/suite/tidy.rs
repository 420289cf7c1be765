//! The shape of the workspace: who may depend on whom, and what no file may hold.
//!
//! No rule names a driver or a daemon: a new one is judged by its room, so that adding one takes no line outside its
//! own folder.

mod language;
mod members;
mod security;
mod tree;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness_testing::program::words;
use subject::manifest::Manifest;
use toml::{Table, Value};

use crate::tidy::members::{may_use, members};
use crate::tidy::tree::{entries, folders, read, root, rust_sources, sources};

#[test]
fn crates_depend_only_on_what_their_room_may() {
    let members = members();
    let mut found = Vec::new();
    for one in &members {
        for (name, _) in one.dependencies() {
            let other = members.iter().find(|member| member.name == *name);
            if other.is_some_and(|other| !may_use(one, other, !one.is_built_with(name))) {
                found.push(format!("{} must not depend on {name}", one.name));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_module_by_path_lies_in_the_same_room() {
    let crates = root().join("crates");
    let room = |path: &Path| {
        let below = path.strip_prefix(&crates).ok()?;
        below.iter().next().map(ToOwned::to_owned)
    };
    for (path, text) in rust_sources() {
        for by_path in text.split("#[path = \"").skip(1) {
            let file = by_path.split('"').next().unwrap_or_default();
            let Ok(module) = path.with_file_name(file).canonicalize() else {
                continue;
            };
            assert_eq!(
                room(&path),
                room(&module),
                "{} has a module of another room: {file}",
                path.display()
            );
        }
    }
}

#[test]
fn a_driver_uses_the_conformance_cases_of_its_own_protocol_only() {
    let protocol = |name: &str| name.split('-').next().unwrap_or_default().to_owned();
    for member in members() {
        for (name, _) in member.dependencies() {
            let fits = !name.ends_with("-conformance") || protocol(name) == protocol(&member.name);
            assert!(fits, "{} must not depend on {name}", member.name);
        }
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
fn numbers_do_not_know_reports() {
    let src = root().join("crates/core/measure/src");
    for (path, text) in rust_sources() {
        let is_number = path.starts_with(&src) && !path.starts_with(src.join("report"));
        if is_number && path != src.join("report.rs") {
            assert!(!text.contains("report::"), "{}", path.display());
        }
    }
}

/// Words of drivers' specifications that are also plain words of reports, or the scheme of a URL.
const PLAIN_WORDS: [&str; 5] = ["lost", "open", "opened", "held", "http"];

/// Returns the names in the sources that specify a driver: protocol, series, errors, counters and metrics.
fn specified_names(text: &str) -> BTreeSet<String> {
    let plain = text.split("#[cfg(test)]").next().unwrap_or_default();
    let code = plain
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let is_name = |word: &str| {
        let letters = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
        word.len() > 2 && word.chars().all(letters) && !PLAIN_WORDS.contains(&word)
    };
    code.flat_map(|line| {
        line.split('"')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    })
    .filter(|word| is_name(word))
    .collect()
}

#[test]
fn measure_reads_roles_and_names_nothing_of_a_driver() {
    let sources = rust_sources();
    let mut names = BTreeSet::new();
    for member in members() {
        for file in ["spec.rs", "outcome.rs"] {
            let path = member.folder.join("src").join(file);
            let is_driver = member.folder.join("src/spec.rs").is_file() && member.name != "measure";
            if let Some((_, text)) = sources
                .iter()
                .find(|(known, _)| is_driver && *known == path)
            {
                names.extend(specified_names(text));
            }
        }
    }
    assert!(
        names.len() > 50,
        "the specifications were not found: {names:?}"
    );
    let folder = root().join("crates/core/measure/src");
    let mut found = Vec::new();
    for (path, text) in &sources {
        if !path.starts_with(&folder) {
            continue;
        }
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let named = names
            .iter()
            .filter(|name| code.contains(&format!("\"{name}\"")));
        found.extend(named.map(|name| format!("{}: \"{name}\"", path.display())));
        if code.contains("[\"driver\"]") {
            found.push(format!("{} reads a setting of a driver", path.display()));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
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
fn no_file_outside_the_drivers_lists_them() {
    let members = members();
    let drivers: Vec<&str> = members
        .iter()
        .filter(|member| member.is_driver())
        .map(|member| &*member.name)
        .collect();
    let mut lists = Vec::new();
    for (path, text) in sources() {
        let is_list = drivers.iter().all(|driver| text.contains(driver));
        // Pages are for readers.
        let is_page = path.extension().is_some_and(|it| it == "md");
        if is_list && !is_page {
            lists.push(path);
        }
    }
    assert_eq!(lists, Vec::<PathBuf>::new(), "ask harness::drivers::list");
}

#[test]
fn every_crate_is_listed_in_the_architecture() {
    let architecture = read(&root().join("crates/README.md"));
    // Drivers have their own page, and `drover list` shows them.
    for member in members().iter().filter(|member| !member.is_driver()) {
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
    // A client in another language lies beside the daemons whose protocol it speaks.
    let is_daemon = |folder: &PathBuf| !folder.to_string_lossy().ends_with("-client");
    for folder in daemons.into_iter().filter(is_daemon) {
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
            .find(|line| !line.starts_with("#:schema"))
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

/// Words that are no subject of a sentence: a doc comment that begins with one does not say what the item is or does.
const NO_SUBJECT: [&str; 18] = [
    "What", "Whether", "Who", "Whom", "Whose", "Where", "When", "How", "Those", "They", "It",
    "One of", "One that", "One who", "That", "Such", "So many", "As many",
];

#[test]
fn every_doc_comment_begins_with_a_subject_or_a_verb() {
    let mut found = Vec::new();
    for (path, text) in rust_sources() {
        let mut is_first = true;
        for (number, line) in text.lines().enumerate() {
            let Some(comment) = line.trim_start().strip_prefix("///") else {
                is_first = true;
                continue;
            };
            let begins_with = |words: &&str| {
                let rest = comment.trim_start().strip_prefix(*words);
                rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
            };
            if is_first && NO_SUBJECT.iter().any(begins_with) {
                found.push(format!("{}:{}:{comment}", path.display(), number + 1));
            }
            is_first = false;
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn sources_name_the_thing() {
    // In pieces, so that this file does not hold what it looks for.
    let phrases = [
        (concat!("fn o", "f("), "use `new`, `from_…` or a verb"),
        (concat!("fn o", "f<"), "use `new`, `from_…` or a verb"),
        (concat!(" that o", "f "), "name the thing again"),
        (concat!("hose o", "f "), "name the things again"),
    ];
    for (path, text) in rust_sources() {
        let at = path.display();
        for (number, line) in (1..).zip(text.lines()) {
            // The first is the text of RabbitMQ.
            if line.contains("does not match that") || line.contains("so that of") {
                continue;
            }
            for (phrase, remedy) in phrases {
                assert!(
                    !line.contains(phrase),
                    "{at}:{number}: `{phrase}`: {remedy}"
                );
            }
        }
    }
}

#[test]
fn scripts_can_be_run() {
    for script in ["scripts/setup", "scripts/test", ".ci/run", ".ci/full"] {
        let mode = fs::metadata(root().join(script))
            .unwrap_or_else(|error| panic!("{script}: {error}"))
            .permissions()
            .mode();
        assert!(mode & 0o111 == 0o111, "{script} has no run bit");
    }
}

#[test]
fn every_fuzz_target_has_a_program() {
    let package = "crates/core/test-kit/fuzz";
    let manifest: Table = read(&root().join(package).join("Cargo.toml"))
        .parse()
        .expect("the manifest is TOML");
    let programs = manifest["bin"].as_array().expect("there are programs");
    let programs: BTreeSet<String> = programs
        .iter()
        .map(|program| program["name"].as_str().expect("it has a name").to_owned())
        .collect();
    let mut targets = BTreeSet::new();
    for member in members() {
        let inputs = member.folder.join("fuzz");
        if inputs.is_dir() && !inputs.ends_with(package) {
            for target in folders(&inputs) {
                let target = target.file_name().expect("a folder has a name");
                targets.insert(format!("{}-{}", member.name, target.display()));
            }
        }
    }
    assert_eq!(programs, targets);
}

#[test]
fn rooms_point_one_way() {
    let members = members();
    let find = |name: &str| members.iter().find(|member| member.name == name);
    let member = |name: &str| find(name).expect("the crate is in a room");
    let may = |one, other| may_use(member(one), member(other), false);
    let tests_may = |one, other| may_use(member(one), member(other), true);
    for (one, other) in [
        ("fdpass-gen", "harness"),
        ("fdpass-gen", "fdpass-client"),
        ("presence-load", "presence-sdk"),
        ("issue-stress", "issue-rpc"),
        ("amqp-client", "load"),
        ("issue-daemon", "daemon-kit"),
        ("issue-daemon", "build-version"),
        ("harness", "load"),
    ] {
        assert!(may(one, other), "{one} → {other}");
        assert!(!tests_may(other, one), "{other} → {one}");
    }
    for (one, other) in [
        ("streaming-daemon", "mock-llm"),
        ("issue-daemon", "test-kit"),
        ("subject", "harness-testing"),
    ] {
        assert!(tests_may(one, other) && !may(one, other), "{one} → {other}");
    }
    for (one, other) in [
        ("fdpass-gen", "http-load"),
        ("fdpass-gen", "streaming-daemon"),
        ("fdpass-gen", "daemon-kit"),
        ("fdpass-gen", "mock-llm"),
        ("streaming-daemon", "measure"),
        ("streaming-daemon", "harness-testing"),
        ("streaming-daemon", "null-broker"),
        ("streaming-daemon", "http-daemon"),
        ("mock-llm", "measure"),
        ("null-broker", "drover"),
        ("measure", "load"),
        ("load", "issue-rpc"),
        ("harness", "amqp-conformance"),
    ] {
        assert!(!tests_may(one, other), "{one} → {other}");
    }
}

/// Cargo builds a library again for each set of features. A package built alone must get the sets of the workspace, but
/// for `measure`, which crates below the harness build without reports.
#[test]
fn a_package_built_alone_uses_the_libraries_of_the_workspace() {
    let whole = library_features("normal,build", &["--workspace"]);
    for member in members() {
        for library in library_features("normal,build", &["--package", &member.name]) {
            assert!(
                whole.contains(&library)
                    || (library.starts_with("measure ") && !library.contains("report")),
                "`cargo build -p {}` builds {library} again: name the missing features in crates/core/workspace-hack",
                member.name
            );
        }
    }
}

/// Dependencies of tests and benches must ask for no further features: a bench would build the libraries again.
#[test]
fn tests_and_benches_use_the_libraries_of_the_build() {
    let with_tests = library_features("normal,build,dev", &["--workspace"]);
    for library in library_features("normal,build", &["--workspace"]) {
        assert!(
            with_tests.contains(&library),
            "`cargo bench` builds {library} again: name the missing features in crates/core/workspace-hack"
        );
    }
}

/// Returns the libraries of a build, each with its features.
fn library_features(edges: &str, packages: &[&str]) -> BTreeSet<String> {
    let listed = Command::new(env!("CARGO"))
        .args(words(
            "tree --offline --prefix none --format '{p} with {f}'",
        ))
        .args(["--edges", edges])
        .args(packages)
        .current_dir(root())
        .output()
        .expect("cargo can be run");
    assert!(
        listed.status.success(),
        "{}",
        String::from_utf8_lossy(&listed.stderr)
    );
    let text = String::from_utf8(listed.stdout).expect("cargo prints text");
    let libraries = text.lines().filter(|line| !line.is_empty());
    // A package that was listed before is marked, and its dependencies are left out.
    libraries
        .map(|line| line.trim_end_matches(" (*)").to_owned())
        .collect()
}
