"""Entry point of `python -m streaming_daemon`."""

import sys

from streaming_daemon.main import main

sys.exit(main())
