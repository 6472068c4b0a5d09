"""The session tests of the OpenAI Agents SDK itself, over `FilrougeSession`.

They are not in the installed package: pip fetches its source distribution."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
from openai_agents.not_applicable import NOT_APPLICABLE

VERSION = "0.24.0"
FILES = (
    "tests/memory/test_session.py",
    "tests/memory/test_session_limit.py",
    "tests/memory/test_openai_responses_compaction_session.py",
    "tests/extensions/memory/test_encrypt_session.py",
)
TESTS = 231
HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, unpacked."""
    agents = pytest.importorskip("agents")
    assert agents.__version__ == VERSION
    folder = tmp_path_factory.mktemp("openai-agents")
    fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    subprocess.run([*fetch, f"openai-agents=={VERSION}", "--dest", folder], check=True, timeout=300)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / f"openai_agents-{VERSION}"


def outcomes(source: Path, report: Path) -> dict[str, str]:
    """Runs the tests. Returns those that did not pass, with the first line of what they said, and all in `report`."""
    path = os.pathsep.join([str(HERE / "openai_agents"), os.environ.get("PYTHONPATH", "")])
    options = ["-p", "replaced", "-p", "no:cacheprovider", "-q", f"--junitxml={report}"]
    command = [sys.executable, "-m", "pytest", *options, *FILES]
    subprocess.run(command, cwd=source, env={**os.environ, "PYTHONPATH": path}, check=False, timeout=900)
    cases = list(ElementTree.parse(report).iter("testcase"))
    assert len(cases) == TESTS
    return {
        f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}": case[0].get("message", "")
        for case in cases
        if len(case) and case[0].tag in ("failure", "error", "skipped")
    }


def test_the_session_tests_of_the_sdk_pass(source: Path, tmp_path: Path) -> None:
    failed = outcomes(source, tmp_path / "report.xml")
    assert {name: failed[name] for name in failed.keys() - NOT_APPLICABLE.keys()} == {}
    assert sorted(NOT_APPLICABLE.keys() - failed.keys()) == []
    assert TESTS - len(failed) >= 212
    assert all(NOT_APPLICABLE.values())
