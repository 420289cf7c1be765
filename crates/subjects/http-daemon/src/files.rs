//! The served folder: resolves paths and reads files.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{self, File, create_dir_all};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use hyper::StatusCode;
use hyper::body::Bytes;
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::sendfile::sendfile;
use percent_encoding::percent_decode_str;

/// The files that every `http` daemon serves: names, and lengths in bytes.
const FILES: [(&str, usize); 3] = [
    ("1kb.txt", 1024),
    ("10kb.txt", 10_240),
    ("100kb.txt", 102_400),
];
/// Larger files are never cached, so that large folders do not fill the memory.
const LARGEST_KEPT: u64 = 1 << 20;
/// Larger files are not read into memory over HTTP/1.1 without TLS, but sent by the kernel from its page cache.
const LARGEST_READ: u64 = 16 << 10;

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

/// The files in memory, by name.
type Kept = HashMap<Box<str>, (Facts, Bytes)>;

/// An opened folder with its cache. Used by one thread.
#[derive(Debug)]
pub(crate) struct Folder {
    root: Arc<OwnedFd>,
    kept: Option<RefCell<Kept>>,
    /// Number of bytes that are read at once.
    piece: usize,
}

/// The properties of a file that responses name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    pub(crate) length: u64,
    /// Seconds since 1970.
    pub(crate) modified: u64,
    /// The content type, from the end of its name.
    pub(crate) kind: &'static str,
}

impl Facts {
    /// Returns the entity tag, as nginx makes it.
    pub(crate) fn etag(&self) -> String {
        format!("\"{:x}-{:x}\"", self.modified, self.length)
    }
}

/// The reason why a path leads to no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotServed {
    Failed(StatusCode),
    /// The path names a folder, without the slash at its end.
    IsFolder,
}

impl From<io::Error> for NotServed {
    fn from(error: io::Error) -> Self {
        Self::Failed(status(&error))
    }
}

#[derive(Debug)]
pub(crate) enum Content {
    Whole(Bytes),
    /// Content that is read while it is sent.
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

    /// Finds the file that a request path names. A path with a slash at its end names the index of a folder.
    pub(crate) fn find(&self, path: &str) -> Result<(Facts, Content), NotServed> {
        const NOT_FOUND: NotServed = NotServed::Failed(StatusCode::NOT_FOUND);
        let name = path.strip_prefix('/').ok_or(NOT_FOUND)?;
        let name = percent_decode_str(name).decode_utf8();
        let name = name.map_err(|_| NOT_FOUND)?;
        let folder = match &*name {
            "" => Some("."),
            name => name.strip_suffix('/'),
        };
        let index = folder.map(|_| format!("{name}index.html"));
        let name = index.as_deref().unwrap_or(&name);
        // Each file must have only one name, so that the cache is bounded.
        if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(NOT_FOUND);
        }
        match (self.read(name), folder) {
            (Err(NOT_FOUND | NotServed::IsFolder), Some(folder))
                if self.open_file(folder, OFlag::O_DIRECTORY).is_ok() =>
            {
                Err(NotServed::Failed(StatusCode::FORBIDDEN))
            }
            (found, _) => found,
        }
    }

    /// Opens and stats a file, as a server without a cache does, or takes it from the cache. Runs on the runtime's
    /// thread: reading from the page cache is faster than waking another thread.
    fn read(&self, name: &str) -> Result<(Facts, Content), NotServed> {
        if let Some(kept) = &self.kept
            && let Some((facts, bytes)) = kept.borrow().get(name)
        {
            return Ok((*facts, Content::Whole(bytes.clone())));
        }
        let file = self.open_file(name, OFlag::O_NONBLOCK)?;
        let found = file.metadata()?;
        if found.is_dir() {
            return Err(NotServed::IsFolder);
        }
        if !found.is_file() {
            return Err(NotServed::Failed(StatusCode::NOT_FOUND));
        }
        let facts = Facts {
            length: found.len(),
            modified: u64::try_from(found.mtime()).unwrap_or(0),
            kind: content_type(name),
        };
        let mut pieces = Pieces {
            file,
            left: facts.length,
            piece: self.piece,
        };
        if let Some(kept) = &self.kept
            && pieces.left <= LARGEST_KEPT
        {
            let bytes = pieces.read(pieces.left)?;
            let kept_facts = (facts, bytes.clone());
            kept.borrow_mut().insert(name.into(), kept_facts);
            return Ok((facts, Content::Whole(bytes)));
        }
        Ok((facts, Content::Pieces(pieces)))
    }

    fn open_file(&self, name: &str, flags: OFlag) -> io::Result<File> {
        // The kernel rejects paths that leave the folder, through `..`, links or an absolute path. Without O_NONBLOCK,
        // opening a named pipe would wait for its other end.
        let how = OpenHow::new()
            .flags(OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NOCTTY | flags)
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        Ok(openat2(&*self.root, name, how).map(File::from)?)
    }
}

impl Content {
    /// Restricts the content to these bytes, and reads them if they are few: one write then sends them with the head.
    pub(crate) fn part(self, range: Range<u64>) -> io::Result<Self> {
        Ok(match self {
            Self::Whole(bytes) => {
                Self::Whole(bytes.slice(range.start as usize..range.end as usize))
            }
            Self::Pieces(mut pieces) => {
                if range.start > 0 {
                    pieces.file.seek(SeekFrom::Start(range.start))?;
                }
                pieces.left = range.end - range.start;
                if pieces.left > LARGEST_READ {
                    return Ok(Self::Pieces(pieces));
                }
                Self::Whole(pieces.read(pieces.left)?)
            }
        })
    }
}

impl Content {
    /// Reads a piece from the begin of a range, and takes it off.
    ///
    /// # Errors
    /// An I/O error, or a file that has become shorter.
    pub(crate) fn read(&mut self, range: &mut Range<u64>) -> io::Result<Bytes> {
        let bytes = match self {
            Self::Whole(bytes) => bytes.slice(range.start as usize..range.end as usize),
            Self::Pieces(pieces) => {
                pieces.file.seek(SeekFrom::Start(range.start))?;
                pieces.left = range.end - range.start;
                pieces.next()?
            }
        };
        range.start += bytes.len() as u64;
        Ok(bytes)
    }
}

/// The rest of a file, from the position of its descriptor.
#[derive(Debug)]
pub(crate) struct Pieces {
    file: File,
    /// Number of bytes that are announced but not sent yet.
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

    /// Sends at most this many bytes to a socket, without copying them. Returns the number of bytes that it took.
    ///
    /// # Errors
    /// An I/O error, or a file that has become shorter.
    pub(crate) fn send(&mut self, socket: BorrowedFd<'_>, most: usize) -> io::Result<usize> {
        let most = most.min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let sent = sendfile(socket, &self.file, None, most)?;
        if sent == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= sent as u64;
        Ok(sent)
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
fn content_type(path: &str) -> &'static str {
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
