//! The queue for the write lock: processes wait in the kernel, in their order, and none polls.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::error::Error;
use crate::files::{file_beside, open_or_create};

/// The file that writers lock.
#[derive(Debug)]
pub(crate) struct LockFile {
    path: PathBuf,
    file: Option<File>,
    /// A thread that waits for the lock, since a call whose time has ended.
    waiting: Option<Receiver<Result<Flock<File>, Errno>>>,
}

/// The write lock. It is released when this is dropped, also by the death of the process.
#[derive(Debug)]
pub(crate) struct WriteLock<'a> {
    lock: Option<Flock<File>>,
    home: &'a mut Option<File>,
}

impl LockFile {
    /// Opens the lock file of a database, and creates it if it is missing.
    pub(crate) fn open(database: &Path) -> Result<Self, Error> {
        let path = file_beside(database, ".lock");
        match open_or_create(&path) {
            Ok(file) => Ok(Self {
                path,
                file: Some(file),
                waiting: None,
            }),
            Err(cause) => Err(Error::Lock { path, cause }),
        }
    }

    /// Waits for the write lock, for this time or forever.
    ///
    /// The kernel has no such wait with an end, so a thread waits if the lock is not free. It goes on if the time ends
    /// before, and the next call takes its place in the queue; if it gets the lock while nobody calls, it releases it.
    pub(crate) fn lock(&mut self, wait: Option<Duration>) -> Result<WriteLock<'_>, Error> {
        let lock = loop {
            let waiting = match self.waiting.take() {
                Some(waiting) => waiting,
                None => match self.try_lock()? {
                    Ok(lock) => break lock,
                    Err(file) => wait_in_thread(file).map_err(|cause| self.failed(cause))?,
                },
            };
            let received = match wait {
                Some(wait) => waiting.recv_timeout(wait),
                None => waiting.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match received {
                Ok(Ok(lock)) => break lock,
                Ok(Err(errno)) => return Err(self.failed(errno.into())),
                Err(RecvTimeoutError::Timeout) => {
                    self.waiting = Some(waiting);
                    return Err(Error::Locked(self.path.clone()));
                }
                // The thread got the lock and released it.
                Err(RecvTimeoutError::Disconnected) => {}
            }
        };
        Ok(WriteLock {
            lock: Some(lock),
            home: &mut self.file,
        })
    }

    /// Takes the lock if it is free, and returns the file otherwise.
    fn try_lock(&mut self) -> Result<Result<Flock<File>, File>, Error> {
        let file = match self.file.take() {
            Some(file) => file,
            None => open_or_create(&self.path).map_err(|cause| self.failed(cause))?,
        };
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(Ok(lock)),
            Err((file, Errno::EWOULDBLOCK)) => Ok(Err(file)),
            Err((_, errno)) => Err(self.failed(errno.into())),
        }
    }

    fn failed(&self, cause: io::Error) -> Error {
        let path = self.path.clone();
        Error::Lock { path, cause }
    }
}

/// Waits for the lock in a thread, and gives it to the receiver if one waits then.
fn wait_in_thread(mut file: File) -> io::Result<Receiver<Result<Flock<File>, Errno>>> {
    // Without room, a lock is sent only to a receiver that waits at that moment.
    let (sender, receiver) = sync_channel(0);
    let wait = move || {
        let received = loop {
            match Flock::lock(file, FlockArg::LockExclusive) {
                Ok(lock) => break Ok(lock),
                Err((back, Errno::EINTR)) => file = back,
                Err((_, errno)) => break Err(errno),
            }
        };
        // What nobody receives is dropped, which releases the lock.
        let _ = sender.try_send(received);
    };
    thread::Builder::new().name("lock".to_owned()).spawn(wait)?;
    Ok(receiver)
}

impl Drop for WriteLock<'_> {
    fn drop(&mut self) {
        // Unlocking an open file does not fail; closing it would unlock it too.
        if let Some(Ok(file)) = self.lock.take().map(Flock::unlock) {
            *self.home = Some(file);
        }
    }
}
