"""The files that tools make are current, and the package is typed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PYTHON = Path(__file__).resolve().parents[1]


def check(*command: str) -> None:
    """Runs a command in the folder of the package."""
    done = subprocess.run(command, cwd=PYTHON, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_sync_classes_are_current() -> None:
    pytest.importorskip("unasync")
    check(sys.executable, "tools/make_sync.py", "--check")


def test_the_types_are_current() -> None:
    check(sys.executable, "tools/make_types.py", "--check")


@pytest.mark.skipif(shutil.which("mypy") is None, reason="mypy is not installed")
def test_mypy_finds_nothing() -> None:
    check("mypy")


@pytest.mark.skipif(shutil.which("pyright") is None, reason="pyright is not installed")
def test_pyright_finds_nothing() -> None:
    check("pyright")
