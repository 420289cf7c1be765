//! Tests programs that are installed: no sources, no cargo, and folders that nobody may write to.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use harness_testing::program::{beside, copy_program};

use crate::streaming::{results, root};
use crate::support::{assert_contains, ends_with, messages, shown};

const SUITE: &str = "# Do both run?\nname = \"both\"\nprotocol = \"fdpass\"\n[timeline]\nmeasure = \"1s\"\ndrain = \"20s\"\n\
    [[groups]]\nname = \"fixed\"\nclients = 3\nops = 1\n[driver]\nmessages = 2\nmessage_delay = \"10ms\"\n\
    [suite]\ndaemons = [\"mine\", \"rust-streaming\"]\n";

/// A prefix with programs, and the folders of a user.
struct Installed {
    folder: tempfile::TempDir,
}

impl Installed {
    /// Installs `drover`, a driver, a daemon and its manifest as scripts/install does. Returns `None` if
    /// the programs were not built.
    fn new() -> Option<Self> {
        let drover = env!("CARGO_BIN_EXE_drover");
        let [driver, daemon] = beside(drover, ["fdpass-gen", "streaming-daemon"])?;
        let installed = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let programs = [
            (PathBuf::from(drover), "bin/drover"),
            (driver, "bin/fdpass-gen"),
            (daemon, "libexec/drover/streaming-daemon"),
            (
                root().join("crates/drivers/fdpass-gen/Cargo.toml"),
                "share/drover/drivers/fdpass-gen.toml",
            ),
            (
                root().join("daemons/rust-streaming/daemon.toml"),
                "share/drover/daemons/rust-streaming/daemon.toml",
            ),
            (
                root().join("configs/fdpass/quick.toml"),
                "share/drover/configs/fdpass/quick.toml",
            ),
        ];
        for (from, to) in programs {
            let to = installed.path("prefix").join(to);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            copy_program(&from, &to);
        }
        for folder in ["home", "work", "path"] {
            fs::create_dir(installed.path(folder)).unwrap();
        }
        // A PATH without cargo; the build guard and a probe need a shell.
        symlink("/bin/sh", installed.path("path/sh")).unwrap();
        installed.set_writable(false);
        Some(installed)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path("prefix/bin").join(program));
        command
            .args(arguments)
            .current_dir(self.path("work"))
            .env_clear()
            .env("PATH", self.path("path"))
            .env("HOME", self.path("home"))
            .stdin(Stdio::null());
        command
    }

    /// Runs a program, which must end with this code.
    fn call(&self, program: &str, arguments: &[&str], code: i32) -> Output {
        let output = self.command(program, arguments).output().unwrap();
        ends_with(&output, code);
        output
    }

    fn set_writable(&self, writable: bool) {
        let mode = if writable { 0o755 } else { 0o555 };
        for folder in folders(&self.path("prefix")) {
            fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
        }
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        // Otherwise a user other than root could not remove them.
        self.set_writable(true);
    }
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let below = entries
        .filter(|path| path.is_dir())
        .flat_map(|path| folders(&path));
    below.chain([folder.to_owned()]).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let all = folders(folder).into_iter();
    let mut all: Vec<PathBuf> = all
        .flat_map(|folder| fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect();
    all.sort();
    all
}

#[test]
fn installed_programs_need_neither_sources_nor_cargo_and_take_a_user_s_own_daemons() {
    let Some(installed) = Installed::new() else {
        return;
    };
    let before = files(&installed.path("prefix"));
    // An empty folder, except for a plan and a daemon of the user's own.
    let manifest = fs::read_to_string(root().join("daemons/rust-streaming/daemon.toml")).unwrap();
    installed.write("work/daemons/mine/daemon.toml", &manifest);
    installed.write("work/plan.toml", SUITE);

    let listed = shown(&installed.call("drover", &["list"], 0));
    assert_contains(
        &listed,
        &[
            "  mine",
            "  rust-streaming",
            "share/drover/daemons/rust-streaming/daemon.toml]",
            "  fdpass-gen",
            "  configs/fdpass/quick.toml",
        ],
    );
    assert!(!listed.contains("needs `"), "{listed}");

    let run = "run plan.toml --force --retry-invalid 0 --out out";
    let run: Vec<&str> = run.split(' ').collect();
    let output = installed.command("drover", &run).output().unwrap();
    assert!(
        matches!(output.status.code(), Some(0 | 3)),
        "{}",
        messages(&output)
    );
    assert_eq!(results(&installed.path("work/out")).len(), 2);

    let one = "--connections 3 --ramp-up 1s --messages 2 --quiet";
    let one: Vec<&str> = one.split(' ').collect();
    let output = installed.command("fdpass-gen", &one).output().unwrap();
    assert!(
        matches!(output.status.code(), Some(0 | 3)),
        "{}",
        messages(&output)
    );
    assert_eq!(results(&installed.path("work/bench-results")).len(), 1);

    let plan = ["run", "configs/fdpass/quick.toml", "--daemon", "nonesuch"];
    let error = messages(&installed.call("drover", &plan, 2));
    let expected = "there is no daemon `nonesuch`: use one of mine, rust-streaming";
    assert_contains(&error, &[expected]);
    let after = files(&installed.path("prefix"));
    assert_eq!(after, before, "something was written");
}

#[test]
fn a_program_that_is_not_installed_is_named_with_the_remedy() {
    let Some(installed) = Installed::new() else {
        return;
    };
    installed.set_writable(true);
    fs::remove_file(installed.path("prefix/libexec/drover/streaming-daemon")).unwrap();
    let error = || messages(&installed.call("fdpass-gen", &["--connections", "1"], 2));
    assert_contains(
        &error(),
        &[
            "`rust-streaming` needs the program `streaming-daemon`",
            "libexec/drover",
            "scripts/install",
        ],
    );
    fs::remove_dir_all(installed.path("prefix/share")).unwrap();
    assert_contains(
        &error(),
        &["share/drover", "DROVER_ROOT", "scripts/install"],
    );
}

#[test]
fn the_version_names_the_commit_and_the_kind_of_build() {
    let mut drover = Command::new(env!("CARGO_BIN_EXE_drover"));
    let output = drover.arg("--version").output().unwrap();
    ends_with(&output, 0);
    let text = shown(&output);
    let facts = text
        .trim()
        .strip_prefix(concat!("drover ", env!("CARGO_PKG_VERSION"), " ("));
    let facts: Vec<&str> = facts
        .and_then(|facts| facts.strip_suffix(')'))
        .unwrap()
        .split(", ")
        .collect();
    let build = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };
    assert_eq!(facts.last(), Some(&build), "{text}");
    // Sources without a repository have no commit.
    if root().join(".git").exists() {
        let commit = facts[0].trim_end_matches("-dirty");
        assert!(
            commit.len() >= 7 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{text}"
        );
        assert_eq!(facts[1].len(), "2026-01-31".len(), "{text}");
    }
}
