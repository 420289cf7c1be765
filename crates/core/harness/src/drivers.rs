//! Finds the drivers of a project, and installed ones, by the content of their folders.

use std::path::{Path, PathBuf};

use subject::manifest::{Root, Roots};

/// A driver: a crate whose `Cargo.toml` has `[package.metadata.drover] protocol = "…"`. A copy of that file,
/// `drivers/<name>.toml`, stands for an installed one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownDriver {
    /// The name of the crate and of its program.
    pub name: String,
    /// The protocol that it speaks.
    pub protocol: String,
    /// Further ones, which daemons may serve for some of its plans: `also = ["…"]`.
    pub also: Vec<String>,
    /// A one-line description.
    pub about: String,
    /// The source checkout that it is built in; absent for an installed one.
    pub sources: Option<PathBuf>,
}

impl KnownDriver {
    /// Returns true if it speaks a protocol, in all of its plans or in some.
    #[must_use]
    pub fn speaks(&self, protocol: &str) -> bool {
        self.protocol == protocol || self.also.iter().any(|also| also == protocol)
    }

    fn from_manifest(manifest: &Path) -> Option<Self> {
        let table: toml::Table = std::fs::read_to_string(manifest).ok()?.parse().ok()?;
        let package = table.get("package")?;
        let text = |value: Option<&toml::Value>| value?.as_str().map(str::to_owned);
        let metadata = package.get("metadata")?.get("drover")?;
        let also = metadata.get("also").and_then(toml::Value::as_array);
        let also = also.into_iter().flatten().map(|also| text(Some(also)));
        Some(Self {
            name: text(package.get("name"))?,
            protocol: text(metadata.get("protocol"))?,
            also: also.collect::<Option<_>>()?,
            about: text(package.get("description")).unwrap_or_default(),
            sources: None,
        })
    }
}

/// Returns all drivers, sorted by name. The nearest of those with one name counts.
#[must_use]
pub fn list(roots: &Roots) -> Vec<KnownDriver> {
    let mut drivers: Vec<KnownDriver> = Vec::new();
    for driver in roots.iter().flat_map(of_root) {
        if drivers.iter().all(|known| known.name != driver.name) {
            drivers.push(driver);
        }
    }
    drivers.sort_by(|one, other| one.name.cmp(&other.name));
    drivers
}

/// Returns the drivers of one root: those whose sources are there, and those that are described there.
fn of_root(root: &Root) -> Vec<KnownDriver> {
    let built = crates(&root.path).into_iter().filter_map(|folder| {
        let driver = KnownDriver::from_manifest(&folder.join("Cargo.toml"))?;
        let sources = root.is_checkout().then(|| root.path.clone());
        Some(KnownDriver { sources, ..driver })
    });
    let described = entries(&root.path.join("drivers")).into_iter();
    built
        .chain(described.filter_map(|file| KnownDriver::from_manifest(&file)))
        .collect()
}

/// Returns the folders of a project that may be crates: `crates/<crate>` and `crates/<room>/<crate>`.
#[must_use]
pub fn crates(root: &Path) -> Vec<PathBuf> {
    let outer = entries(&root.join("crates"));
    let inner: Vec<PathBuf> = outer.iter().flat_map(|folder| entries(folder)).collect();
    outer.into_iter().chain(inner).collect()
}

/// Returns the entries of a folder, or nothing if it does not exist.
#[must_use]
pub fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_a_driver_if_its_manifest_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let manifest = folder.path().join("Cargo.toml");
        let plain = "[package]\nname = 'a'\ndescription = 'b'\nversion.workspace = true\n";
        std::fs::write(&manifest, plain).unwrap();
        assert_eq!(KnownDriver::from_manifest(&manifest), None);
        let marked = format!("{plain}[package.metadata.drover]\nprotocol = 'p'\n");
        std::fs::write(&manifest, marked).unwrap();
        let driver = KnownDriver::from_manifest(&manifest).unwrap();
        assert_eq!(driver.protocol, "p");
        let none = KnownDriver::from_manifest(&folder.path().join("none"));
        assert_eq!(none, None);
    }

    #[test]
    fn a_driver_is_found_in_a_room_and_in_a_project_without_rooms() {
        let project = tempfile::tempdir().unwrap();
        for (name, folder) in [("a", "crates/a"), ("b", "crates/drivers/b")] {
            let folder = project.path().join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            let manifest =
                format!("package = {{ name = '{name}', metadata.drover.protocol = 'p' }}");
            std::fs::write(folder.join("Cargo.toml"), manifest).unwrap();
        }
        let names = list(&Roots::from(project.path()))
            .into_iter()
            .map(|driver| driver.name);
        assert_eq!(names.collect::<Vec<_>>(), ["a", "b"]);
    }
}
