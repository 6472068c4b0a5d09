"""The ledgers of the tests: in the process and over HTTP, for threads and for asyncio."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from servers import Server, home

import filrouge

# Processes that tests start in other folders find the package too.
os.environ["PYTHONPATH"] = str(Path(filrouge.__file__).parents[1])


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs tests that are coroutines."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(autouse=True)
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has an empty home folder, in which it works."""
    for name, value in home(tmp_path).items():
        monkeypatch.setenv(name, value)
    for name in [name for name in os.environ if name.startswith("FILROUGE_") and name != "FILROUGE_PROGRAM"]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def common_server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server, None, None]:
    """A server that many tests use."""
    server = Server(tmp_path_factory.mktemp("server")).start()
    yield server
    server.stop()


@pytest.fixture
def server(tmp_path: Path) -> Generator[Server, None, None]:
    """A server of this test alone, which it may kill."""
    server = Server(tmp_path).start()
    yield server
    server.stop()


@pytest.fixture(params=["embedded", "http"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the ledger is: a file of this test, or the URL of the common server."""
    if request.param == "embedded":
        return str(tmp_path / "app.db")
    url: str = request.getfixturevalue("common_server").url
    return url


@pytest.fixture
def ledger(address: str) -> Generator[filrouge.Ledger, None, None]:
    """A ledger."""
    open = filrouge.connect if address.startswith("http") else filrouge.open
    with open(address) as ledger:
        yield ledger


@pytest.fixture
def async_ledger(address: str) -> Generator[filrouge.AsyncLedger, None, None]:
    """A ledger for asyncio."""
    open = filrouge.connect_async if address.startswith("http") else filrouge.open_async
    ledger = open(address)
    yield ledger
    asyncio.run(ledger.close())
