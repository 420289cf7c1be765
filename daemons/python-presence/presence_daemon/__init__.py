"""The presence protocol on python-socketio."""

__version__ = "0.1.0"
