//! The served folder: resolves paths and reads files.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{self, File, create_dir_all};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use hyper::StatusCode;
use hyper::body::Bytes;
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use percent_encoding::percent_decode_str;

/// The files that every `http` daemon serves: names, and lengths in bytes.
const FILES: [(&str, usize); 3] = [
    ("1kb.txt", 1024),
    ("10kb.txt", 10_240),
    ("100kb.txt", 102_400),
];
/// Larger files are never cached, so that large folders do not fill the memory.
const LARGEST_KEPT: u64 = 1 << 20;

/// Opens the folder. Creates it with its files, unless it exists.
pub(crate) fn open(root: &Path) -> anyhow::Result<OwnedFd> {
    let shown = root.display();
    if !root.exists() {
        create(root)?;
    }
    ensure!(
        root.is_dir(),
        "--root {shown} is not a folder; name another one"
    );
    let folder =
        File::open(root).with_context(|| format!("cannot open the folder {shown} (--root)"))?;
    Ok(folder.into())
}

fn create(root: &Path) -> anyhow::Result<()> {
    let shown = root.display();
    create_dir_all(root).with_context(|| {
        format!("cannot create the folder {shown} (choose another with --root)")
    })?;
    for (name, length) in FILES {
        if let Err(error) = fs::write(root.join(name), vec![0; length]) {
            // The next start would take a part of the files for all of them.
            let _ = fs::remove_dir_all(root);
            return Err(error).with_context(|| format!("cannot create {shown}/{name}"));
        }
    }
    Ok(())
}

/// An opened folder with its cache. Used by one thread.
#[derive(Debug)]
pub(crate) struct Folder {
    root: Arc<OwnedFd>,
    kept: Option<RefCell<HashMap<Box<str>, Bytes>>>,
    /// Number of bytes that are read at once.
    piece: usize,
}

#[derive(Debug)]
pub(crate) enum Content {
    Whole(Bytes),
    /// Content that is read in pieces while it is sent.
    Pieces(Pieces),
}

impl Folder {
    pub(crate) fn new(root: Arc<OwnedFd>, keeps: bool, piece: usize) -> Self {
        Self {
            root,
            kept: keeps.then(RefCell::default),
            piece,
        }
    }

    /// Finds the file that a request path names.
    ///
    /// # Errors
    /// The HTTP status of the failure.
    pub(crate) fn find(&self, path: &str) -> Result<Content, StatusCode> {
        let name = path.strip_prefix('/').ok_or(StatusCode::NOT_FOUND)?;
        let name = percent_decode_str(name).decode_utf8();
        let name = &*name.map_err(|_| StatusCode::NOT_FOUND)?;
        let Some(kept) = &self.kept else {
            return self.read(name);
        };
        if let Some(bytes) = kept.borrow().get(name) {
            return Ok(Content::Whole(bytes.clone()));
        }
        let bytes = match self.read(name)? {
            Content::Whole(bytes) => bytes,
            Content::Pieces(mut pieces) if pieces.left <= LARGEST_KEPT => {
                let read = pieces.read(pieces.left);
                read.map_err(|error| status(&error))?
            }
            large => return Ok(large),
        };
        kept.borrow_mut().insert(name.into(), bytes.clone());
        Ok(Content::Whole(bytes))
    }

    /// Opens, stats, reads and closes a file, as a server without a cache does. Runs on the runtime's thread: reading
    /// from the page cache is faster than waking another thread.
    fn read(&self, name: &str) -> Result<Content, StatusCode> {
        // Each file must have only one name, so that the cache is bounded.
        if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(StatusCode::NOT_FOUND);
        }
        let file = self
            .open_file(name)
            .map_err(|errno| status(&errno.into()))?;
        let facts = file.metadata().map_err(|error| status(&error))?;
        if !facts.is_file() {
            return Err(StatusCode::NOT_FOUND);
        }
        let mut pieces = Pieces {
            file,
            left: facts.len(),
            piece: self.piece,
        };
        if pieces.left > self.piece as u64 {
            return Ok(Content::Pieces(pieces));
        }
        pieces
            .next()
            .map(Content::Whole)
            .map_err(|error| status(&error))
    }

    fn open_file(&self, name: &str) -> nix::Result<File> {
        // The kernel rejects paths that leave the folder, through `..`, links or an absolute path. Without O_NONBLOCK,
        // opening a named pipe would wait for its other end.
        let how = OpenHow::new()
            .flags(OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY)
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        openat2(&*self.root, name, how).map(File::from)
    }
}

/// The rest of a file.
#[derive(Debug)]
pub(crate) struct Pieces {
    file: File,
    /// Number of bytes that are announced but not read yet.
    pub(crate) left: u64,
    piece: usize,
}

impl Pieces {
    /// Reads the next piece; empty after the last.
    ///
    /// # Errors
    /// An I/O error, or a file that has become shorter.
    pub(crate) fn next(&mut self) -> io::Result<Bytes> {
        self.read(self.left.min(self.piece as u64))
    }

    fn read(&mut self, length: u64) -> io::Result<Bytes> {
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(usize::MAX));
        // A read that fills its limit is the last: no extra read for the end of the file.
        let read = (&self.file).take(length).read_to_end(&mut bytes)? as u64;
        if read < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= length;
        Ok(bytes.into())
    }
}

fn status(error: &io::Error) -> StatusCode {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EACCES | Errno::EPERM) => StatusCode::FORBIDDEN,
        // Also paths that leave the folder (EXDEV), and names that no file can have.
        Some(
            Errno::ENOENT
            | Errno::ENOTDIR
            | Errno::ELOOP
            | Errno::EXDEV
            | Errno::ENAMETOOLONG
            | Errno::EINVAL
            | Errno::ENXIO,
        ) => StatusCode::NOT_FOUND,
        // Temporary failures. EAGAIN: the tree was being renamed while a `..` in a link was followed.
        Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::EAGAIN) => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Returns the content type of a file, from the end of its name.
pub(crate) fn content_type(path: &str) -> &'static str {
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
    match extension {
        "txt" => "text/plain",
        "html" => "text/html",
        "css" => "text/css",
        "js" => "text/javascript",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        _ => "application/octet-stream",
    }
}
