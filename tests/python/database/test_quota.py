"""Tests of the quota: appends are refused while the database is too large, deletes pass."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest
from support import Layout, nothing_written, wait_until

import topicdb
from topicdb import QuotaError

QUOTA_BYTES = 3 << 20


def test_what_adds_data_is_refused_and_deletes_pass(db_path: Path, layout: Layout) -> None:
    noise = random.Random(5)
    with topicdb.open(
        db_path, quota_bytes=QUOTA_BYTES, quota_trim=None, write_buffer_bytes=1 << 20, layout=layout
    ) as db:
        written = 0
        with pytest.raises(QuotaError, match="quota_bytes"):
            for _ in range(200):
                batch = [("a", written + i, noise.randbytes(1000)) for i in range(50)]
                db.append(batch)
                written += len(batch)
        assert QUOTA_BYTES // 3 < written * 1000 < 3 * QUOTA_BYTES
        with nothing_written(db):
            with pytest.raises(QuotaError):
                db.append([("a", 0, b"")])
            with pytest.raises(QuotaError):
                db.append_async([("a", 0, b"")])
            with pytest.raises(QuotaError), db.transaction() as tx:
                tx.write("a", 0, b"")
            with db.transaction() as tx:
                assert tx.scan("a", end=10).count() == 10, "reading goes on"
        with db.transaction() as tx:
            tx.delete("a", end=10)
        assert db.delete("a", start=20).count == written - 20
        assert db.scan().count() == 10
        assert db.append([]).count == 0


def test_room_comes_back_when_slabs_are_dropped(db_path: Path, layout: Layout) -> None:
    noise = random.Random(6)
    with topicdb.open(
        db_path, quota_bytes=QUOTA_BYTES, quota_trim=None, write_buffer_bytes=1 << 20, layout=layout
    ) as db:
        with pytest.raises(QuotaError):
            while True:
                db.append([("a", i, noise.randbytes(1000)) for i in range(100)])
        db.rotate()
        for slab in db.slabs():
            if slab.read_only:
                db.drop_slab(slab)
        db.flush()

        def is_taken() -> bool:
            try:
                db.append([("a", 1, b"")])
            except QuotaError:
                return False
            return True

        wait_until(is_taken)
        assert db.scan().count() == 1


def test_a_higher_quota_or_none_lets_go_on(db_path: Path) -> None:
    with topicdb.open(db_path) as db:
        db.append([("a", i, random.Random(i).randbytes(1000)) for i in range(1000)])
    with topicdb.open(db_path, quota_bytes="1kB", quota_trim=None) as db, pytest.raises(QuotaError):
        db.append([("a", 0, b"")])
    for quota in (1 << 30, None):
        with topicdb.open(db_path, quota_bytes=quota) as db:
            db.append([("a", 0, b"")])


@pytest.mark.parametrize("trim", [math.nan, -0.1, 1.1])
def test_bad_trims(db_path: Path, trim: float) -> None:
    with pytest.raises(ValueError, match="quota_trim"):
        topicdb.open(db_path, quota_bytes="1GB", quota_trim=trim)
    assert not db_path.exists()


@pytest.mark.parametrize("quota", [0, -1, 2**64, "1000", "1 XB", 1.5])
def test_bad_quotas(db_path: Path, quota: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        topicdb.open(db_path, quota_bytes=quota)  # type: ignore[arg-type]
    assert not db_path.exists()
