"""The examples of docs/python-record.md, and of the docstrings, run and show what they say."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import httpx2
import pytest
from record.provider import Provider, Reply
from servers import Server
from test_examples import SHOWN, Console

import filrouge
from filrouge._record import clients, entries, recorder, wires

PAGE = Path(__file__).parents[3] / "docs" / "python-record.md"
STREAM = b"".join(
    b'data: {"id":"c1","object":"chat.completion.chunk","model":"m-1","choices":[{"index":0,%s}]}\n\n' % choice
    for choice in (
        b'"delta":{"role":"assistant","content":"To the "}',
        b'"delta":{"content":"left."}',
        b'"delta":{},"finish_reason":"stop"',
    )
)
WHOLE = (
    b'{"id":"c2","object":"chat.completion","model":"m-1","choices":[{"index":0,"finish_reason":"stop",'
    b'"message":{"role":"assistant","content":"A while."}}]}'
)


def test_the_examples_of_the_page(provider: Provider, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("litellm")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{provider.url}/v1")
    provider.replies = [Reply(STREAM + b"data: [DONE]\n\n"), Reply(WHOLE)]
    console = Console({"__name__": "__main__"})
    for source, want in SHOWN.findall(PAGE.read_text()):
        console.check(source.replace("http://localhost:7717", server.url), "exec", want)
    console.loop.close()
    assert provider.replies == []


@pytest.mark.parametrize("module", [clients, entries, recorder, wires], ids=lambda module: str(module.__name__))
def test_the_examples_of_the_docstrings(module: Any, remote: filrouge.Ledger) -> None:
    names = {"filrouge": filrouge, "httpx2": httpx2, "session": remote.session()}
    assert doctest.testmod(module, extraglobs=names).failed == 0
