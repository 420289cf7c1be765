//! Stores the calibration of each driver in the user's folder for caches, and finds the one that a run can use.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use measure::calibration::Calibration;
use measure::machine::Machine;
use measure::result::RunResult;
use serde::{Deserialize, Serialize};
use subject::manifest;

use crate::store;

/// A calibration, and the runs that it is for.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    build: Build,
    mode: Mode,
    calibration: Calibration,
}

/// The driver's program and the machine.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Build {
    hostname: String,
    kernel: String,
    cpu_model: Option<String>,
    cpus: u64,
    /// SHA-256 of the driver's program, in hexadecimal digits.
    program_sha256: String,
}

impl Build {
    /// Returns the build, or `None` if the program can't be read.
    fn new(machine: &Machine, program: &Path) -> Option<Self> {
        Some(Self {
            hostname: machine.hostname.clone(),
            kernel: machine.kernel.clone(),
            cpu_model: machine.cpu_model.clone(),
            cpus: machine.cpus,
            program_sha256: format!("{:x}", store::sha256(program).ok()?),
        })
    }
}

/// The settings that change what an operation costs the driver, whatever the daemon.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Mode {
    /// Worker threads of all processes.
    threads: u64,
    /// Scheme of the daemon's address; absent for a socket.
    scheme: Option<String>,
    /// The settings `engine` and `mode` of drivers that have them.
    engine: Option<String>,
    mode: Option<String>,
}

impl Mode {
    fn from_run(run: &RunResult) -> Self {
        let setting = |name| run.plan["driver"][name].as_str().map(str::to_owned);
        let scheme = run.daemon.target.split_once("://");
        Self {
            threads: run.threads,
            scheme: scheme.map(|(scheme, _)| scheme.to_owned()),
            engine: setting("engine"),
            mode: setting("mode"),
        }
    }
}

/// Stores the calibration of the driver's `program`, in the mode of its run at a low rate. Returns the path.
///
/// # Errors
/// There is no folder for caches, or it can't be written.
pub fn store(
    calibration: Calibration,
    floor: &RunResult,
    program: &Path,
) -> anyhow::Result<PathBuf> {
    let path = file(&floor.driver, &floor.machine)?;
    let build = Build::new(&floor.machine, program);
    let stored = Stored {
        build: build.with_context(|| format!("reading {}", program.display()))?,
        mode: Mode::from_run(floor),
        calibration,
    };
    let folder = path.parent().unwrap_or(&path);
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    store::write_whole(&path, &serde_json::to_vec_pretty(&stored)?)?;
    Ok(path)
}

/// Returns the calibration that a run of this program can use: of the same build, machine and mode.
pub(crate) fn of_run(run: &RunResult) -> Option<Calibration> {
    let stored = read(&run.driver, &run.machine)?;
    // Cheap first: the program is read whole.
    let fits = stored.mode == Mode::from_run(run)
        && run.isolation.is_none()
        && Build::new(&run.machine, Path::new("/proc/self/exe"))? == stored.build;
    fits.then_some(stored.calibration)
}

/// Returns the calibration of a driver's `program` on this machine.
#[must_use]
pub fn of_program(driver: &str, program: &Path, machine: &Machine) -> Option<Calibration> {
    let stored = read(driver, machine)?;
    (Build::new(machine, program)? == stored.build).then_some(stored.calibration)
}

/// Reads what is stored. A file that can't be read, such as another version's, is none.
fn read(driver: &str, machine: &Machine) -> Option<Stored> {
    let text = store::read(&file(driver, machine).ok()?).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Returns the file of a driver. Machines may share the folder.
fn file(driver: &str, machine: &Machine) -> anyhow::Result<PathBuf> {
    let folder = manifest::cache()?.join("calibration");
    Ok(folder
        .join(&machine.hostname)
        .join(format!("{driver}.json")))
}
