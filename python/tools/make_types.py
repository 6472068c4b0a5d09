"""Makes filrouge/types.py from docs/openapi.json: each object of the wire as a TypedDict.

Run it in `python/`: `python tools/make_types.py`. A test checks that the file is current.
"""

from __future__ import annotations

import json
import keyword
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "python" / "filrouge" / "types.py"
PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
ROOTS = [
    "AppendedItems",
    "ChangePage",
    "Checkpoint",
    "CheckpointPage",
    "Context",
    "DraftEvent",
    "ErasureReceipt",
    "EventPage",
    "Info",
    "Item",
    "ItemPage",
    "Lease",
    "Lineage",
    "NewItem",
    "Resumed",
    "SearchPage",
    "Session",
    "SessionPage",
    "SessionStatistics",
    "Turn",
    "TurnPage",
    "VerifyReport",
]
HEAD = '''"""The records of the wire, with the names of its members.

Made by `tools/make_types.py` from `docs/openapi.json`: do not edit.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if sys.version_info >= (3, 11):
    from typing import NotRequired
elif TYPE_CHECKING:
    from typing_extensions import NotRequired
'''


def annotation(schema: dict[str, Any]) -> str:
    """The Python type of a JSON schema."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return f"Literal[{', '.join(json.dumps(value) for value in schema['enum'])}]"
    if "oneOf" in schema:
        return " | ".join(annotation(one) for one in schema["oneOf"])
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    return " | ".join(named(kind, schema) for kind in kinds) or "Any"


def named(kind: str, schema: dict[str, Any]) -> str:
    """The Python type of one `type` of a JSON schema."""
    if kind == "array":
        return f"list[{annotation(schema['items'])}]"
    return "dict[str, Any]" if kind == "object" else PLAIN[kind]


def merged(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """A schema with the members of all its `allOf`."""
    if "$ref" in schema:
        return merged(schemas[annotation(schema)], schemas)
    whole: dict[str, Any] = {**schema, "properties": dict(schema.get("properties", {}))}
    whole["required"] = list(schema.get("required", []))
    for part in schema.get("allOf", []):
        other = merged(part, schemas)
        whole["properties"].update(other["properties"])
        whole["required"] += other["required"]
    return whole


def sentence(schema: dict[str, Any], name: str) -> str:
    """The first line of a schema's description."""
    text = re.split(r"(?<=\.)\s", " ".join(str(schema.get("description") or name).split()))[0]
    return text.replace("\\", "\\\\").replace('"""', "'''")


def record(name: str, schema: dict[str, Any], schemas: dict[str, Any]) -> list[str]:
    """The lines that define one record or one name of a type."""
    whole = merged(schema, schemas)
    if not whole["properties"]:
        return ["", f"{name} = {annotation(schema)}"]
    if name == "Part":  # its other members are the caller's
        return ["", "Part = dict[str, Any]"]
    lines = ["", "", f"class {name}(TypedDict):", f'    """{sentence(schema, name)}"""', ""]
    for member, value in whole["properties"].items():
        if keyword.iskeyword(member) or not member.isidentifier():
            raise SystemExit(f"{name}.{member} is no name in Python")
        kind = annotation(value)
        lines.append(f"    {member}: " + (kind if member in whole["required"] else f"NotRequired[{kind}]"))
    return lines


def reachable(schemas: dict[str, Any]) -> dict[str, Any]:
    """The schemas that the package uses, and those that they use."""
    found: set[str] = set()
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += re.findall(r"#/components/schemas/(\w+)", json.dumps(schemas[name]))
    return {name: schema for name, schema in schemas.items() if name in found}


def made() -> str:
    """The text of filrouge/types.py."""
    schemas = reachable(json.loads((ROOT / "docs" / "openapi.json").read_text())["components"]["schemas"])
    names = [name for name in schemas if not merged(schemas[name], schemas)["properties"] or name == "Part"]
    lines = [HEAD]
    for name in names + [name for name in schemas if name not in names]:
        lines += record(name, schemas[name], schemas)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit("run tools/make_types.py" if TARGET.read_text() != made() else 0)
    TARGET.write_text(made())
