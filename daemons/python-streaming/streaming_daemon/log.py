"""Warnings on stderr, with a limit per second: many bad handoffs must not cause as many lines."""

import sys
import time

_LINES_PER_SECOND = 5


def print_error(message: str) -> None:
    """Writes one line to stderr."""
    try:
        print(f"streaming-daemon: {message}", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        pass  # stderr is closed: nothing can be done about it.


class Log:
    """A log with a limit per second, which reports the number of suppressed lines."""

    def __init__(self) -> None:
        self._second = -1
        self._lines = 0
        self._suppressed = 0

    def warn(self, message: str) -> None:
        """Writes a line, unless the limit of this second is reached."""
        suppressed = self.admit(int(time.monotonic()))
        if suppressed is None:
            return
        note = f" ({suppressed} earlier lines were left out)" if suppressed else ""
        print_error(message + note)

    def admit(self, second: int) -> int | None:
        """Returns the number of lines suppressed before this one, or None if this one must be suppressed too."""
        if second != self._second:
            self._second, self._lines = second, 0
        if self._lines >= _LINES_PER_SECOND:
            self._suppressed += 1
            return None
        self._lines += 1
        suppressed, self._suppressed = self._suppressed, 0
        return suppressed
