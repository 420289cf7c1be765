//! `drover run --against`: a daemon and another version of it, in turn.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::{Project, assert_contains, ends_with, messages, shown};

/// A daemon whose build writes down where it was built.
const DAEMON: &str = "about = 'VERSION'\nserves = ['fake']\nbuild = [['sh', '-c', 'pwd >> {root}/built']]\n\
    run = ['{dir}/server']\nready = { line = 'up' }\n";

/// Creates a project under version control. Its second commit changes the daemon `a`, and then it is changed once more.
fn versions(rest: &str) -> Project {
    let project = Project::new(&format!("[driver]\n{rest}[suite]\ndaemons = ['a']\n"));
    project.file(".gitignore", "built\nbench-results\nlog\ncache\n");
    git(&project, &["init", "--quiet", "--initial-branch", "main"]);
    for version in ["first", "second"] {
        let manifest = DAEMON.replace("VERSION", version);
        project.file("daemons/a/daemon.toml", &manifest);
        git(&project, &["add", "--all"]);
        git(&project, &["commit", "--quiet", "--message", version]);
    }
    let third = DAEMON.replace("VERSION", "third");
    project.file("daemons/a/daemon.toml", &third);
    project
}

fn git(project: &Project, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    let author = ["-c", "user.name=a", "-c", "user.email=a@localhost"];
    command.current_dir(project.path("")).args(author);
    let output = command.args(arguments).output().unwrap();
    ends_with(&output, 0);
    shown(&output)
}

#[track_caller]
fn run(project: &Project, more: &str, code: i32) -> Output {
    let mut command = project.drover(&format!("run configs/fake/tiny.toml --force {more}"));
    let output = command
        .env("XDG_CACHE_HOME", project.path("cache"))
        .output();
    let output = output.unwrap();
    ends_with(&output, code);
    output
}

/// Returns the root of each run: `None` for the project itself.
fn roots(project: &Project) -> Vec<(String, String)> {
    let text = fs::read_to_string(project.path("log")).unwrap();
    let runs = text.lines().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        (words[0].to_owned(), words[2].to_owned())
    });
    runs.collect()
}

#[test]
fn a_commit_is_built_beside_the_work_tree_and_runs_in_turn_with_it() {
    let project = versions("");
    run(&project, "--against HEAD~1 --repeat 3", 0);
    let runs = roots(&project);
    let names: Vec<&str> = runs.iter().map(|(run, _)| run.as_str()).collect();
    let order = [
        "a@HEAD-1/5/1",
        "a/5/1",
        "a/5/2",
        "a@HEAD-1/5/2",
        "a@HEAD-1/5/3",
        "a/5/3",
    ];
    assert_eq!(names, order);
    let (_, root) = &runs[0];
    let manifest = |root: &Path| fs::read_to_string(root.join("daemons/a/daemon.toml")).unwrap();
    assert_contains(&manifest(Path::new(root)), &["'first'"]);
    assert_eq!(runs[1].1, "None", "the daemon itself is the project's");
    assert_contains(&manifest(&project.path("")), &["'third'"]);
    let built = |root: &Path| fs::read_to_string(root.join("built")).unwrap();
    assert_eq!(built(Path::new(root)).lines().count(), 1);
    let summary = fs::read_to_string(project.suite("tiny/summary.md")).unwrap();
    let command = "`drover run configs/fake/tiny.toml --daemon a --repeat 3 --against 'HEAD~1'`";
    assert_contains(&summary, &[command, "the change against a@HEAD-1"]);

    // Both may have changed since, so that each call measures again. The other version has one folder.
    run(&project, "--against main", 0);
    let runs = roots(&project);
    assert_eq!(runs.len(), 6 + 10, "five times each by default");
    assert_eq!(runs[6], ("a@main/5/1".to_owned(), root.clone()));
    assert_contains(&manifest(Path::new(root)), &["'second'"]);
    assert_eq!(git(&project, &["worktree", "list"]).lines().count(), 2);

    // Somebody empties the cache, whose work tree git still knows.
    fs::remove_dir_all(project.path("cache")).unwrap();
    run(&project, "--against main --repeat 1", 0);
    assert_eq!(roots(&project)[16].1, *root);
    let lock = fs::File::open(format!("{root}.lock")).unwrap();
    lock.lock().unwrap();
    let output = run(&project, "--against HEAD~1", 2);
    assert_contains(&messages(&output), &["another call uses"]);
}

