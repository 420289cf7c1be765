//! The paths of a database's socket, and of the database itself.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The longest path of a Unix socket on Linux, in bytes (unix(7): `sun_path` has 108 with the final zero).
const MAX_SOCKET_PATH: usize = 107;
const SOCKET_NAME: &str = "issues.sock";

/// Returns the path of a database that is the same however it was written: absolute, and without links.
///
/// # Errors
/// The folder of the database does not exist.
pub fn database_identity(database: &Path) -> io::Result<PathBuf> {
    match database.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return other,
    }
    // A database that does not exist yet is in a folder that does.
    let folder = match database.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let name = database
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "is not the path of a file"))?;
    Ok(folder.canonicalize()?.join(name))
}

/// Returns the socket of the daemon that serves a database, given by its [identity](database_identity): `issues.sock`
/// beside it. If that path is longer than a socket's can be, the socket is in `$XDG_RUNTIME_DIR` or below `/tmp`, in a
/// folder of this user that is named by a hash of the path.
#[must_use]
pub fn socket_path(database: &Path) -> PathBuf {
    let beside = database.with_file_name(SOCKET_NAME);
    if beside.as_os_str().len() <= MAX_SOCKET_PATH {
        return beside;
    }
    let user = nix::unistd::geteuid();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let folder = match runtime.filter(|path| path.as_os_str().len() < 60) {
        Some(runtime) => runtime.join("issue-daemon"),
        None => PathBuf::from(format!("/tmp/issue-daemon-{user}")),
    };
    let hash = crate::request::fingerprint(&[beside.as_os_str().as_bytes()]);
    folder.join(format!("{hash:016x}.sock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_is_beside_the_database_unless_its_path_is_too_long() {
        let near = Path::new("/srv/team/issues.db");
        assert_eq!(socket_path(near), Path::new("/srv/team/issues.sock"));
        let long = |last: char| PathBuf::from(format!("/{}{last}/issues.db", "x".repeat(120)));
        let (one, two) = (socket_path(&long('a')), socket_path(&long('b')));
        assert!(one.as_os_str().len() <= MAX_SOCKET_PATH);
        assert_ne!(one, two);
    }

    #[test]
    fn links_and_relative_paths_lead_to_the_same_database() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().join("real");
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, folder.path().join("link")).unwrap();
        let identity = |path: &str| database_identity(&folder.path().join(path)).unwrap();
        assert_eq!(identity("link/issues.db"), identity("real/issues.db"));
        std::fs::write(real.join("issues.db"), "").unwrap();
        assert_eq!(
            identity("link/issues.db"),
            identity("real/../real/issues.db")
        );
        assert!(database_identity(&folder.path().join("no/issues.db")).is_err());
    }
}
