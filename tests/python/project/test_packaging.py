"""What pyproject.toml says of the package, and the workflows that build its wheels."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
WORKFLOWS = ROOT / ".github" / "workflows"
VERSION_FILE = "python/topicdb/__init__.py"
NEEDS_JAVA = {"spark"}

pytestmark = pytest.mark.skipif(
    not WORKFLOWS.exists(), reason="the tests run without the repository"
)


def text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def settings() -> dict[str, Any]:
    tomllib = pytest.importorskip("tomllib")
    loaded: dict[str, Any] = tomllib.loads(text_of("pyproject.toml"))
    return loaded


def test_the_version_stands_in_one_place(settings: dict[str, Any]) -> None:
    assert settings["project"]["dynamic"] == ["version"]
    assert settings["tool"]["scikit-build"]["metadata"]["version"]["input"] == VERSION_FILE
    version = re.search(r'^__version__ = "(.+)"$', text_of(VERSION_FILE), re.MULTILINE)
    assert version is not None
    for path in ("CMakeLists.txt", "vcpkg.json"):
        assert version[1] not in text_of(path), path


def test_all_has_every_extra_that_needs_no_java(settings: dict[str, Any]) -> None:
    extras = settings["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    found = re.fullmatch(r"topicdb\[(.+)\]", everything)
    assert found is not None
    assert set(found[1].split(",")) == set(extras) - {"all"} - NEEDS_JAVA


def test_the_install_page_lists_every_extra(settings: dict[str, Any]) -> None:
    listed = set(re.findall(r"^\| `(\w+)` \|", text_of("docs/start/install.md"), re.MULTILINE))
    assert listed == set(settings["project"]["optional-dependencies"])


def test_the_addresses_are_of_one_repository(settings: dict[str, Any]) -> None:
    addresses = settings["project"]["urls"]
    assert {"Homepage", "Documentation", "Changelog", "Issues", "Source"} <= set(addresses)
    source = addresses["Source"]
    for address in addresses.values():
        assert address.startswith(source)
        path = address.removeprefix(source).removeprefix("/blob/main/")
        assert path in ("", "/issues", "/security/policy") or (ROOT / path).is_file()


def test_wheels_are_for_the_versions_of_python_that_are_named(settings: dict[str, Any]) -> None:
    prefix = "Programming Language :: Python :: 3."
    named = [
        int(text.removeprefix(prefix))
        for text in settings["project"]["classifiers"]
        if text.startswith(prefix)
    ]
    built = re.fullmatch(r"cp31\{(.+)\}-\*", settings["tool"]["cibuildwheel"]["build"])
    assert built is not None
    assert named == [10 + int(digit) for digit in built[1].split(",")]
    assert settings["project"]["requires-python"] == f">=3.{named[0]}"


def test_the_workflow_builds_for_the_same_versions_of_python(settings: dict[str, Any]) -> None:
    build = settings["tool"]["cibuildwheel"]["build"]
    workflow = (WORKFLOWS / "wheels.yml").read_text(encoding="utf-8")
    chosen = re.findall(r"CIBW_BUILD: (\S+-)\$", workflow)
    assert chosen == [build.removesuffix("*")]  # the variable takes the place of the setting


def test_the_workflow_installs_the_frontend_that_builds_wheels(settings: dict[str, Any]) -> None:
    assert settings["tool"]["cibuildwheel"]["build-frontend"] == "build[uv]"
    workflow = (WORKFLOWS / "wheels.yml").read_text(encoding="utf-8")
    assert "'cibuildwheel[uv]==" in workflow  # on a Mac nothing else brings uv


def test_the_workflow_builds_wheels_for_every_platform(settings: dict[str, Any]) -> None:
    entry = re.compile(r"kind: (\w+), arch: (\w+), machine")
    built = set(entry.findall((WORKFLOWS / "wheels.yml").read_text()))
    wheels = settings["tool"]["cibuildwheel"]
    kinds = {"linux": ["manylinux", "musllinux"], "macos": ["macosx"]}
    wanted = {
        (kind, arch)
        for system, names in kinds.items()
        for kind in names
        for arch in wheels[system]["archs"]
    }
    assert built == wanted
    for kind, arch in wanted:
        triplet = _triplet(wheels, f"cp312-{kind}_{arch}")
        assert triplet.startswith("x64-" if arch == "x86_64" else "arm64-")
        assert triplet.endswith("-osx-release" if kind == "macosx" else "-linux-release")


def _triplet(wheels: dict[str, Any], identifier: str) -> str:
    """Returns the triplet of vcpkg for a wheel: that of the last setting that is for it."""
    arguments = wheels["macos" if "macosx" in identifier else "linux"]["environment"]["CMAKE_ARGS"]
    for override in wheels["overrides"]:
        if fnmatch(identifier, override["select"]):
            arguments = override.get("environment", {}).get("CMAKE_ARGS", arguments)
    return str(arguments).removeprefix("-DVCPKG_TARGET_TRIPLET=")


def test_workflows_call_what_there_is() -> None:
    assert "run: bash .ci/run" in (WORKFLOWS / "ci.yml").read_text()
    for workflow in WORKFLOWS.glob("*.yml"):
        text = workflow.read_text(encoding="utf-8")
        for path in re.findall(r"(?:\./)?((?:scripts|\.github/workflows)/[\w.]+\.\w+)", text):
            assert (ROOT / path).is_file(), f"{workflow.name} names {path}"
