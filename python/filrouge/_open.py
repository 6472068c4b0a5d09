"""Opens ledgers: in this process, or on a server."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from filrouge import _native
from filrouge._async.ledger import IDENTITY, AsyncLedger
from filrouge._async.transport import AsyncTransport
from filrouge._outage import Outage
from filrouge._shared.native import translated
from filrouge._shared.wire import Header
from filrouge._sync.ledger import Ledger
from filrouge._sync.transport import Transport
from filrouge.errors import Invalid

URLS = ("sqlite:", "postgres:", "postgresql:", "memory:")


def open(
    path_or_url: str | os.PathLike[str] | None = None,
    *,
    identity: str | None = None,
    tenant: str | None = None,
    **settings: str | int | float | bool,
) -> Ledger:
    """Opens a ledger in this process: a path of an SQLite file, or `postgres://…` or `memory:`.

    Without a path, it is the file of `filrouge serve`: `filrouge/filrouge.db` in the user's folder of data. `identity`
    is the end user, `tenant` the isolated customer. Other settings have the names of the variables `FILROUGE_…`.

    >>> with filrouge.open("app.db") as ledger:
    ...     print(ledger.info()["name"])
    filrouge
    """
    connection = _embedded(path_or_url, tenant, settings)
    return Ledger(Transport(connection, _headers(identity), pid=os.getpid()))


def open_async(
    path_or_url: str | os.PathLike[str] | None = None,
    *,
    identity: str | None = None,
    tenant: str | None = None,
    **settings: str | int | float | bool,
) -> AsyncLedger:
    """Like `open`, for asyncio.

    >>> async with filrouge.open_async("app.db") as ledger:
    ...     print((await ledger.info())["name"])
    filrouge
    """
    connection = _embedded(path_or_url, tenant, settings)
    return AsyncLedger(AsyncTransport(connection, _headers(identity), pid=os.getpid()))


def connect(
    url: str,
    *,
    key: str | None = None,
    token: str | None = None,
    identity: str | None = None,
    timeout: float = 30.0,
    on_outage: str = "fail",
    buffer: str | os.PathLike[str] | None = None,
) -> Ledger:
    """Connects to a server. `key` is an API key, `token` a token of an end user, `identity` the end user.

    `on_outage="buffer"`: writes that the server cannot take are kept in the file `buffer`, and sent again later, in
    order, once. By default it is `filrouge/outage.db` in the user's folder of state.
    """
    connection = _native.Connection.remote(url, timeout)
    headers = _headers(identity, key or token)
    outage = _outage(connection, url, headers, on_outage, buffer)
    return Ledger(Transport(connection, headers, outage, pid=os.getpid()))


def connect_async(
    url: str,
    *,
    key: str | None = None,
    token: str | None = None,
    identity: str | None = None,
    timeout: float = 30.0,
    on_outage: str = "fail",
    buffer: str | os.PathLike[str] | None = None,
) -> AsyncLedger:
    """Like `connect`, for asyncio."""
    connection = _native.Connection.remote(url, timeout)
    headers = _headers(identity, key or token)
    outage = _outage(connection, url, headers, on_outage, buffer)
    return AsyncLedger(AsyncTransport(connection, headers, outage, pid=os.getpid()))


def _embedded(
    path_or_url: str | os.PathLike[str] | None, tenant: str | None, settings: Mapping[str, object]
) -> _native.Connection:
    with translated():
        return _native.Connection.embedded(_store(path_or_url), _settings(tenant, settings))


def _store(path_or_url: str | os.PathLike[str] | None) -> str:
    if path_or_url is None:
        return f"sqlite:{_folder('XDG_DATA_HOME', '.local/share') / 'filrouge.db'}"
    text = os.fspath(path_or_url)
    if text.startswith(("http://", "https://")):
        raise Invalid(f"{text} is a server", hint="use filrouge.connect")
    return text if text.startswith(URLS) else f"sqlite:{text}"


def _folder(variable: str, usual: str) -> Path:
    return Path(os.environ.get(variable) or Path.home() / usual) / "filrouge"


def _settings(tenant: str | None, settings: Mapping[str, object]) -> dict[str, str]:
    given: dict[str, object] = {**settings, **({} if tenant is None else {"tenant": tenant})}
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()}


def _headers(identity: str | None, secret: str | None = None) -> list[Header]:
    headers = [] if secret is None else [("authorization", f"Bearer {secret}")]
    return headers if identity is None else [*headers, (IDENTITY, identity)]


def _outage(
    connection: _native.Connection,
    url: str,
    headers: list[Header],
    on_outage: str,
    buffer: str | os.PathLike[str] | None,
) -> Outage | None:
    if on_outage == "fail":
        return None
    if on_outage != "buffer":
        raise Invalid(f"on_outage is {on_outage!r}", hint='known: "fail", "buffer"')
    file = Path(buffer) if buffer is not None else _folder("XDG_STATE_HOME", ".local/state") / "outage.db"
    return Outage(connection, url.rstrip("/"), headers, file)
