//! A file system that is soon full.

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use tempfile::TempDir;
use test_kit::skip;

/// A file system in memory, for the lifetime of this value.
pub(crate) struct SmallDisk(pub(crate) TempDir);

impl SmallDisk {
    /// Mounts a file system of a size such as `4m`. Returns `None`, and reports the test as skipped, if that is not
    /// allowed.
    #[track_caller]
    pub(crate) fn mount(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let (kind, size) = (Some("tmpfs"), format!("size={size}"));
        let flags = MsFlags::empty();
        if let Err(error) = mount(kind, folder.path(), kind, flags, Some(size.as_str())) {
            skip(format_args!("the right to mount a file system: {error}"));
            return None;
        }
        Some(Self(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        umount2(self.0.path(), MntFlags::MNT_DETACH).unwrap();
    }
}
