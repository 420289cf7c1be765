"""A streaming daemon: receives client sockets over a Unix socket and responds to each with server-sent events."""

__version__ = "0.1.0"
