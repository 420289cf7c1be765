"""Starts a process for each connection to a Unix socket, as inetd does: `serve.py SOCKET PROGRAM ARGUMENT…`.

The connection is the standard input and output of the process, so nothing stands between the two once it runs.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys


def main() -> None:
    """Creates the database, and serves connections until SIGTERM."""
    path, command = sys.argv[1], sys.argv[2:]
    subprocess.run([*command, "init"], check=True)
    # The kernel reaps the processes.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.socket(socket.AF_UNIX)
    os.umask(0o117)
    listener.bind(path)
    listener.listen(1024)

    def stop(_signal: int, _frame: object) -> None:
        # No answer is lost: a process ends when its client, which has its answers, has left.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        sys.exit(0)

    signal.signal(signal.SIGTERM, stop)
    while True:
        connection, _ = listener.accept()
        with connection:
            subprocess.Popen([*command, "requests"], stdin=connection, stdout=connection)


if __name__ == "__main__":
    main()
