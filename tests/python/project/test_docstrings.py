"""Checks the docstrings of the public API: one style, complete, with examples that run.

The style is Google's: a summary that is a sentence, then ``Arguments:``, ``Returns:``, ``Raises:``
and ``Example:``. A class lists its fields under ``Attributes:``. Classes of the compiled core are
documented in ``_core.pyi`` and its parts, so this reads their docstrings there.
"""

from __future__ import annotations

import ast
import dataclasses
import doctest
import inspect
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from public_api import PUBLIC_MODULES, is_of_core, members_of, public_things

import topicdb
from topicdb.engine import AppendQueue, Engine, ScanCursor
from topicdb.forward import AsyncSink, PolledSink, Sink

CONTRACTS: dict[str, tuple[type, ...]] = {  # by room, what its classes implement
    "engines": (AppendQueue, Engine, ScanCursor),
    "forward": (AsyncSink, PolledSink, Sink),
}
SECTIONS = ("Arguments", "Attributes", "Returns", "Raises", "Example")
HEADING = re.compile(r"^(\w+):$", re.MULTILINE)
NAMED = re.compile(r"^    \*{0,2}(\w+): ", re.MULTILINE)
BULLET = re.compile(r"^- ``", re.MULTILINE)
MADE_BY = re.compile(r"(?:made by|element of) ``([\w.]+)``", re.IGNORECASE)
FROM_ENGINES = "An engine gives it to ``|It is how engines |users get ``"

MESSAGES = [
    ("metrics/h1/cpu", None, b"42"),
    ("site/north/pump/1", None, b"on"),
    ("site/north/pump/2", None, b"off"),
]


def sections_of(text: str) -> dict[str, str]:
    """Returns the parts of a docstring by their headings; the first part has the key ""."""
    parts = HEADING.split(text)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def faults_of_text(text: str | None) -> Iterator[str]:
    """Finds faults that a docstring of anything can have."""
    if not text:
        yield "has no docstring"
        return
    summary = text.split("\n\n")[0].strip()
    if not summary.endswith("."):
        yield "has a summary that ends without a full stop"
    if BULLET.search(text):
        yield "lists names with '- ``name``' instead of a section"
    found = [name for name in sections_of(text) if name]
    for name in found:
        if name not in SECTIONS:
            yield f"has a section {name!r}"
    if found != sorted(found, key=lambda name: SECTIONS.index(name) if name in SECTIONS else 0):
        yield f"has its sections in another order than {', '.join(SECTIONS)}"


def faults_of_function(text: str | None, parameters: list[str], returns: bool) -> Iterator[str]:
    """Finds faults of the docstring of a function with these parameters."""
    yield from faults_of_text(text)
    if not text:
        return
    sections = sections_of(text)
    named = NAMED.findall(sections.get("Arguments", ""))
    for name in parameters:
        if name not in named:
            yield f"has no argument {name!r} in 'Arguments:'"
    for name in named:
        if name not in parameters:
            yield f"describes an argument {name!r} that it does not have"
    says_so = not parameters and text.startswith(("Returns ", "Gives ", "Waits "))
    if returns and "Returns" not in sections and not says_so:
        yield "has no 'Returns:'"


@cache
def stub() -> dict[str, ast.ClassDef | ast.FunctionDef]:
    """Returns what the stub of the compiled core declares."""
    stubs = sorted(Path(topicdb.__file__).parent.glob("_core*.pyi"))
    return {
        node.name: node
        for path in stubs
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
    }


def is_property(node: ast.FunctionDef) -> bool:
    return any(isinstance(item, ast.Name) and item.id == "property" for item in node.decorator_list)


def parameters_of_stub(node: ast.FunctionDef) -> list[str]:
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return [item.arg for item in given if item.arg not in ("self", "cls")]


def returns_in_stub(node: ast.FunctionDef) -> bool:
    return not (isinstance(node.returns, ast.Constant) and node.returns.value is None)


def faults_in_stub(name: str) -> Iterator[str]:
    """Finds faults of the docstrings that the stub has for a class or function of the core."""
    node = stub()[name]
    text = ast.get_docstring(node)
    if isinstance(node, ast.FunctionDef):
        for fault in faults_of_function(text, parameters_of_stub(node), returns_in_stub(node)):
            yield f"{name} {fault}"
        return
    for fault in faults_of_text(text):
        yield f"{name} {fault}"
    for member in node.body:
        if not isinstance(member, ast.FunctionDef) or member.name.startswith("_"):
            continue
        text = ast.get_docstring(member)
        if is_property(member):
            found = faults_of_text(text)
        else:
            found = faults_of_function(text, parameters_of_stub(member), returns_in_stub(member))
        for fault in found:
            yield f"{name}.{member.name} {fault}"


def parameters_of(function: Any) -> tuple[list[str], bool]:
    """Returns the names of a function's parameters, and whether it returns something."""
    signature = inspect.signature(function)
    names = [name for name in signature.parameters if name not in ("self", "cls")]
    return names, signature.return_annotation not in (None, "None", "NoReturn")


def constructor_of(thing: type) -> Any:
    """Returns the constructor that users call, or None if another function makes the objects."""
    if MADE_BY.search(thing.__doc__ or "") or issubclass(thing, BaseException):
        return None
    if dataclasses.is_dataclass(thing) or issubclass(thing, tuple):
        return None
    if getattr(thing, "_is_protocol", False):
        return None
    made = vars(thing).get("__init__")
    return made if inspect.isfunction(made) else None


def fields_of(thing: type) -> list[str]:
    if dataclasses.is_dataclass(thing):
        return [item.name for item in dataclasses.fields(thing) if not item.name.startswith("_")]
    return list(getattr(thing, "_fields", ()))


