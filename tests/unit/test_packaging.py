"""What is shipped: names, files, dependencies, and the shape that the code has promised to keep."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("schemas", "streams", "projectors")
TOP_LEVEL = {*PACKAGES, "tests", "ops", "pyproject.toml", "compose.yaml", "README.md", "LICENSE"}
FILE_LINES_MAX = 420
LONG_FILES = {"streams/kafka_log.py"}  # the one file that may import the Kafka client holds all that does
FUNCTION_LINES_MAX = 70

MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def repository_files() -> list[str]:
    """What git has or would take; a file that was deleted and not yet committed is not among them."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [name for name in listed if (ROOT / name).exists()]


def normal(requirement: str) -> str:
    """The normalised distribution name in a requirement or a pin."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found, requirement
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def imported_distributions() -> set[str]:
    """The distributions, other than this one, that the product imports anywhere, inside functions too."""
    names = set()
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.partition(".")[0])
    owners = packages_distributions()
    outside = names - sys.stdlib_module_names - set(PACKAGES)
    return {normal(owners[name][0] if name in owners else name) for name in outside}


def long_functions(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {lines} lines"


@pytest.mark.parametrize("name", PACKAGES)
def test_no_other_distribution_ships_our_names(name: str) -> None:
    """Another `schemas` would be overwritten by ours, or overwrite it, without a word.

    An editable install lists no files, so no owner is right as well, as long as the name leads to this checkout.
    """
    assert packages_distributions().get(name, ["slotlog"]) == ["slotlog"]
    assert Path(importlib.import_module(name).__file__ or "").parent == ROOT / name


def test_the_top_level_is_as_designed() -> None:
    top = {name.partition("/")[0] for name in repository_files()}
    assert {name for name in top if not name.startswith(".")} == TOP_LEVEL


def test_tests_and_ops_are_not_packages() -> None:
    assert not [name for name in repository_files() if re.match(r"(tests|ops)/(.*/)?__init__\.py$", name)]


def test_the_wheel_has_every_file_of_the_packages_and_nothing_else() -> None:
    shipped = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    assert shipped == {name for name in repository_files() if name.startswith(tuple(f"{p}/" for p in PACKAGES))}
    assert {f"{package}/py.typed" for package in PACKAGES} <= shipped


def test_every_schema_loads_as_a_resource() -> None:
    on_disk = {path.name: path.read_bytes() for path in (ROOT / "schemas" / "avro").glob("*.avsc")}
    assert on_disk
    resources = (files("schemas") / "avro").iterdir()
    assert {found.name: found.read_bytes() for found in resources if found.name.endswith(".avsc")} == on_disk


def test_every_declared_dependency_is_imported_and_every_import_declared() -> None:
    declared = {normal(requirement) for requirement in PROJECT["dependencies"]}
    extras = {
        normal(requirement)
        for extra, requirements in PROJECT["optional-dependencies"].items()
        if extra != "dev"
        for requirement in requirements
    }
    imported = imported_distributions() | {"cramjam"}  # aiokafka imports it when a batch is compressed
    assert declared - imported == set()
    assert imported - declared - extras == set()


def test_every_dependency_is_pinned_in_the_constraints() -> None:
    lines = (ROOT / "ops" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert [pin for pin in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", pin)] == []
    named = (*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"])
    declared = {normal(name) for name in named} - {"slotlog"}  # an extra names its own distribution
    assert declared - {normal(pin) for pin in pins} == set()


def test_modules_can_be_held_in_mind() -> None:
    lines = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {name for name, count in lines.items() if count > FILE_LINES_MAX} <= LONG_FILES


def test_functions_can_be_read_in_one_sitting() -> None:
    assert [found for path in MODULES for found in long_functions(path)] == []


def test_compose_runs_the_tested_broker_on_loopback_alone() -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
    version = re.search(r"<kafka\.version>(.+?)<", (ROOT / "ops" / "kafka" / "pom.xml").read_text(encoding="utf-8"))
    assert version
    assert services["kafka"]["image"] == f"apache/kafka:{version[1]}"
    for service in services.values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
