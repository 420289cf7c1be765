//! A project with daemons, and manifests for them.

use std::path::{Path, PathBuf};

use subject::daemon::{Daemon, DaemonError, Options, Prepared};

/// A project with daemons, in a temporary directory.
pub(crate) struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Creates a project with one daemon, `name`, that serves `test`.
    pub(crate) fn with(name: &str, manifest: &str) -> Self {
        let project = Self::new();
        project.add(name, manifest);
        project
    }

    pub(crate) fn add(&self, name: &str, manifest: &str) {
        std::fs::create_dir_all(self.dir(name)).unwrap();
        std::fs::write(
            self.dir(name).join("daemon.toml"),
            format!("about = 'a test'\nserves = ['test']\n{manifest}"),
        )
        .unwrap();
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn dir(&self, name: &str) -> PathBuf {
        self.root().join("daemons").join(name)
    }

    pub(crate) fn prepare(&self, name: &str) -> Result<Prepared, DaemonError> {
        Daemon::prepare(self.root(), name, "test", &mut |_| {})
    }

    pub(crate) async fn start(&self, name: &str) -> Result<Daemon, DaemonError> {
        self.prepare(name)?.start(&[], &Options::default()).await
    }
}

/// Returns a manifest that runs a shell script, ready when that writes `ready`.
pub(crate) fn script(text: &str) -> String {
    format!("run = ['sh', '-c', '''{text}''']\nready = {{ line = 'ready', timeout = '60s' }}\n")
}

/// Returns a manifest that runs one of the [`crate::roles`].
pub(crate) fn role(name: &str, ready: &str) -> String {
    let exe = std::env::current_exe().unwrap();
    format!(
        "run = ['{}', '--exact', 'plays_the_role_that_the_environment_names', '--nocapture']\n\
         env = {{ DROVER_TEST_ROLE = '{name}', SOCKET = '{{socket}}', PORT = '{{port}}' }}\nready = {ready}\n",
        exe.display()
    )
}