def has_example(text: str | None) -> bool:
    return "Example" in sections_of(inspect.cleandoc(text or ""))


def maker_of(text: str, module: str) -> object:
    """Returns the function or class that makes objects of a class, which the docstring names."""
    found = MADE_BY.search(text)
    if found is None:
        return None
    names = found[1].removeprefix("topicdb.").split(".")
    for place in map(import_module, (module, *PUBLIC_MODULES)):
        thing = getattr(place, names[0], None)
        if inspect.isclass(thing) and names[-1] in fields_of(thing):
            return thing
        for name in names[1:]:
            thing = getattr(thing, name, None)
        if thing is not None:
            return thing
    raise AssertionError(f"{text.splitlines()[0]!r} names {found[1]}, which is not there")


def example_faults(text: str, thing: type, module: str) -> Iterator[str]:
    """Finds a class without an example: neither itself nor what makes its objects has one."""
    if issubclass(thing, BaseException) or re.search(FROM_ENGINES, text):
        return
    made = vars(thing).get("__init__")
    if has_example(text) or (inspect.isfunction(made) and has_example(made.__doc__)):
        return
    maker = maker_of(text, module)
    if inspect.isclass(maker):
        yield from example_faults(doc_of(maker), maker, module)
    elif maker is None:
        yield "has no example, and does not say 'made by ``name``'"
    elif not has_example(getattr(maker, "__doc__", None)):
        owner = maker_of(text.replace(f".{getattr(maker, '__name__', '')}``", "``"), module)
        if not inspect.isclass(owner) or [*example_faults(doc_of(owner), owner, module)]:
            yield f"has no example, and neither has {maker}, which makes it"


def doc_of(thing: type) -> str:
    if is_of_core(thing):
        return ast.get_docstring(stub()[thing.__name__]) or ""
    return inspect.cleandoc(thing.__doc__ or "")


def is_of_contract(thing: type, name: str) -> bool:
    """Returns whether a method is one that a contract declares and documents."""
    room = thing.__module__.removeprefix("topicdb.").split(".")[0]
    contracts = CONTRACTS.get(room, ())
    return any(thing is not one and name in vars(one) for one in contracts)


def faults_of_class(name: str, thing: type) -> Iterator[str]:
    text = doc_of(thing)
    for fault in [*faults_of_text(text), *example_faults(text, thing, thing.__module__)]:
        yield f"{name} {fault}"
    described = NAMED.findall(sections_of(text).get("Attributes", ""))
    for field in fields_of(thing):
        if field not in described:
            yield f"{name} has no field {field!r} in 'Attributes:'"
    made = constructor_of(thing)
    if made is not None:
        parameters, _ = parameters_of(made)
        own = inspect.cleandoc(made.__doc__ or "") or text
        for fault in faults_of_function(own, parameters, False):
            yield f"{name}() {fault}"
    for member_name, member in members_of(thing):
        where = f"{name}.{member_name}"
        if isinstance(member, property):
            for fault in faults_of_text(inspect.getdoc(member)):
                yield f"{where} {fault}"
            continue
        function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if inspect.isfunction(function) and not is_of_contract(thing, member_name):
            own = inspect.cleandoc(function.__doc__ or "")
            for fault in faults_of_function(own, *parameters_of(function)):
                yield f"{where} {fault}"


def faults_of(name: str, thing: object) -> Iterator[str]:
    if is_of_core(thing):
        yield from faults_in_stub(name.rsplit(".", 1)[-1])
        if inspect.isclass(thing):
            for fault in example_faults(doc_of(thing), thing, "topicdb"):
                yield f"{name} {fault}"
    elif inspect.isclass(thing):
        yield from faults_of_class(name, thing)
    else:
        for fault in faults_of_function(inspect.getdoc(thing), *parameters_of(thing)):
            yield f"{name} {fault}"


@pytest.mark.parametrize("module", PUBLIC_MODULES)
def test_docstrings_are_complete_and_of_one_style(module: str) -> None:
    found = public_things(import_module(module))
    faults = [fault for name, thing in found for fault in faults_of(name, thing)]
    assert not faults, "\n".join(faults)


def texts_of(thing: object) -> Iterator[tuple[str, str]]:
    """Gives the docstrings of a class and its members, or of a function, by their names."""
    if is_of_core(thing):
        node = stub()[getattr(thing, "__name__", "")]
        for found in ast.walk(node):
            if isinstance(found, ast.ClassDef | ast.FunctionDef):
                yield found.name, ast.get_docstring(found) or ""
        return
    yield getattr(thing, "__name__", ""), getattr(thing, "__doc__", None) or ""
    if inspect.isclass(thing):
        for name, member in [*members_of(thing), ("__init__", vars(thing).get("__init__"))]:
            yield f"{thing.__name__}.{name}", getattr(member, "__doc__", None) or ""


def examples() -> dict[str, str]:
    found: dict[str, str] = {}
    for module in PUBLIC_MODULES:
        for name, thing in public_things(import_module(module)):
            for member, text in texts_of(thing):
                if ">>>" in text:
                    found.setdefault(f"{name}:{member}", inspect.cleandoc(text))
    return found


EXAMPLES = examples()


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs an example in an empty directory, with the names ``topicdb`` and ``db``."""
    monkeypatch.chdir(tmp_path)
    with topicdb.open("fleet.db") as db:
        db.append(MESSAGES)
        names = {"topicdb": topicdb, "db": db}
        test = doctest.DocTestParser().get_doctest(EXAMPLES[name], names, name, None, 0)
        told: list[str] = []
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        failed, _ = doctest.DocTestRunner(optionflags=flags).run(test, out=told.append)
    assert not failed, "".join(told)
