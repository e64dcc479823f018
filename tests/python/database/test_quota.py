"""Tests of the quota: appends are refused while the database is too large, deletes pass."""

from __future__ import annotations

import math
import random
import threading
from pathlib import Path
from typing import Any

import pytest
from served import serving
from support import Layout, nothing_written, wait_until

import topicdb
from sealing import wait_for_sealing
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


def fill(db: topicdb.Database, first: int, last: int) -> None:
    """Appends messages of 1 kB that nothing compresses."""
    db.append([("a", i, random.Random(i).randbytes(1000)) for i in range(first, last)])


def generations_of(dropped: list[Any]) -> list[int]:
    return [one.slab.generation for one in dropped]


def test_it_is_replaced_while_the_database_is_open(db_path: Path, layout: Layout) -> None:
    with topicdb.open(db_path, layout=layout, quota_trim=None, maintenance_interval=None) as db:
        assert db.quota.bytes is None and db.quota.trim is None and not db.quota.is_full
        fill(db, 0, 1000)
        tried = db.set_quota("500kB", dry_run=True)
        assert tried.bytes == 500_000 and tried.is_full and tried.disk_bytes > 1_000_000
        assert db.quota.bytes is None
        fill(db, 1000, 1001)
        found = db.set_quota("500kB")
        assert found.is_full and found.dropped == [] and db.quota.bytes == 500_000
        with nothing_written(db), pytest.raises(QuotaError, match="its quota is 500000"):
            fill(db, 1001, 1002)
        assert db.delete("a", end=1).count == 1, "deletes pass"
        assert not db.set_quota(1 << 30).is_full
        fill(db, 1001, 1002)
        db.set_quota("500kB")
        assert db.set_quota(None).bytes is None
        fill(db, 1002, 1003)
        assert db.scan().count() == 1002


def test_it_says_what_goes_for_a_lower_one(db_path: Path) -> None:
    with topicdb.open(db_path, maintenance_interval=None) as db:
        for generation in range(4):
            fill(db, 1000 * generation, 1000 * generation + 1000)
            db.rotate()
        db.flush()
        wait_for_sealing(db)  # until then, what it writes a second time counts too
        db.maintain()
        quota = sum(one.disk_bytes - one.garbage_bytes for one in db.usage()) * 3 // 4
        tried = db.set_quota(quota, dry_run=True)
        assert generations_of(tried.dropped) == [1, 2]
        assert {one.reason for one in tried.dropped} == {"quota"}
        assert db.maintain().dropped == [] and db.scan().count() == 4000
        assert generations_of(db.set_quota(quota).dropped) == [1, 2]
        assert generations_of(db.maintain().dropped) == [1, 2]
        assert db.quota.dropped == [] and db.scan().count() == 2000
        wait_until(lambda: not db.quota.is_full)  # files are measured once a second
        assert db.set_quota(quota // 2, quota_trim=None).dropped == []
        assert db.quota.trim is None and db.quota.is_full
        assert len(db.set_quota(quota // 2, quota_trim=1).dropped) == 1
        assert db.quota.trim == 1


def test_a_higher_one_ends_the_trimming(db_path: Path) -> None:
    with topicdb.open(db_path, quota_bytes=1 << 20, maintenance_interval=None) as db:
        for generation in range(3):
            db.set_quota(None)
            fill(db, 1000 * generation, 1000 * generation + 1000)
            db.rotate()
        assert db.maintain().dropped == []
        db.set_quota(1 << 20)
        assert len(db.maintain().dropped) > 0


def test_it_is_not_stored(db_path: Path) -> None:
    with topicdb.open(db_path) as db:
        db.set_quota("10GB", quota_trim=0.5)
        assert (db.quota.bytes, db.quota.trim) == (10_000_000_000, 0.5)
        assert db.forecast().days_left is None
        fill(db, 0, 1000)
        assert db.forecast().days_left is not None
    with topicdb.open(db_path) as db:
        assert (db.quota.bytes, db.quota.trim) == (None, 0.9)


def test_a_handle_that_only_reads(db_path: Path) -> None:
    with topicdb.open(db_path) as db:
        fill(db, 0, 1000)
    with topicdb.open(db_path, mode="r", quota_bytes="100kB") as reader:
        assert reader.quota.is_full
        assert reader.set_quota("1GB", dry_run=True).bytes == 1_000_000_000
        with pytest.raises(topicdb.ReadOnlyError):
            reader.set_quota("1GB")
        assert reader.quota.bytes == 100_000


def test_threads_append_while_it_changes(db_path: Path) -> None:
    """Each append is stored or refused; nothing else comes of it."""
    with topicdb.open(db_path, quota_trim=None) as db:
        fill(db, 0, 100)
        stored = [0, 0]
        refused = [0, 0]
        is_over = threading.Event()

        def append(thread: int) -> None:
            while not is_over.is_set():
                try:
                    db.append([(f"t/{thread}", stored[thread], b"x" * 100)])
                    stored[thread] += 1
                except QuotaError:
                    refused[thread] += 1

        threads = [threading.Thread(target=append, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for number in range(200):
            db.set_quota("1kB" if number % 2 == 0 else None)
        db.set_quota("1kB")
        wait_until(lambda: min(refused) > 0)
        db.set_quota(None)
        before = list(stored)
        wait_until(lambda: min(now - then for now, then in zip(stored, before, strict=True)) > 0)
        is_over.set()
        for thread in threads:
            thread.join()
        for thread_number in range(2):
            assert db.scan(f"t/{thread_number}").count() == stored[thread_number]


def test_through_a_server(db_path: Path) -> None:
    with (
        topicdb.open(db_path, quota_bytes="1GB") as db,
        serving(db) as server,
        topicdb.connect(server.url) as one,
        topicdb.connect(server.url) as two,
    ):
        assert one.quota.bytes == 1_000_000_000
        fill(one, 0, 1000)
        found = one.set_quota("500kB", quota_trim=None)
        assert found.is_full and db.quota.bytes == two.quota.bytes == 500_000
        with pytest.raises(QuotaError, match="its quota is 500000"):
            fill(two, 1000, 1001)
        two.set_quota(None)
        assert db.quota.bytes is None
        fill(one, 1000, 1001)
        for remote in (one, two):
            remote.set_quota("2GB")
            assert remote.forecast().days_left is not None


def test_an_import_asks_for_the_quota_of_the_moment(db_path: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    with topicdb.open(db_path, quota_trim=None) as db:
        fill(db, 0, 1000)
        db.export_parquet(tmp_path / "all.parquet")
        db.set_quota("500kB")
        with pytest.raises(QuotaError, match="its quota is 500000"):
            db.import_parquet(tmp_path / "all.parquet", repeat=True)
        assert db.scan().count() == 1000
        db.set_quota(None)
        assert db.import_parquet(tmp_path / "all.parquet", repeat=True).messages == 1000


@pytest.mark.parametrize("quota", [0, -1, 2**64, "1000", "1 XB", 1.5])
def test_bad_quotas_change_nothing(db_path: Path, quota: Any) -> None:
    with topicdb.open(db_path, quota_bytes="1GB") as db:
        with pytest.raises((ValueError, TypeError), match="quota_bytes"):
            db.set_quota(quota)
        for trim in (math.nan, -0.1, 1.1, "half"):
            with pytest.raises(ValueError, match="quota_trim"):
                db.set_quota("2GB", quota_trim=trim)  # type: ignore[arg-type]
        assert (db.quota.bytes, db.quota.trim) == (1_000_000_000, 0.9)


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
