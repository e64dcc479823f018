"""Simulated crashes: every state that a crash may leave keeps the promises (tests/crash/README.md).

``TOPICDB_CRASH_STATES`` sets how many states are checked (default 1,500; the long tests check
10,500, ``make crash-states`` 1,000,000), ``TOPICDB_CRASH_SEED`` the seed of what the programs do.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from crash.campaign import Campaign, table, topicdb_programs
from crash.filesystem import FileSystem, Names, write_tree
from crash.recording import record
from crash.runner import Report, simulate
from crash.states import DEATH, OTHER_KINDS, Plan, Stage
from crash.trace import Kind, Operation, read_trace

STATES = int(os.environ.get("TOPICDB_CRASH_STATES", "1500"))
STATES_LONG = 10_500
SEED = int(os.environ.get("TOPICDB_CRASH_SEED", "1"))
STATES_OF_A_TOY = 900


@pytest.mark.timeout(0)
@pytest.mark.parametrize("states", [STATES, pytest.param(STATES_LONG, marks=pytest.mark.long)])
def test_every_state_after_a_crash_keeps_the_promises(tmp_path: Path, states: int) -> None:
    started = time.monotonic()
    keep = Path(os.environ.get("TOPICDB_CRASH_KEEP", tmp_path / "failures"))
    campaign = Campaign(None, states=states, seed=SEED, processes=2, keep=keep)
    for line in campaign.run():
        print(line, flush=True)
    print(table(campaign.reports))
    checked = sum(report.states for report in campaign.reports)
    cpu = sum(os.times()[2:4])  # the workers' time says more on a busy machine
    print(f"{checked} crash states in {time.monotonic() - started:.0f} s, {cpu:.0f} s of CPU")
    assert not campaign.failures, "\n\n".join(map(str, campaign.failures))
    assert checked >= states
    for report in campaign.reports:
        assert set(report.kinds) == {str(kind) for kind in (DEATH, *OTHER_KINDS)}


# The simulator itself


def simulate_toy(name: str, directory: Path) -> Report:
    trace = directory / "trace"
    operations = record(f"crash.toys:{name}", 7, trace)
    return simulate(f"crash.toys:{name}", trace, operations, 7, range(STATES_OF_A_TOY))


@pytest.mark.parametrize("name", ["log", "state", "log_beside_a_file_without_a_name"])
def test_it_finds_nothing_where_nothing_is_wrong(tmp_path: Path, name: str) -> None:
    report = simulate_toy(name, tmp_path)
    assert not report.failures
    assert report.states == STATES_OF_A_TOY
    assert len(report.images) > 100


# Each fault with a kind of crash that shows it. Whether the fsync of a file makes its name stable
# depends on the file system, so a missing fsync of the directory may fail only in the strict model.
FAULTS = {
    "log_without_fsync": "journal/",
    "log_without_directory": "directory/",
    "log_without_checksum": "death",
    "state_without_fsync": "journal/",
    "state_without_directory": "journal/",
    "state_in_place": "death",
}


@pytest.mark.parametrize("name", FAULTS)
def test_it_finds_planted_faults(tmp_path: Path, name: str) -> None:
    trace = tmp_path / "trace"
    operations = record(f"crash.toys:{name}", 7, trace)
    states = range(STATES_OF_A_TOY)
    program = f"crash.toys:{name}"
    report = simulate(program, trace, operations, 7, states, failures_max=STATES_OF_A_TOY)
    kinds = {str(failure.state.kind) for failure in report.failures}
    assert any(kind.startswith(FAULTS[name]) for kind in kinds), kinds
    if FAULTS[name] == "directory/":
        assert all(kind.startswith("directory/") for kind in kinds), kinds
    if FAULTS[name] != "death":
        assert not any(kind.startswith("death") for kind in kinds), kinds
    assert "operations near it" in str(report.failures[0])


def test_a_seed_and_a_number_give_the_same_state(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    operations = record("crash.toys:state", 3, trace)
    assert read_trace(trace) == operations
    for number in (4, 40, 207, 300):
        for copy in "ab":
            plan = Plan(operations, 5)
            Stage(plan).make(plan.state(number), tmp_path / f"{number}{copy}")
        first, second = (content_of(tmp_path / f"{number}{copy}") for copy in "ab")
        assert first == second
    other = [Plan(operations, 6).chance(Plan(operations, 6).state(n)).random() for n in range(9)]
    assert other != [Plan(operations, 5).chance(plan.state(n)).random() for n in range(9)]


def content_of(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_a_worker_that_dies_is_a_failure(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    operations = record("crash.toys:dies", 1, trace)
    report = simulate("crash.toys:dies", trace, operations, 1, range(40), failures_max=3)
    assert len(report.failures) == 3
    assert "the worker ended with -" in report.failures[0].error


def test_what_goes_past_the_shim_is_noticed(tmp_path: Path) -> None:
    for name in ("maps_a_file", "writes_a_stream", "names_a_file_without_a_name"):
        with pytest.raises(RuntimeError, match="crash shim"):
            record(f"crash.toys:{name}", 1, tmp_path / "trace")


# The model of a file system


def system_after(names: Names, *operations: Operation) -> FileSystem:
    system = FileSystem(names)
    for operation in operations:
        system.apply(operation)
    return system


def created(name: str, handle: int) -> Operation:
    return Operation(Kind.OPEN, handle, os.O_WRONLY | os.O_CREAT, name=name)


def opened(name: str, handle: int) -> Operation:
    return Operation(Kind.OPEN, handle, os.O_RDONLY, name=name)


def renamed(old: str, new: str) -> Operation:
    return Operation(Kind.RENAME, name=old, data=new.encode())


def stable_names(system: FileSystem) -> set[str]:
    return set(system.root.stable_entries)


def test_an_fsync_of_a_file_makes_its_content_stable() -> None:
    system = system_after(
        Names.DIRECTORY, created("a", 1), Operation(Kind.WRITE, 1, data=b"xy"), created("b", 2)
    )
    node = system.find("a")
    assert node is not None
    assert node.stable == b""
    system.apply(Operation(Kind.SYNC, 1))
    assert node.stable == b"xy"
    assert stable_names(system) == set(), "its name is a matter of the directory"


def test_a_journal_makes_names_stable_in_order() -> None:
    system = system_after(
        Names.JOURNAL, created("a", 1), created("b", 2), renamed("a", "c"), Operation(Kind.SYNC, 2)
    )
    assert stable_names(system) == {"b", "c"}
    assert not system.pending


def test_a_directory_keeps_its_names_by_its_fsync() -> None:
    system = system_after(
        Names.DIRECTORY,
        Operation(Kind.MAKE_DIRECTORY, name="d"),
        created("d/a", 1),
        created("b", 2),
        opened("d", 3),
        Operation(Kind.SYNC, 3),
    )
    directory = system.find("d")
    assert directory is not None
    assert set(directory.stable_entries) == {"a"}
    assert stable_names(system) == set()
    system.apply(opened("", 4))
    system.apply(Operation(Kind.SYNC, 4))
    assert stable_names(system) == {"b", "d"}


def test_two_names_that_change_places_do_so_at_once() -> None:
    system = system_after(
        Names.DIRECTORY,
        Operation(Kind.MAKE_DIRECTORY, name="d"),
        created("a", 1),
        created("d/b", 2),
        Operation(Kind.SYNC_ALL),
    )
    first, second = system.find("a"), system.find("d/b")
    directory = system.find("d")
    assert directory is not None
    system.apply(Operation(Kind.RENAME, name="a", data=b"d/b", first=1))
    assert (system.find("a"), system.find("d/b")) == (second, first)
    assert (system.root.stable_entries["a"], directory.stable_entries["b"]) == (first, second)
    system.apply(opened("d", 3))
    system.apply(Operation(Kind.SYNC, 3))
    assert (system.root.stable_entries["a"], directory.stable_entries["b"]) == (second, first)


def test_a_symbolic_link_leads_to_a_name_beside_it(tmp_path: Path) -> None:
    system = system_after(
        Names.DIRECTORY,
        Operation(Kind.MAKE_DIRECTORY, name="d"),
        Operation(Kind.MAKE_DIRECTORY, name="d/first"),
        Operation(Kind.MAKE_DIRECTORY, name="d/second"),
        Operation(Kind.SYMLINK, name="d/at", data=b"first"),
        created("d/at/a", 1),
        Operation(Kind.SYNC_ALL),
        Operation(Kind.SYMLINK, name="d/new", data=b"second"),
        renamed("d/new", "d/at"),
        created("d/at/b", 2),
    )
    assert system.find("d/first/a") is not None
    assert system.find("d/at/b") is system.find("d/second/b") is not None
    assert system.find("d/at/a") is None
    (tmp_path / "now").mkdir()
    (tmp_path / "stable").mkdir()
    write_tree(tmp_path / "now", system.root, lambda node: node.entries or {}, lambda _: b"")
    write_tree(tmp_path / "stable", system.root, lambda node: node.stable_entries, lambda _: b"")
    assert (tmp_path / "now" / "d" / "at").readlink() == Path("second")
    assert (tmp_path / "stable" / "d" / "at").readlink() == Path("first"), "it was not synced"


def test_a_rename_to_another_directory_is_one_change() -> None:
    system = system_after(
        Names.DIRECTORY,
        Operation(Kind.MAKE_DIRECTORY, name="d"),
        created("a", 1),
        renamed("a", "d/a"),
        opened("d", 3),
        Operation(Kind.SYNC, 3),
    )
    directory = system.find("d")
    assert directory is not None
    assert set(directory.stable_entries) == {"a"}
    assert stable_names(system) == {"d"}, "what its old directory did before came along"


def test_all_programs_are_there() -> None:
    assert len(topicdb_programs()) >= 23
