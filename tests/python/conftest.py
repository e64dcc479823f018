"""Settings and fixtures shared by the tests of the Python package."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))  # for tests/model

from mixing import MIXED, mix_layouts  # noqa: E402
from support import LAYOUTS, LAYOUTS_IN_TURN, Layout, may_mount  # noqa: E402

import topicdb  # noqa: E402

# A job in the background of a shell ignores SIGINT, and every process that the tests start would
# inherit that. Tests interrupt such processes.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A slow machine is no failure, and to open a database for every example takes a while.
_SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "ci",
    max_examples=80,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=_SLOW_IS_FINE,
)
settings.register_profile(
    "nightly",
    max_examples=2_000,
    stateful_step_count=60,
    deadline=None,
    derandomize=False,
    database=None,
    print_blob=True,
    suppress_health_check=_SLOW_IS_FINE,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def _name_of(item: pytest.Item) -> str:
    """Returns the name of a test in ``lengthy_tests.txt``: folder, file, class and function."""
    file = item.path.relative_to(TESTS / "python").with_suffix("")
    names = item.nodeid.partition("[")[0].split("::")[1:]
    return ".".join([*file.parts, *names])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begins with Spark's tests, which take longest; marks those that are listed as lengthy.

    Skips long runs without ``-m crash``.
    """
    items.sort(key=lambda item: item.path.parent.name != "spark")
    lengthy = set((TESTS / "python/lengthy_tests.txt").read_text().split())
    for item in items:
        if _name_of(item) in lengthy:
            item.add_marker(pytest.mark.lengthy)
    if "crash" in config.option.markexpr:
        return
    skip = pytest.mark.skip(reason="takes minutes: ask for it with -m crash")
    for item in items:
        if "crash" in item.keywords:
            item.add_marker(skip)


@pytest.fixture
def db_path(tmp_path: Path) -> Path:
    """The path at which a test may create its database; nothing is there yet."""
    return tmp_path / "test.db"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Lets tests that ask for a layout run with each, and those marked ``mixed`` with several."""
    names = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "layout" not in metafunc.fixturenames or "layout" in names:
        return
    is_mixed = metafunc.definition.get_closest_marker("mixed") is not None
    metafunc.parametrize("layout", [*LAYOUTS, *([MIXED] if is_mixed else [])], indirect=True)


@pytest.fixture
def layout(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """Each layout in turn, for behaviour that is the same in all of them.

    If a test is marked ``mixed``, it also runs with databases in which each append begins a
    generation of another layout.
    """
    if request.param == MIXED:
        mix_layouts(monkeypatch)
        return LAYOUTS[0]
    found: Layout = request.param
    return found


@pytest.fixture(params=LAYOUTS_IN_TURN, ids="-".join)
def layouts(request: pytest.FixtureRequest) -> tuple[Layout, ...]:
    """The layouts that the generations of a database get in turn: each alone, and all of them."""
    found: tuple[Layout, ...] = request.param
    return found


@pytest.fixture
def db(db_path: Path, layout: Layout) -> Iterator[topicdb.Database]:
    """An empty database with the default schema, in each layout."""
    with topicdb.open(db_path, layout=layout) as database:
        yield database


@pytest.fixture
def sharded_db(db_path: Path, layout: Layout) -> Iterator[topicdb.Database]:
    """An empty database with three shards, in each layout."""
    with topicdb.open(db_path, shards=3, layout=layout) as database:
        yield database


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """A Parquet file with the messages ``parquet_rows.ROWS``."""
    from parquet_rows import ROWS  # skips the test where there is no pyarrow

    path = tmp_path / "rows.parquet"
    with topicdb.open(tmp_path / "source.db") as db:
        db.append(ROWS)
        db.export_parquet(path, None)
    return path


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    """A directory at which a child may mount a file system (``support.run_mounted``)."""
    directory = tmp_path / "mount"
    directory.mkdir()
    if not may_mount(directory):
        pytest.skip("no mount in a user namespace here")
    return directory
