"""Servers that a test starts, kills and starts again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

PROGRAM = "import sys; from filrouge import _native; sys.exit(_native.run_program(['filrouge', *sys.argv[1:]]))"
PATIENCE_S = 60.0


class Server:
    """One `filrouge serve`, at an address that stays the same."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Server:
        """Starts it, and waits until it answers."""
        program = os.environ.get("FILROUGE_PROGRAM")
        command = [program] if program else [sys.executable, "-c", PROGRAM]
        store = f"sqlite:{self.folder / 'filrouge.db'}"
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "serve", "--listen", f"127.0.0.1:{self.port}", "--store", store],
                env=home(self.folder),
                stdout=log,
                stderr=log,
            )
        wait_until(self._answers)
        return self

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "server.log").read_text()
        try:
            urllib.request.urlopen(f"{self.url}/readyz", timeout=5).close()
        except OSError:
            return False
        return True

    def kill(self) -> None:
        """Ends it as a crash does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ends it as an operator does."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE_S)
            self._process = None


def home(folder: Path) -> dict[str, str]:
    """An environment without the user's files."""
    names = ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "FILROUGE_"))}
    return {**kept, "HOME": str(folder), **dict.fromkeys(names, str(folder / "xdg"))}


def wait_until(condition: object, patience: float = PATIENCE_S) -> None:
    """Waits until a function returns True."""
    assert callable(condition)
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end, "this takes too long"
        time.sleep(0.02)