#[test]
fn another_checkout_a_manifest_and_a_program_are_versions_too() {
    let project = versions("");
    let old = project.file(
        "../old/daemons/a/daemon.toml",
        &DAEMON.replace("VERSION", "old"),
    );
    let old = old.canonicalize().unwrap();
    let checkout = old.ancestors().nth(3).unwrap().to_owned();
    let call = |what: &Path| {
        let before = roots_before(&project);
        run(
            &project,
            &format!("--against {} --repeat 1", what.display()),
            0,
        );
        let (name, root) = roots(&project)[before].clone();
        let manifest = Path::new(&root).join("daemons/a/daemon.toml");
        (name, root, fs::read_to_string(manifest).unwrap())
    };
    let (name, root, _) = call(&checkout);
    assert!(
        name.starts_with("a@") && Path::new(&root) == checkout,
        "{name} in {root}"
    );

    let (_, root, manifest) = call(&old);
    assert!(
        Path::new(&root).starts_with(project.path("cache")),
        "{root}"
    );
    // It is a copy, whose commands run as before.
    let folder = old.parent().unwrap().display();
    let server = format!("run = [\"{folder}/server\"]");
    assert_contains(&manifest, &[&server, &format!("cwd = \"{folder}\"")]);

    let program = project.file("old-server", "#!/bin/sh\n");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let (name, _, manifest) = call(&program);
    assert_eq!(name, format!("a@{}/5/1", label(&program)));
    let run = format!("run = [\"{}\"]", program.canonicalize().unwrap().display());
    assert_contains(&manifest, &[&run, "'third'".trim_matches('\'')]);
    assert!(
        !manifest.contains("build"),
        "it is built already: {manifest}"
    );

    // The program may be the last word of a command that prepares something for it.
    project.file(
        "daemons/a/daemon.toml",
        "about = 'wrapped'\nserves = ['fake']\nprogram = 'server'\nversion = ['{program}', '--version']\n\
        run = ['{dir}/on-disk', '{program}']\nready = { line = 'up' }\n",
    );
    let (_, _, manifest) = call(&program);
    let program = program.canonicalize().unwrap();
    let program = program.display();
    let version = format!("version = [\"{program}\", \"--version\"]");
    let run = format!("/daemons/a/on-disk\", \"{program}\"]");
    assert_contains(&manifest, &[&version, &run]);
    fs::remove_dir_all(checkout).unwrap();
}

fn roots_before(project: &Project) -> usize {
    fs::read_to_string(project.path("log")).map_or(0, |text| text.lines().count())
}

fn label(path: &Path) -> String {
    path.to_string_lossy()
        .trim_start_matches('/')
        .replace('/', "-")
}

#[test]
fn a_daemon_that_is_worse_fails_the_call_if_as_many_runs_again_confirm_it() {
    let project = versions("do = { 'a/5' = 'heavy' }\n");
    let fail_on = |metric: &'static str| format!("--against main --repeat 3 --fail-on {metric}");
    let output = run(&project, &fail_on("worse:daemon.rss.peak"), 6);
    assert_eq!(project.log().len(), 12);
    assert_contains(
        &messages(&output),
        &[
            "As many runs again will confirm it",
            "Worse: peak memory of a is ",
        ],
    );
    // The same runs, compared afterwards, have the same word, and nothing is run.
    let suite = project.suite("tiny");
    let side = |daemon: &str| format!("{}#{daemon}", suite.display());
    let compare = |metric: &str, code: i32| {
        let arguments = format!(
            "compare {} {} --fail-on {metric}",
            side("a@main"),
            side("a")
        );
        messages(&project.call(&arguments, code))
    };
    let worse = compare("worse:daemon.rss.peak", 6);
    assert_contains(
        &worse,
        &["Worse: peak memory of a is worse", "against a@main"],
    );
    compare("worse", 0);
    compare("worse:errors.rate", 0);
    let refused = compare("worse:ttfb.p50", 2);
    assert_contains(
        &refused,
        &["--fail-on: no metric `ttfb.p50` is compared: use one of"],
    );
    assert_eq!(project.log().len(), 12);
    // By the primary metric it is the same.
    run(&project, &fail_on("worse"), 0);
    assert_eq!(project.log().len(), 12 + 6);
    let output = run(&project, &fail_on("worse:ttfb.p50"), 2);
    assert_contains(
        &messages(&output),
        &["--fail-on: no metric `ttfb.p50` is compared: use one of first_byte.p50"],
    );
    assert_eq!(project.log().len(), 12 + 6 + 2, "after the first pair");
}

#[test]
fn a_version_that_cannot_be_compared_is_refused_before_anything_runs() {
    let project = versions("");
    project.file("daemons/new/daemon.toml", DAEMON);
    for (arguments, problem) in [
        (
            "--against no-such-branch",
            "--against: no-such-branch: is neither a commit or branch of",
        ),
        (
            "--against main --daemon a,b",
            "--against: compares one daemon with another version of it, and the plan has a, b",
        ),
        (
            "--against main --daemon new",
            "main: there is no daemon `new` in it",
        ),
        ("--fail-on worse", "--against"),
        (
            "--against main --fail-on better",
            "write worse, or worse:METRIC",
        ),
    ] {
        let output = run(&project, arguments, 2);
        assert_contains(&messages(&output), &[problem]);
    }
    assert_eq!(project.log().len(), 0);

    let broken = DAEMON.replace("pwd >>", "exit 7;");
    project.file("daemons/a/daemon.toml", &broken);
    git(
        &project,
        &["commit", "--quiet", "--all", "--message", "broken"],
    );
    let output = run(&project, "--against main", 1);
    assert_contains(&messages(&output), &["building a@main in "]);
    assert_eq!(project.log().len(), 0);
}
