"""Fixtures of the tests of sites."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sites import Servers, Sites, servers, sites


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Sites]:
    """Three sites in this process, and a database of two shards at each."""
    with sites(tmp_path, shards=2) as found:
        yield found


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Servers]:
    """Three processes that serve a site each, of a database of two shards."""
    with servers(tmp_path, "--shards", 2) as found:
        yield found
