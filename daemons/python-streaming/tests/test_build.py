"""The build step of the manifest."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import FOLDER

specification = importlib.util.spec_from_file_location("build", FOLDER / "build.py")
build = importlib.util.module_from_spec(specification)
specification.loader.exec_module(build)


def test_a_python_that_will_do_is_taken() -> None:
    assert subprocess.run([sys.executable, FOLDER / "build.py", "--check"], check=False).returncode == 0


def test_a_missing_venv_module_is_named_with_the_package_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    there = SimpleNamespace(origin="/lib/venv.py")
    monkeypatch.setattr(build.importlib.util, "find_spec", lambda name: None if name == "ensurepip" else there)
    assert "no ensurepip" in build.problem() and "python3-venv" in build.problem()


def test_an_old_python_is_named_with_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "sys", SimpleNamespace(version_info=(3, 9, 2), executable="/old/python3"))
    assert build.problem() == "this is Python 3.9 (/old/python3); 3.11 or newer is needed"


def test_what_is_built_is_built_again_only_if_something_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def run(command: list[str], check: bool) -> None:
        assert check
        calls.append(command)
        (tmp_path / "venv" / "bin").mkdir(parents=True, exist_ok=True)
        (tmp_path / "venv" / "bin" / "python").write_text("")
        if "pip" in command and len(calls) == 2:
            raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(build, "subprocess", SimpleNamespace(run=run))
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("a==1")
    monkeypatch.setattr(build, "REQUIREMENTS", requirements)
    with pytest.raises(subprocess.CalledProcessError):
        build.build(tmp_path)
    build.build(tmp_path)
    assert len(calls) == 4, "what failed is done again"
    build.build(tmp_path)
    assert len(calls) == 4, "what is there is left alone"
    requirements.write_text("a==2")
    build.build(tmp_path)
    assert len(calls) == 6
    os.remove(tmp_path / "venv" / "bin" / "python")
    build.build(tmp_path)
    assert len(calls) == 8, "the Python of the environment is gone"
