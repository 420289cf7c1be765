"""The handoff socket: made with its permissions, never stolen from a living daemon, removed at the end."""

import errno
import os
import socket
import stat
from pathlib import Path

_LONGEST_PATH = 107
# The kernel cuts it to net.core.somaxconn.
LONGEST_BACKLOG = 2**31 - 1


class StartError(Exception):
    """The daemon cannot start; the text says why, and what to do."""


class Listener:
    """A listening handoff socket, and its file."""

    def __init__(self, path: Path, mode: int, kind: socket.SocketKind, backlog: int) -> None:
        if len(os.fsencode(path)) > _LONGEST_PATH:
            raise StartError(f"{path}: a socket path has at most {_LONGEST_PATH} bytes")
        _remove_stale(path)
        self.socket = socket.socket(socket.AF_UNIX, kind)
        self._path = path
        self._file: tuple[int, int] | None = None
        try:
            self.socket.setblocking(False)
            _bind(self.socket, path, mode)
            self._file = _identity(path)
            self.socket.listen(min(backlog, LONGEST_BACKLOG))
        except OSError as error:
            self.close()
            raise StartError(f"making the socket {path}: {error.strerror}") from error

    def refuse_further(self) -> None:
        """From now on nobody can connect, while what waits in the accept queue can still be accepted."""
        self.remove()
        self.socket.shutdown(socket.SHUT_RD)

    def remove(self) -> None:
        """Removes the file, unless it is gone or another one stands in its place."""
        try:
            if _identity(self._path) == self._file:
                self._path.unlink()
        except OSError:
            pass  # Failing leaves a stale file, which the next start replaces.

    def close(self) -> None:
        """Ends it, file and all."""
        self.remove()
        self.socket.close()


def _bind(listener: socket.socket, path: Path, mode: int) -> None:
    """Makes the file with its permissions: at no moment is it open to more than was asked for."""
    before = os.umask(0o777 & ~mode)
    try:
        listener.bind(os.fspath(path))
    finally:
        os.umask(before)


def _identity(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_dev, found.st_ino


def _remove_stale(path: Path) -> None:
    """Removes the file of a daemon that is gone.

    Whether it is gone is asked by connecting: ECONNREFUSED means that nobody listens, and every other answer that
    somebody might.
    """
    try:
        is_socket = stat.S_ISSOCK(path.lstat().st_mode)
    except OSError:
        return  # A missing folder and the like: bind will say so.
    if not is_socket:
        raise StartError(f"{path} exists and is no socket: name another path, or move it away")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        answer = probe.connect_ex(os.fspath(path))
    if answer == errno.EACCES:
        raise StartError(f"{path}: no permission to ask who listens on it")
    if answer != errno.ECONNREFUSED:
        raise StartError(f"another process listens on {path}: stop it, or name another path")
    try:
        path.unlink()
    except OSError as error:
        raise StartError(f"removing the stale socket {path}: {error.strerror}") from error
