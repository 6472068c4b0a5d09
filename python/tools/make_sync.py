"""Makes filrouge/_sync from filrouge/_async, and tests/_sync from tests/_async, with the program unasync.

Run it in `python/`: `python tools/make_sync.py`. `runtime.py` is written by hand in both folders. A test checks that
the folder is current. unasync renames names; the examples in docstrings are changed here.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

import unasync  # type: ignore[import-untyped]

PYTHON = Path(__file__).resolve().parents[1]
FOLDERS = (PYTHON / "filrouge", PYTHON / "tests")
CLASSES = [
    name
    for path in sorted((PYTHON / "filrouge" / "_async").glob("*.py"))
    for name in re.findall(r"^class Async(\w+)", path.read_text(), re.MULTILINE)
]
NAMES = {f"Async{name}": name for name in CLASSES} | {
    "_async": "_sync",
    "request_async": "request",
    "send_async": "send",
    "finish_async": "finish",
    "read_async": "read",
    "async_ledger": "ledger",
    "aiter_bytes": "iter_bytes",
    "open_async": "open",
    "connect_async": "connect",
}
IN_TEXT = {
    r"\bawait ": "",
    r"\basync (with|for|def) ": r"\1 ",
    r"\bAsync(?=[A-Z])": "",
    r"\b(open|connect)_async\b": r"\1",
    r"__a(next|iter|enter|exit)__": r"__\1__",
    r'The classes for asyncio, written by hand[^"]*': "The classes for threads. "
    "Made from `_async` by `tools/make_sync.py`: do not edit.",
}


def made(folder: Path, target: Path) -> None:
    """Writes the sync files of a folder into another."""
    sources = [path for path in sorted(folder.glob("*.py")) if path.name != "runtime.py"]
    rule = unasync.Rule(f"{folder}/", f"{target}/", additional_replacements=NAMES)
    unasync.unasync_files([str(path) for path in sources], [rule])
    for path in sources:
        copy = target / path.name
        copy.write_text(re.sub(r'""".*?"""', in_docstring, copy.read_text(), flags=re.DOTALL))


def in_docstring(found: re.Match[str]) -> str:
    """A docstring that tells of the sync classes."""
    text = found[0]
    for pattern, other in IN_TEXT.items():
        text = re.sub(pattern, other, text)
    return text


def stale() -> list[str]:
    """The files that differ from what would be made."""
    found: list[str] = []
    for folder in FOLDERS:
        with tempfile.TemporaryDirectory() as fresh:
            made(folder / "_async", Path(fresh))
            new = texts(Path(fresh))
        old = texts(folder / "_sync")
        found += [
            str(folder / "_sync" / name) for name in sorted(new.keys() | old.keys()) if new.get(name) != old.get(name)
        ]
    return found


def texts(folder: Path) -> dict[str, str]:
    """The files of a folder that are made here."""
    return {path.name: path.read_text() for path in folder.glob("*.py") if path.name != "runtime.py"}


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(f"run tools/make_sync.py: {stale()}" if stale() else 0)
    for folder in FOLDERS:
        made(folder / "_async", folder / "_sync")
