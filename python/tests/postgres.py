"""A PostgreSQL server of the tests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from servers import wait_until

FOLDERS = Path("/usr/lib/postgresql")
"""Where Debian keeps the programs, which are not in the PATH."""


def program(name: str) -> str | None:
    """The path of a program of PostgreSQL, the newest version of it."""
    newest = sorted(FOLDERS.glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    return str(newest[-1]) if newest else shutil.which(name)


@contextmanager
def server() -> Generator[str, None, None]:
    """A server with an empty data folder, which ends with the block. PostgreSQL refuses to run as root."""
    initdb, postgres, user = program("initdb"), program("postgres"), "postgres" if os.getuid() == 0 else None
    assert initdb and postgres, "install PostgreSQL"
    with tempfile.TemporaryDirectory(prefix="filrouge-pg-") as folder, socket.socket() as free:
        data = Path(folder) / "data"
        if user:
            shutil.chown(folder, user)
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
        command = [initdb, "-D", str(data), "-U", "postgres", "-A", "trust", "--no-sync"]
        subprocess.run(command, check=True, capture_output=True, user=user, env=environment, cwd=folder)
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
        free.close()
        command = [postgres, "-D", str(data), "-h", "127.0.0.1", "-p", port, "-k", folder, "-F"]
        with (Path(folder) / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, user=user, env=environment, cwd=folder)
        url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        try:
            wait_until(lambda: answers(url))
            yield url
        finally:
            process.terminate()
            process.wait(60)


def answers(url: str) -> bool:
    """Whether the server accepts connections."""
    address = url.rpartition("@")[2].partition("/")[0]
    host, _, port = address.partition(":")
    ready = program("pg_isready")
    assert ready
    return subprocess.run([ready, "-q", "-h", host, "-p", port], check=False).returncode == 0
