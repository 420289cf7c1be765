//! Finds the program of a driver, or builds it.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use harness::drivers::KnownDriver;
use harness::progress::StepLine;
use subject::daemon::{Step, guarded_output, last_line};
use subject::manifest::{built_programs, install_command, installed_program};

/// Returns the program of a driver. In a source checkout it is the one in the folder that `DROVER_PROGRAMS` names; without
/// that variable it is built in release mode, which is fast if it is up to date. Elsewhere it is the one beside this
/// program, or in `PATH`.
///
/// # Errors
/// The build fails, or there is no program.
pub(crate) fn program(
    driver: &KnownDriver,
    on_step: &mut dyn FnMut(&Step<'_>),
) -> anyhow::Result<PathBuf> {
    if let Some(sources) = &driver.sources {
        if let Some(folder) = built_programs() {
            return built(&driver.name, &folder);
        }
        return build(&driver.name, sources, on_step);
    }
    installed_program(&driver.name).with_context(|| {
        format!(
            "no program `{}` beside drover or in PATH: install all programs with {}",
            driver.name,
            install_command()
        )
    })
}

/// Returns the program of a driver if it is there: in a source checkout the one that was built last.
pub(crate) fn find(driver: &KnownDriver) -> Option<PathBuf> {
    let built =
        |sources: &PathBuf| built_programs().unwrap_or_else(|| target(sources).join("release"));
    match &driver.sources {
        Some(sources) => Some(built(sources).join(&driver.name)).filter(|it| it.is_file()),
        None => installed_program(&driver.name),
    }
}

/// Checks that the program of a driver is there, unless it is built when it is needed.
///
/// # Errors
/// It is not there; the error names the remedy.
pub(crate) fn require(driver: &KnownDriver) -> anyhow::Result<()> {
    if driver.sources.is_some() && built_programs().is_none() {
        return Ok(());
    }
    program(driver, &mut |_| {}).map(drop)
}

fn built(driver: &str, folder: &Path) -> anyhow::Result<PathBuf> {
    let program = folder.join(driver);
    let problem = || {
        format!(
            "no program `{driver}` in {}, which DROVER_PROGRAMS names: build all with `cargo build --workspace --bins`",
            folder.display()
        )
    };
    Some(program)
        .filter(|program| program.is_file())
        .with_context(problem)
}

/// Runs the program of a driver with arguments, and returns its exit code. Its output is passed through.
///
/// # Errors
/// It can't be built or started, or a signal ended it.
pub(crate) fn call(
    driver: &KnownDriver,
    arguments: &[impl AsRef<OsStr>],
    quiet: bool,
) -> anyhow::Result<u8> {
    let mut line = StepLine::new(quiet);
    let program = program(driver, &mut |step| line.show(step))?;
    drop(line);
    let mut command = Command::new(&program);
    let status = command
        .args(arguments)
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("starting {}", program.display()))?;
    match status.code().and_then(|code| u8::try_from(code).ok()) {
        Some(code) => Ok(code),
        None => bail!("{}: {status}", program.display()),
    }
}

fn build(driver: &str, root: &Path, on_step: &mut dyn FnMut(&Step<'_>)) -> anyhow::Result<PathBuf> {
    let arguments = ["build", "--release", "--locked", "-p", driver];
    let shown = format!("cargo {}", arguments.join(" "));
    // A file: it can be read while cargo writes to it.
    let log = tempfile::tempfile().context("creating a temporary file")?;
    let mut cargo = Command::new("cargo");
    cargo
        .args(arguments)
        .arg("--message-format=json-render-diagnostics")
        .env_clear()
        .envs(subject::daemon::for_builds())
        .current_dir(root)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log.try_clone().context("creating a temporary file")?);
    let what = format!("building {}", driver);
    let target = target(root);
    let mut report = |elapsed, detail: &str| {
        on_step(&Step {
            what: &what,
            command: Some(&shown),
            elapsed,
            detail,
        });
    };
    report(Duration::ZERO, "");
    let on_second = &mut |elapsed| report(elapsed, &last_line(&read(&log), &target));
    let output = guarded_output(&mut cargo, on_second)
        .with_context(|| format!("running `{shown}`: install Rust (scripts/setup does so)"))?;
    if !output.status.success() {
        bail!(
            "`{shown}` failed ({})\n{}",
            output.status,
            read(&log).trim_end()
        );
    }
    executable(&String::from_utf8_lossy(&output.stdout), driver)
        .with_context(|| format!("`{shown}` produced no program of that name"))
}

/// Returns the folder of what cargo builds from a checkout. Cargo takes a relative path from its own folder.
fn target(root: &Path) -> PathBuf {
    root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// Returns the whole content of a file, from its begin.
fn read(file: &File) -> String {
    let length = file.metadata().map_or(0, |file| file.len());
    let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
    // Cargo's output is informative here.
    let _ = file.read_exact_at(&mut bytes, 0);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Finds the program in cargo's messages, which are one line of JSON each.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    messages.lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let path = message["executable"].as_str()?;
        (message["target"]["name"] == name).then(|| PathBuf::from(path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_among_the_messages_of_cargo() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"x"},"executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"name":"x"},"executable":"/t/x"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        assert_eq!(executable(messages, "x"), Some(PathBuf::from("/t/x")));
        assert_eq!(executable(messages, "y"), None);
    }
}
