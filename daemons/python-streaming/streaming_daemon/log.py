"""Complaints on stderr, a few per second at most: a flood of bad handoffs must not become a flood of lines."""

import sys
import time

_LINES_PER_SECOND = 5


def complain(message: str) -> None:
    """Writes one line."""
    try:
        print(f"streaming-daemon: {message}", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        pass  # Nothing can be done about a stderr that is gone.


class Log:
    """A log with a limit per second, which says how much it left out."""

    def __init__(self) -> None:
        self._second = -1
        self._lines = 0
        self._suppressed = 0

    def warn(self, message: str) -> None:
        """Writes a line, unless this second has had its share."""
        suppressed = self.admit(int(time.monotonic()))
        if suppressed is None:
            return
        note = f" ({suppressed} earlier lines were left out)" if suppressed else ""
        complain(message + note)

    def admit(self, second: int) -> int | None:
        """Whether a line may be written in this second: how many were not before it, or None."""
        if second != self._second:
            self._second, self._lines = second, 0
        if self._lines >= _LINES_PER_SECOND:
            self._suppressed += 1
            return None
        self._lines += 1
        suppressed, self._suppressed = self._suppressed, 0
        return suppressed
