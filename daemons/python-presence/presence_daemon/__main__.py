"""Runs the daemon as `python -m presence_daemon`."""

import sys

from presence_daemon.main import main

sys.exit(main())
