"""Creates the virtual environment of the daemon, or reports what is missing for it.

    python3 build.py --check     exit with 1 and a remedy if this Python is not suitable
    python3 build.py FOLDER      create FOLDER/venv with requirements.txt, unless it is up to date

Needs only the standard library.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
OLDEST = (3, 11)


def problem():
    """Returns the reason why this Python is not suitable, or None. (Old syntax only: an old Python must get here.)"""
    if sys.version_info < OLDEST:
        return "this is Python {}.{} ({}); 3.11 or newer is needed".format(*sys.version_info[:2], sys.executable)
    # A module without a file is an empty folder left by a removed package.
    found = {name: importlib.util.find_spec(name) for name in ("venv", "ensurepip")}
    missing = [name for name, specification in found.items() if getattr(specification, "origin", None) is None]
    if missing:
        return "this Python ({}) has no {}: on Debian, apt-get install python3-venv".format(
            sys.executable, " and no ".join(missing)
        )
    return None


def build(folder: Path) -> None:
    """Creates the environment, unless one with the same Python and the same requirements exists."""
    venv = folder / "venv"
    # Written last: an interrupted build does not have it.
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
    """Returns the exit code: 1 if something is missing or fails, 2 after a usage error."""
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
            print("cannot create the virtual environment: {}".format(error), file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
