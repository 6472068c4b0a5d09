"""The examples of all docstrings, of the pages docs/python*.md and of the README run, and show what they say."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import doctest
import importlib
import inspect
import io
import pkgutil
import re
import traceback
import types
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from servers import Server

import filrouge
from filrouge._both import for_asyncio

PYTHON = Path(__file__).resolve().parents[1]
PAGES = [*sorted((PYTHON.parent / "docs").glob("python*.md")), PYTHON / "README.md"]
PAGES.remove(PYTHON.parent / "docs" / "python-record.md")  # `tests/record` runs it beside the servers of providers.
ADAPTERS = ("adk", "langchain", "openai_agents", "pydantic_ai")
"""Modules whose framework may be missing."""
SHOWN = re.compile(r"```python\n(.*?)```(?:\n+```text\n(.*?)```)?", re.DOTALL)
CHECKER = doctest.OutputChecker()


def docstrings() -> dict[str, str]:
    """The docstrings with examples, by the names of what they describe."""
    modules = [module.name for module in pkgutil.walk_packages(filrouge.__path__, "filrouge.")]
    core = re.compile(r"filrouge\.(_async|_sync|_shared|_outage|_open|errors)\b")
    found: dict[str, str] = {}
    adapters = [name for name in ADAPTERS if is_usable(name)]
    for name in ["filrouge", *filter(core.match, modules), *(f"filrouge.{name}" for name in adapters)]:
        module = importlib.import_module(name)
        for test in doctest.DocTestFinder(exclude_empty=True).find(module):
            if test.examples:
                found[test.name] = test.docstring or ""
    return found


def is_usable(adapter: str) -> bool:
    """Whether the framework of an adapter is installed."""
    try:
        importlib.import_module(f"filrouge.{adapter}")
    except ModuleNotFoundError:
        return False
    return True


def chunk(text: str | None, **choice: Any) -> dict[str, Any]:
    """A chunk of OpenAI's Chat Completions."""
    delta = {} if text is None else {"role": "assistant", "content": text}
    return {"id": "c1", "model": "m-1", "choices": [{"index": 0, "delta": delta, **choice}]}


def model_answers(*texts: str) -> Iterator[dict[str, Any]]:
    """A provider's stream."""
    yield from [chunk(text) for text in texts[:-1]]
    yield chunk(texts[-1], finish_reason="stop")


async def model_answers_async(*texts: str) -> AsyncIterator[dict[str, Any]]:
    """The same for asyncio."""
    for event in model_answers(*texts):
        yield event


class Console:
    """Runs code as `python -m asyncio` does."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names, self.loop = names, asyncio.new_event_loop()

    def run(self, source: str, mode: str) -> str:
        """What the code prints."""
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            code = compile(source, "<example>", mode, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            if code.co_flags & inspect.CO_COROUTINE:
                self.loop.run_until_complete(types.FunctionType(code, self.names)())
            else:
                exec(code, self.names)
        return output.getvalue()

    def check(self, source: str, mode: str, want: str, error: str | None = None) -> None:
        """Runs code, and compares what it prints or raises."""
        try:
            got = self.run(source, mode)
        except Exception as raised:
            if error is None:
                raise
            got, want = traceback.format_exception_only(raised)[-1], error
        assert CHECKER.check_output(want, got, doctest.ELLIPSIS), f"{source}\nwanted: {want}\ngot: {got}"


@pytest.fixture
def console(request: pytest.FixtureRequest) -> Generator[Console, None, None]:
    """The names that examples use: a ledger and a session with one turn, for threads or for asyncio."""
    names: dict[str, Any] = {"filrouge": filrouge, "model_answers": model_answers}
    console = Console(names)
    with filrouge.open("examples.db") as ledger:
        session = ledger.session("demo")
        session.record_turn("Is it far?", "A while.")
        if "_async" in request.node.name:
            with_tasks = for_asyncio(ledger)
            names |= {"ledger": with_tasks, "session": with_tasks.session("demo"), "model_answers": model_answers_async}
        else:
            names |= {"ledger": ledger, "session": session}
        yield console
    console.loop.close()


@pytest.mark.parametrize("name", docstrings())
def test_the_examples_of_a_docstring(name: str, console: Console) -> None:
    before = vars(importlib.import_module(name.partition(".")[0] if name == "filrouge" else module_of(name)))
    console.names.update({key: value for key, value in before.items() if key not in console.names})
    for example in doctest.DocTestParser().get_examples(docstrings()[name]):
        shows = isinstance(ast.parse(example.source).body[0], ast.Expr)
        console.check(example.source, "single" if shows else "exec", example.want, example.exc_msg)


def module_of(name: str) -> str:
    """The module of something in it."""
    while True:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            name = name.rpartition(".")[0]
        else:
            return name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page(page: Path, server: Server) -> None:
    adapter = page.stem.removeprefix("python-").replace("-", "_")
    if adapter in ADAPTERS and not is_usable(adapter):
        pytest.skip(f"the framework of {page.name} is not installed")
    console = Console({"__name__": "__main__", "model_answers": model_answers})
    blocks = SHOWN.findall(page.read_text())
    assert blocks
    for source, want in blocks:
        console.check(source.replace("http://localhost:7717", server.url), "exec", want)
    console.loop.close()
