"""Makes the virtual environment of the daemon, or says what is missing for it.

    python3 build.py --check     exit with 1 and a remedy if this Python will not do
    python3 build.py FOLDER      make FOLDER/venv with requirements.txt; done at once if it is there already

Needs nothing but the standard library.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
OLDEST = (3, 11)


def problem():
    """What keeps this Python from making the environment, or None. (No newer syntax: an old Python must get here.)"""
    if sys.version_info < OLDEST:
        return "this is Python {}.{} ({}); 3.11 or newer is needed".format(*sys.version_info[:2], sys.executable)
    # What has no file is an empty folder that a removed package left.
    found = {name: importlib.util.find_spec(name) for name in ("venv", "ensurepip")}
    missing = [name for name, specification in found.items() if getattr(specification, "origin", None) is None]
    if missing:
        return "this Python ({}) has no {}: on Debian, apt-get install python3-venv".format(
            sys.executable, " and no ".join(missing)
        )
    return None


def build(folder: Path) -> None:
    """Makes the environment, unless one of the same Python with the same requirements is there."""
    venv = folder / "venv"
    # The last thing that is written: what was interrupted has none.
    stamp = venv / "made-of.txt"
    wanted = "{}\n{}\n{}".format(os.path.realpath(sys.executable), sys.version, REQUIREMENTS.read_text())
    python = venv / "bin" / "python"
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        return
    subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-input"]
    subprocess.run([*pip, "--requirement", str(REQUIREMENTS)], check=True)
    stamp.write_text(wanted)


def main() -> int:
    """The exit code: 1 if something is missing, 2 for a wrong call."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    found = problem()
    if found:
        print(found, file=sys.stderr)
        return 1
    if sys.argv[1] != "--check":
        try:
            build(Path(sys.argv[1]))
        except subprocess.CalledProcessError as error:
            print("building failed: {}".format(error), file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
