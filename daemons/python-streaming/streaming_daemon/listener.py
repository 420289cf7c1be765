"""The handoff socket. Its file has the configured permissions, does not replace the socket of a running daemon, and is
removed at the end.
"""

import errno
import os
import socket
import stat
from pathlib import Path

_MAX_PATH_BYTES = 107
# The kernel limits it to net.core.somaxconn.
MAX_BACKLOG = 2**31 - 1


class StartError(Exception):
    """The daemon cannot start. The message states the reason and the remedy."""


class Listener:
    """A listening handoff socket, and its file."""

    def __init__(self, path: Path, mode: int, kind: socket.SocketKind, backlog: int) -> None:
        if len(os.fsencode(path)) > _MAX_PATH_BYTES:
            raise StartError(f"{path}: the socket path is too long: give at most {_MAX_PATH_BYTES} bytes")
        _remove_stale(path)
        self.socket = socket.socket(socket.AF_UNIX, kind)
        self._path = path
        self._file: tuple[int, int] | None = None
        try:
            self.socket.setblocking(False)
            _bind(self.socket, path, mode)
            self._file = _identity(path)
            self.socket.listen(min(backlog, MAX_BACKLOG))
        except OSError as error:
            self.close()
            raise StartError(f"cannot create the socket {path}: {error.strerror}") from error

    def refuse_further(self) -> None:
        """Refuses new connections. Those in the accept queue can still be accepted."""
        self.remove()
        self.socket.shutdown(socket.SHUT_RD)

    def remove(self) -> None:
        """Removes the file, unless it is gone or another file has replaced it."""
        try:
            if _identity(self._path) == self._file:
                self._path.unlink()
        except OSError:
            pass  # A stale file remains, which the next start replaces.

    def close(self) -> None:
        """Closes the socket and removes its file."""
        self.remove()
        self.socket.close()


def _bind(listener: socket.socket, path: Path, mode: int) -> None:
    """Creates the file with its permissions. They are never wider than configured."""
    before = os.umask(0o777 & ~mode)
    try:
        listener.bind(os.fspath(path))
    finally:
        os.umask(before)


def _identity(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_dev, found.st_ino


def _remove_stale(path: Path) -> None:
    """Removes the file of a daemon that has ended.

    The function connects to find out: ECONNREFUSED means that no process is listening; after any other result one
    might be.
    """
    try:
        is_socket = stat.S_ISSOCK(path.lstat().st_mode)
    except OSError:
        return  # bind reports a missing folder and the like.
    if not is_socket:
        raise StartError(f"{path} exists and is not a socket: name another path, or move it away")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        answer = probe.connect_ex(os.fspath(path))
    if answer == errno.EACCES:
        raise StartError(
            f"{path}: no permission to check whether a process listens on it: remove it, or name another path"
        )
    if answer != errno.ECONNREFUSED:
        raise StartError(f"another process is listening on {path}: stop it, or name another path")
    try:
        path.unlink()
    except OSError as error:
        raise StartError(f"cannot remove the stale socket {path}: {error.strerror}") from error
