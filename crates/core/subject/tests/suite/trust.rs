//! Daemons that other users may change are not launched.

use std::path::PathBuf;

use harness_testing::assert_contains;
use harness_testing::skip;
use subject::daemon::{Daemon, DaemonError};

use crate::project::{Project, script};
use crate::roles;

/// Creates a project whose commands leave a mark when they run.
fn marking() -> Project {
    let manifest = "needs = [['sh', '-c', 'echo >>{root}/ran']]\nversion = ['{dir}/version']\n";
    let project = Project::with("marks", &(manifest.to_owned() + &script("exit 1")));
    std::fs::write(project.dir("marks").join("version"), "").unwrap();
    project
}

/// Prepares the daemon of [`marking`], which must be refused before anything runs; returns the message.
fn refused_as_foreign(project: &Project) -> String {
    let error = project.prepare("marks").unwrap_err();
    assert!(matches!(error, DaemonError::BadManifest(_)), "{error}");
    let error = Daemon::check_tools(project.root(), "marks").unwrap_err();
    assert!(!project.root().join("ran").exists(), "{error}");
    error.to_string()
}

#[test]
fn files_that_others_may_write_are_refused_before_any_command_runs() {
    use std::os::unix::fs::PermissionsExt as _;
    for (path, mode, plain) in [
        ("", 0o777, 0o755),
        ("daemons", 0o777, 0o755),
        ("daemons/marks", 0o777, 0o755),
        ("daemons/marks/daemon.toml", 0o666, 0o644),
        ("daemons/marks/version", 0o757, 0o755),
    ] {
        let project = marking();
        // Without the `/` that joining an empty path leaves at the end.
        let path: PathBuf = project.root().join(path).components().collect();
        let set = |mode| {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, permissions).unwrap();
        };
        set(mode);
        let said = refused_as_foreign(&project);
        assert_contains(
            &said,
            &["may be written by every user", "chmod go-w", "DROVER_ROOT"],
        );
        assert!(said.contains(&path.display().to_string()), "{said}");
        set(plain);
        let _ = project.prepare("marks");
        assert!(project.root().join("ran").exists());
    }
}

#[test]
fn a_name_that_leads_out_of_the_project_is_refused_before_any_command_runs() {
    let project = marking();
    std::fs::rename(project.dir("marks"), project.root().join("marks")).unwrap();
    let absolute = project.root().join("marks");
    for name in ["../marks", absolute.to_str().unwrap()] {
        let error = project.prepare(name).unwrap_err();
        assert!(matches!(error, DaemonError::BadManifest(_)), "{error}");
        let message = Daemon::check_tools(project.root(), name).unwrap_err();
        assert!(message.to_string().contains("folder name"), "{message}");
        assert!(!project.root().join("ran").exists());
    }
}

#[test]
fn a_link_to_a_folder_that_others_may_write_is_refused_as_that_folder() {
    use std::os::unix::fs::PermissionsExt as _;
    let project = marking();
    let elsewhere = tempfile::tempdir().unwrap();
    let target = elsewhere.path().join("marks");
    std::fs::rename(project.dir("marks"), &target).unwrap();
    std::os::unix::fs::symlink(&target, project.dir("marks")).unwrap();
    let permissions = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(&target, permissions).unwrap();
    let said = refused_as_foreign(&project);
    assert!(said.starts_with(&target.display().to_string()), "{said}");
}

#[test]
fn files_of_another_user_are_refused_unless_that_user_is_trusted_by_number() {
    let owner = nix::unistd::Uid::from_raw(4711);
    if !nix::unistd::geteuid().is_root() {
        return skip("root, who alone can give a file to another user");
    }
    for path in [
        "",
        "daemons",
        "daemons/marks",
        "daemons/marks/daemon.toml",
        "daemons/marks/version",
    ] {
        let project = marking();
        let path = project.root().join(path);
        nix::unistd::chown(&path, Some(owner), None).unwrap();
        let said = refused_as_foreign(&project);
        assert_contains(
            &said,
            &["belongs to user 4711", "DROVER_TRUST_UID=4711", "chown"],
        );
        let trusting = roles::command("preparer", project.root())
            .env("DROVER_TRUST_UID", "4711")
            .output()
            .unwrap();
        assert!(trusting.status.success());
        assert!(project.root().join("ran").exists());
    }
}
