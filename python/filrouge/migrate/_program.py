"""The command line."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

import filrouge
from filrouge.errors import Error
from filrouge.migrate._source import Copied, Source, Target, rows


class Kind(NamedTuple):
    """A kind of store: where its importer is, and which package it needs."""

    module: str
    name: str
    package: str


KINDS = {
    "langchain-postgres": Kind("_langchain", "Messages", "langchain-core sqlalchemy 'psycopg[binary]'"),
    "langchain-sql": Kind("_langchain", "Messages", "langchain-core sqlalchemy"),
    "langgraph-postgres": Kind("_langgraph_postgres", "PostgresCheckpoints", "langgraph-checkpoint-postgres"),
    "langgraph-redis": Kind("_langgraph_redis", "RedisCheckpoints", "langgraph-checkpoint-redis"),
    "langgraph-sqlite": Kind("_langgraph_sqlite", "SqliteCheckpoints", "langgraph-checkpoint-sqlite"),
    "openai-agents-sqlite": Kind("_openai_agents", "SqliteSessions", "openai-agents"),
}
SECOND = 1.0


@dataclass
class Counts:
    """What the import did."""

    conversations: int = 0
    unchanged: int = 0
    incomplete: int = 0
    entries: int = 0
    added: int = 0
    skipped: list[str] = field(default_factory=list[str])

    def count(self, name: str, copied: Copied) -> None:
        """Counts one conversation."""
        self.conversations += 1
        self.entries += copied.total
        self.added += copied.added
        self.incomplete += bool(copied.skipped)
        self.unchanged += copied.added == 0 and not copied.skipped
        self.skipped += [f"{name}: {reason}" for reason in copied.skipped or ()]


class Progress:
    """Says on stderr how far the import is: a line that changes on a terminal, else a line each second at most."""

    def __init__(self, total: int) -> None:
        self._total, self._conversations, self._entries = total, 0, 0
        self._shown = time.monotonic()
        self._is_terminal = sys.stderr.isatty()

    def entry(self) -> None:
        """One entry more."""
        self._entries += 1
        self._show()

    def conversation(self) -> None:
        """One conversation more."""
        self._conversations += 1
        self._show()

    def _show(self) -> None:
        if time.monotonic() - self._shown >= SECOND:
            self._shown = time.monotonic()
            text = f"{self._conversations} of {self._total} conversations, {self._entries} entries"
            print(text, end="\r" if self._is_terminal else "\n", file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Runs the program. Returns its exit code: 0 complete, 1 not, 2 for wrong arguments."""
    program = parser()
    options = program.parse_args(arguments)
    if not (options.store or options.url or options.dry_run):
        program.error("give the ledger: --store or --url; or --dry-run")
    counts = Counts()
    try:
        with_ledger(options, counts)
    except KeyboardInterrupt:
        print("stopped; repeat the command to continue", file=sys.stderr)
        return 130
    except Exception as error:
        print(f"error: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    finally:
        show(options, counts)
    return 1 if counts.incomplete else 0


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    program = argparse.ArgumentParser(
        prog="python -m filrouge.migrate",
        description="Import the store of a Python framework into a ledger",
        epilog="The command can be repeated: it adds what the ledger does not have.",
    )
    program.add_argument("kind", choices=sorted(KINDS), help="the kind of store")
    program.add_argument("source", help="the store: a path or a URL, as the framework has it")
    target = program.add_mutually_exclusive_group()
    target.add_argument("--store", help="the ledger: a path, postgres://… or memory:")
    target.add_argument("--url", help="the server of the ledger")
    program.add_argument("--dry-run", action="store_true", help="count what would be added; write nothing")
    program.add_argument("--key-file", type=Path, help="the file with the server's API key; or set FILROUGE_KEY")
    program.add_argument("--identity", help="the owner of the imported sessions; without it they are anonymous")
    program.add_argument("--prefix", default="", help="begins the ids of the imported sessions")
    program.add_argument("--only", action="append", default=[], metavar="ID", help="import this conversation")
    program.add_argument("--table", help="the table with the messages, if it has another name")
    program.add_argument("--json", action="store_true", help="print the counts as a JSON document")
    return program


def with_ledger(options: argparse.Namespace, counts: Counts) -> None:
    """Opens the store and the ledger, and imports."""
    source = open_source(options.kind, options.source, options.table)
    try:
        if options.store:
            with filrouge.open(options.store, identity=options.identity) as ledger:
                run(source, ledger, options, counts)
        elif options.url:
            key = options.key_file.read_text().strip() if options.key_file else os.environ.get("FILROUGE_KEY")
            with filrouge.connect(options.url, key=key, identity=options.identity) as ledger:
                run(source, ledger, options, counts)
        else:
            run(source, None, options, counts)
    finally:
        source.close()


def open_source(kind: str, source: str, table: str | None) -> Source:
    """Opens a store; its framework is imported only now."""
    module, name, package = KINDS[kind]
    try:
        found: Callable[[str, str | None], Source] = getattr(
            importlib.import_module(f"filrouge.migrate.{module}"), name
        )
        return found(source, table)
    except ImportError as error:
        raise LookupError(f"{error}; install what reads this store: pip install {package}") from error


def run(source: Source, ledger: filrouge.Ledger | None, options: argparse.Namespace, counts: Counts) -> None:
    """Imports the conversations. One that cannot be imported does not stop the others."""
    names = list(rows(source, options.only))
    progress = Progress(len(names))
    for name in names:
        try:
            copied = source.copy(name, Target(options.prefix + name, ledger, options.dry_run), progress.entry)
        except Error as error:
            if error.retryable:
                raise
            copied = Copied()
            copied.skip(str(error))
        counts.count(name, copied)
        progress.conversation()


def show(options: argparse.Namespace, counts: Counts) -> None:
    """Prints the counts on stdout, and what was skipped on stderr."""
    for reason in counts.skipped:
        print(f"skipped: {reason}", file=sys.stderr)
    if options.json:
        print(json.dumps(asdict(counts), ensure_ascii=False))
        return
    added = "would be added" if options.dry_run else "added"
    print(
        f"{counts.conversations} conversations ({counts.unchanged} unchanged, {counts.incomplete} incomplete), "
        f"{counts.entries} entries, {counts.added} {added}"
    )
