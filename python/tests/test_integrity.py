"""The suite `agent-memory-integrity`: every change of the store is refused when it is read."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

pytest.importorskip("agents")
pytest.importorskip("agmi")

from agmi.agent.compose import compose
from agmi.check import run
from integrity import LedgerAdapter, PostgresLedger, SqliteLedger
from postgres import Postgres, is_installed


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Postgres, None, None]:
    """A PostgreSQL server."""
    if not is_installed():
        pytest.skip("PostgreSQL is not installed")
    server = Postgres(Path(tmp_path_factory.mktemp("postgres")) / "server")
    yield server
    server.stop()


@pytest.fixture(params=[SqliteLedger, PostgresLedger], ids=["sqlite", "postgres"])
def adapter(request: pytest.FixtureRequest) -> type[LedgerAdapter]:
    """The adapter of a kind of store."""
    kind: type[LedgerAdapter] = request.param
    if kind is PostgresLedger:
        PostgresLedger.server = request.getfixturevalue("server")
    return kind


def test_every_edit_is_rejected(adapter: type[LedgerAdapter]) -> None:
    rows = run(adapter())
    assert {row["edit"]: (row["verdict"], row["detail"]) for row in rows if row["verdict"] != "REJECTED"} == {}
    assert len(rows) == 9


def test_no_composition_of_edits_is_accepted(adapter: type[LedgerAdapter]) -> None:
    _, findings = compose(adapter, target=adapter.name)
    assert [finding.as_dict() for finding in findings] == []
