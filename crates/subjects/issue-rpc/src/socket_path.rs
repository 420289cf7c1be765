//! The paths of a database's socket, and of the database itself.

use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
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

/// Checks that only this user can have put a socket where [`socket_path`] says: a folder that is not the database's own
/// belongs to this user, and is open to nobody else. One that is missing is right.
///
/// # Errors
/// The folder belongs to another user or is open to others; the text says what to do.
pub fn check_socket_folder(database: &Path, socket: &Path) -> io::Result<()> {
    let folder = socket.parent().unwrap_or(Path::new("/"));
    if database.parent() == Some(folder) {
        return Ok(());
    }
    match folder.symlink_metadata() {
        Ok(metadata) => check_own(folder, &metadata, nix::unistd::geteuid().as_raw()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn check_own(folder: &Path, metadata: &Metadata, user: u32) -> io::Result<()> {
    let problem = if !metadata.is_dir() {
        "is not a folder".to_owned()
    } else if metadata.uid() != user {
        format!("belongs to user {}", metadata.uid())
    } else if metadata.mode() & 0o077 != 0 {
        format!("is open to others (mode {:o})", metadata.mode() & 0o777)
    } else {
        return Ok(());
    };
    let problem = format!(
        "the socket's folder {} {problem}: remove it, or set XDG_RUNTIME_DIR to a folder of this user",
        folder.display()
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, problem))
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

    #[test]
    fn a_folder_of_sockets_is_this_user_s_alone() {
        use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};

        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("far/issues.db");
        let sockets = folder.path().join("sockets");
        let check = || {
            let checked = check_socket_folder(&database, &sockets.join("a.sock"));
            checked.map_err(|error| error.to_string())
        };
        assert_eq!(check(), Ok(()), "it is missing");
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&sockets)
            .unwrap();
        assert_eq!(check(), Ok(()));
        let metadata = sockets.symlink_metadata().unwrap();
        let foreign = check_own(&sockets, &metadata, metadata.uid() + 1).unwrap_err();
        assert!(foreign.to_string().contains("belongs to user"), "{foreign}");
        std::fs::set_permissions(&sockets, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(check().unwrap_err().contains("open to others (mode 755)"));
        let beside = check_socket_folder(&sockets.join("issues.db"), &sockets.join("issues.sock"));
        assert!(beside.is_ok(), "the database's own folder");
        std::fs::rename(&sockets, folder.path().join("elsewhere")).unwrap();
        symlink(folder.path().join("elsewhere"), &sockets).unwrap();
        assert!(check().unwrap_err().contains("is not a folder"));
    }
}
