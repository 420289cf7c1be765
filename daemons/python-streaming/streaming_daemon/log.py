"""Logging to stderr."""

import logging
import time

_LINES_PER_SECOND = 5


class RateLimit(logging.Filter):
    """Passes a few warnings per second, since many bad handoffs must not cause as many lines.

    Adds the number of suppressed lines to the next one that passes. Errors always pass.
    """

    def __init__(self) -> None:
        super().__init__()
        self._second = -1
        self._lines = 0
        self._suppressed = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns whether to write the record."""
        if record.levelno >= logging.ERROR:
            return True
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._lines = second, 0
        if self._lines == _LINES_PER_SECOND:
            self._suppressed += 1
            return False
        self._lines += 1
        if self._suppressed:
            record.msg = f"{record.getMessage()} ({self._suppressed} earlier lines were left out)"
            record.args = None
            self._suppressed = 0
        return True


def configure_logging() -> None:
    """Makes all loggers write to stderr, one line for each record."""
    logging.basicConfig(format="streaming-daemon: %(message)s")
    logging.getLogger().handlers[0].addFilter(RateLimit())
    # If stderr is closed, nothing can be done about it.
    logging.raiseExceptions = False
