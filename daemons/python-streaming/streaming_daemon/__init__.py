"""A streaming daemon: takes client sockets over a Unix socket and answers each with server-sent events."""

__version__ = "0.1.0"
