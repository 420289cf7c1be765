//! Says which drivers are calibrated on this machine.

use harness::calibration;
use subject::host;

use crate::driver_program;
use crate::project::{Project, listed};

/// Returns a line with the drivers whose programs are calibrated, each with the date, and one with the others.
///
/// # Errors
/// There is no project.
pub(crate) fn calibrated() -> anyhow::Result<String> {
    let (project, machine) = (Project::find()?, host::machine());
    let (mut dated, mut others) = (Vec::new(), Vec::new());
    for driver in &project.drivers {
        let program = driver_program::find(driver);
        let known = program.and_then(|it| calibration::of_program(&driver.name, &it, &machine));
        match known.as_ref().and_then(|known| known.measured_at.get(..10)) {
            Some(date) => dated.push(format!("{} on {date}", driver.name)),
            None => others.push(driver.name.as_str()),
        }
    }
    let mut text = String::new();
    if !dated.is_empty() {
        text += &format!("Calibrated: {}\n", listed(dated));
    }
    if !others.is_empty() {
        text += &format!(
            "Not calibrated on this machine in this build: {}: run `drover calibrate`\n",
            listed(others)
        );
    }
    Ok(text)
}
