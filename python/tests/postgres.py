"""A PostgreSQL server for tests."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


class Postgres:
    """A server with fresh data. It refuses to run as root, so it then runs as `postgres` or `nobody`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        folder.mkdir()
        folder.chmod(0o777)
        for parent in folder.parents:
            if parent.owner() == pwd.getpwuid(os.getuid()).pw_name and parent != Path("/"):
                parent.chmod(parent.stat().st_mode | 0o011)
        self._run("initdb", "-D", self._data, "-U", "filrouge", "--auth=trust", "--no-sync", "-E", "UTF8")
        options = f"-h 127.0.0.1 -p {self.port} -k {folder} -c fsync=off"
        self._run("pg_ctl", "-D", self._data, "-w", "-s", "-l", str(folder / "log"), "-o", options, "start")

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    def url(self, database: str) -> str:
        """The address of a database."""
        return f"postgres://filrouge@127.0.0.1:{self.port}/{database}"

    def query(self, sql: str, database: str = "postgres") -> str:
        """What a statement returns: a line for each row, columns separated by `|`."""
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "filrouge", "-d", database]
        return self._run("psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", *where, "-c", sql).strip()

    def stop(self) -> None:
        """Ends the server."""
        self._run("pg_ctl", "-D", self._data, "-s", "-m", "immediate", "stop")

    def _run(self, program: str, *arguments: str) -> str:
        user = server_user()
        done = subprocess.run(
            [found(program), *arguments], cwd="/", user=user, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, f"{program}: {done.stderr}{done.stdout}"
        return done.stdout


@contextmanager
def server() -> Generator[str, None, None]:
    """The address of the first database of a server that ends with the block."""
    with tempfile.TemporaryDirectory(prefix="filrouge-pg-") as folder:
        started = Postgres(Path(folder) / "postgres")
        try:
            yield started.url("postgres").replace("postgres://", "postgresql://")
        finally:
            started.stop()


def server_user() -> int | None:
    """The user that runs the server, if it cannot be this one."""
    if os.getuid() != 0:
        return None
    users = {user.pw_name: user.pw_uid for user in pwd.getpwall()}
    return users.get("postgres", users.get("nobody"))


def found(program: str) -> str:
    """A program of PostgreSQL: in the path, or beside one that is a link in the path."""
    path = shutil.which(program)
    beside = Path(shutil.which("initdb") or shutil.which("psql") or "/").resolve().parent / program
    newest = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))
    choices = [path, *([str(beside)] if beside.exists() else []), *(str(one) for one in reversed(newest))]
    return next((choice for choice in choices if choice), program)


def is_installed() -> bool:
    """Whether a server can be started here."""
    return Path(found("initdb")).exists()
