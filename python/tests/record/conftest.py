"""A provider, and a ledger to record into."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from record.apis import APIS, Api
from record.provider import Provider
from servers import Server

import filrouge

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it is imported without a request to the internet


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A provider."""
    with Provider() as provider:
        yield provider


@pytest.fixture(params=APIS, ids=str)
def api(request: pytest.FixtureRequest) -> Api:
    """An API with one of its clients."""
    found: Api = request.param
    return found


@pytest.fixture
def remote(common_server: Server) -> Iterator[filrouge.Ledger]:
    """A ledger on a server."""
    with filrouge.connect(common_server.url) as ledger:
        yield ledger
