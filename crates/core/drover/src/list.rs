//! `drover list`: lists daemons, drivers, plans, and the suites that have been run.

use std::fmt::Write as _;
use std::path::Path;

use subject::daemon::Daemon;
use subject::manifest::{self, Roots};

use crate::folder;
use crate::project::{Project, question};
use crate::record::Record;

/// Returns the lists as text.
///
/// # Errors
/// A manifest that can't be used.
pub(crate) fn list(out: &Path) -> anyhow::Result<String> {
    let project = Project::find()?;
    let mut text = String::from("daemons\n");
    for (name, daemon) in manifest::list(&project.root)? {
        let missing = Daemon::check_tools(&project.root, &name).err();
        let tools = missing.map_or(String::new(), |error| {
            format!("\n{:20}{}", "", indented(&error.to_string()))
        });
        let serves = daemon.serves.join(", ");
        let services: Vec<&str> = daemon.services.keys().map(String::as_str).collect();
        let services = match services.as_slice() {
            [] => String::new(),
            services => format!("; it needs {}", services.join(", ")),
        };
        let file = shown(&manifest::file(&project.root, &name), &project.root);
        line(
            &mut text,
            &name,
            &format!("{} ({serves}{services}){file}{tools}", daemon.about),
        );
    }
    text.push_str("\ndrivers\n");
    for driver in &project.drivers {
        let about = format!("{} ({})", driver.about, driver.protocol);
        line(&mut text, &driver.name, &about);
    }
    text.push_str("\nplans\n");
    for (name, path) in project.plans() {
        let plan = std::fs::read_to_string(&path).unwrap_or_default();
        let kind = if plan.contains("\n[suite]") {
            " [suite]"
        } else {
            ""
        };
        let _ = writeln!(
            text,
            "  {}{kind}{}",
            name.display(),
            shown(&path, &project.root)
        );
        let _ = writeln!(text, "      {}", question(&plan).unwrap_or_default());
    }
    let suites = folder::all(out);
    let _ = writeln!(text, "\nsuites in {}", out.display());
    for (path, record) in &suites {
        let _ = writeln!(text, "  {}  {}", path.display(), progress(record));
    }
    if suites.is_empty() {
        text.push_str("  none\n");
    }
    Ok(text)
}

/// Returns the path of a file that is not in the nearest folder, in brackets: several folders may have one of its name.
fn shown(file: &Path, roots: &Roots) -> String {
    if file.starts_with(&roots.nearest().path) {
        String::new()
    } else {
        format!(" [{}]", file.display())
    }
}

fn line(text: &mut String, name: &str, about: &str) {
    // Writing to a String can't fail.
    let _ = writeln!(text, "  {name:18}{about}");
}

fn indented(text: &str) -> String {
    text.replace('\n', &format!("\n{:20}", ""))
}

fn progress(record: &Record) -> String {
    let of = record
        .suite
        .total()
        .map_or(String::new(), |total| format!(" of {total}"));
    let unreached = match record.unreached.len() {
        0 => String::new(),
        count => format!(", {count} not measured"),
    };
    let ended = if record.ended_at.is_some() {
        ""
    } else {
        ", not finished: repeat drover run to continue it"
    };
    format!("{}{of} runs{unreached}{ended}", record.runs.len())
}
