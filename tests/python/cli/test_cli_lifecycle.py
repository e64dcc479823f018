"""Tests of ``topicdb plan``, ``retention``, ``usage``, ``trim``, ``rotate`` and ``readers``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_runs import COMMAND, answered, error_in, error_of, output_of, run_here, stored, usage_error

import topicdb

pytest.importorskip("typer", reason="needs topicdb[cli]")

T0 = 1_700_000_000_000_000  # 2023-11-14T22:13:20Z


@pytest.fixture
def path(db_path: Path) -> Path:
    """A database with two classes, one of which has a generation that has ended."""
    with topicdb.open(db_path, retention={"alarm/#": "365d", "#": None}, seal_bytes=1) as db:
        db.append([("alarm/pump", T0 + i, b"hot") for i in range(3)])
        db.append([("debug/pump", T0 + i, b"x" * 50) for i in range(10)])
        db.rotate("#")
        db.append([("debug/pump", T0 + 100, b"new"), ("$SYS/up", T0, b"")])
    return db_path


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def json_of(*arguments: object) -> dict[str, Any]:
    result = run_here(*arguments, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    found: dict[str, Any] = json.loads(result.stdout)
    return found


class TestPlan:
    def test_a_week(self) -> None:
        text = output_of("plan", "--age", "7d", "--per-day", "125000MB")
        facts = {line.split("  ")[0]: line for line in text.splitlines()}
        assert "1,000,000 MB" in facts["log"]
        assert "1,250,000 MB" in facts["quota"]
        assert "1,125,000 MB, 1.0 days" in facts["the oldest go from"]
        assert text.endswith(
            'retention={"#": Retention("7d", rotate="1d")},\n'
            "quota_bytes=1_250_000_000_000, quota_trim=0.9\n"
        )

    def test_what_it_prints_can_be_used(self, db_path: Path) -> None:
        text = output_of("plan", "--age", "30d", "--per-day", "5GB")
        options = eval(
            f"dict({text[text.index('retention=') :]})", {"Retention": topicdb.Retention}
        )
        with topicdb.open(db_path, **options) as db:
            assert list(db.retention) == ["#"]

    def test_of_messages_a_second(self) -> None:
        options = ["--rate", 5000, "--size", "300B", "--disk-factor", 0.25, "--rotate", "12h"]
        found = json_of("plan", "--age", "7d", *options, "--spare", 2, "--fill", 0.5)
        assert found["bytes_per_day"] == 32_400_000_000
        assert found["log_bytes"] == 32_400_000_000 * 8
        assert found["quota_bytes"] == 32_400_000_000 * 16
        assert found["retention"]["rotate_us"] == 12 * 3_600_000_000
        assert found["trim_bytes"] == round(32_400_000_000 * 16 * 0.9)

    def test_of_a_database(self, path: Path) -> None:
        found = json_of("plan", "--age", "7d", "--db", path)
        assert found["bytes_per_day"] > 0
        assert found["log_bytes"] == pytest.approx(8 * found["bytes_per_day"])
        topicdb.open(path.with_name("empty.db")).close()
        error = error_of("plan", "--age", "7d", "--db", path.with_name("empty.db"))
        assert "empty.db: nothing is stored yet" in error

    def test_mistakes(self) -> None:
        for options in ([], ["--rate", 5], ["--size", 5], ["--per-day", "1MB", "--db", "x"]):
            assert "give --per-day, or --rate and --size, or --db" in usage_error(
                "plan", "--age", "7d", *options
            )
        assert "--per-day: 'much' is no size" in error_of(
            "plan", "--age", "7d", "--per-day", "much"
        )
        assert "age: 'week' is not a duration" in error_of(
            "plan", "--age", "week", "--per-day", "1MB"
        )
        assert "fill: expected" in error_of(
            "plan", "--age", "7d", "--per-day", "1MB", "--fill", 0.95
        )


class TestRetention:
    def test_shown_and_replaced(self, path: Path) -> None:
        assert words(output_of("retention", path)) == [
            ["class", "age", "bytes", "keep", "last", "rotates", "after"],
            ["alarm/#", "365d", "-", "-", "1095h"],
            ["#", "kept", "-", "-", "-"],
        ]
        text = output_of(
            *["retention", path, "--set", "a=b/+=keep", "--set", "alarm/#=2d"],
            *["--set", "debug/#=rotate:10m,10GiB,1h", "--set", "s/#=last:5000"],
        )
        assert words(text)[1:] == [
            ["a=b/+", "kept", "-", "-", "-"],
            ["alarm/#", "2d", "-", "-", "6h"],
            ["debug/#", "1h", "10,737,418,240", "-", "600s"],
            ["s/#", "-", "-", "5,000", "1d"],
        ]
        assert json_of("retention", path) == {
            "retention": [
                {
                    "filter": "a=b/+",
                    "age_us": None,
                    "bytes": None,
                    "rotate_us": None,
                    "keep_last": None,
                    "layout": None,
                },
                {
                    "filter": "alarm/#",
                    "age_us": 2 * 86_400_000_000,
                    "bytes": None,
                    "rotate_us": None,
                    "keep_last": None,
                    "layout": None,
                },
                {
                    "filter": "debug/#",
                    "age_us": 3_600_000_000,
                    "bytes": 10 << 30,
                    "rotate_us": 600_000_000,
                    "keep_last": None,
                    "layout": None,
                },
                {
                    "filter": "s/#",
                    "age_us": None,
                    "bytes": None,
                    "rotate_us": None,
                    "keep_last": 5_000,
                    "layout": None,
                },
            ]
        }
        assert json_of("retention", path, "--keep-all") == {"retention": []}
        with topicdb.open(path) as db:
            assert db.retention == {}

    def test_layouts(self, path: Path) -> None:
        limits = ["--set", "alarm/#=2d,layout:skipstream", "--set", "#=keep"]
        assert words(output_of("retention", path, *limits)) == [
            ["class", "age", "bytes", "keep", "last", "rotates", "after", "layout"],
            ["alarm/#", "2d", "-", "-", "6h", "skipstream"],
            ["#", "kept", "-", "-", "-", "-"],
        ]
        classes = json_of("retention", path)["retention"]
        assert [(one["filter"], one["layout"]) for one in classes] == [("alarm/#", "skipstream")]
        facts = ["retention", "alarm/#:", "2d,layout:skipstream"]
        assert facts in words(output_of("info", path))
        with topicdb.open(path) as db:
            layouts = [(s.retention_class, s.generation, s.layout) for s in db.slabs()]
        assert layouts == [
            ("alarm/#", 1, "columnar"),
            ("alarm/#", 2, "skipstream"),
            ("#", 1, "columnar"),
            ("#", 2, "columnar"),
        ]

    @pytest.mark.parametrize(
        ("spec", "message"),
        [
            ("alarm/#", "expected FILTER=LIMITS"),
            ("=7d", "expected FILTER=LIMITS"),
            ("alarm/#=", "expected FILTER=LIMITS"),
        ],
    )
    def test_wrong_use(self, path: Path, spec: str, message: str) -> None:
        assert message in usage_error("retention", path, "--set", spec)

    @pytest.mark.parametrize(
        ("specs", "message"),
        [
            (["alarm/#=soon"], "--set alarm/#: 'soon' is neither an age nor a size"),
            (["alarm/#=1h,2h"], "--set alarm/#: age is given twice"),
            (["alarm/#=rotate:soon"], "retention['alarm/#']: rotate: 'soon' is not a duration"),
            (["alarm/#=30"], "--set alarm/#: '30' has no unit; write an age"),
            (["alarm/#=1h,1.5"], "--set alarm/#: '1.5' has no unit"),
            (["alarm/#=last:some"], "last: needs a number of messages"),
            (["alarm/#=layout:rows"], "layout"),
            (["alarm/#=layout:columnar,layout:columnar"], "layout is given twice"),
            (["a#=1h"], "a#"),
            (["#=1h", "a/#=2h"], "a/#"),
        ],
        ids=str,
    )
    def test_bad_classes(self, path: Path, specs: list[str], message: str) -> None:
        options = [word for spec in specs for word in ("--set", spec)]
        assert message in error_of("retention", path, *options)
        assert [one["filter"] for one in json_of("retention", path)["retention"]] == [
            "alarm/#",
            "#",
        ]

    def test_it_asks_before_messages_go(self, path: Path) -> None:
        before = json_of("retention", path)
        refused = error_of("retention", path, "--set", "#=1B")
        assert "up to 12 messages (2 slabs" in refused
        assert refused.endswith("nothing was changed; --yes does it")
        assert json_of("retention", path) == before
        output_of("retention", path, "--set", "#=1B", "--yes")
        with topicdb.open(path, maintenance_interval=None) as db:
            assert len(db.maintain().dropped) == 2

    def test_nobody_is_asked_where_nothing_goes(self, path: Path) -> None:
        output_of("retention", path, "--set", "#=30d")

    def test_the_answer_of_a_terminal(self, path: Path) -> None:
        command = [COMMAND, "retention", str(path), "--set", "#=1B"]
        assert "nothing was changed" in answered(command, "n")
        assert "1" not in [line[2] for line in words(output_of("retention", path))]
        assert "12 messages" in answered(command, "y")
        assert words(output_of("retention", path))[1] == ["#", "kept", "1", "-", "-"]

    def test_given_twice(self, path: Path) -> None:
        twice = ["--set", "a/#=1h", "--set", "a/#=2h"]
        assert "'a/#' is given twice" in usage_error("retention", path, *twice)
        assert "not both" in usage_error("retention", path, "--set", "a/#=1h", "--keep-all")


class TestUsage:
    def test_by_class(self, path: Path) -> None:
        lines = words(output_of("usage", path))
        assert lines[0][:2] == ["on", "disk"] and lines[1][:2] == ["a", "day"]
        table = {line[0]: line for line in lines[3:]}
        assert table["class"] == [
            "class",
            *["messages", "bytes", "on", "disk", "garbage", "first", "last"],
        ]
        assert table["alarm/#"][1:3] == ["3", str(3 * 13)]
        assert table["#"][1] == "12"
        assert table["#"][-1] == "2023-11-14T22:13:20.000100Z"

    def test_by_generation(self, path: Path) -> None:
        found = json_of("usage", path, "--by", "generation", "--quota", "1GB")
        rows = [(u["retention_class"], u["generation"], u["messages"]) for u in found["usage"]]
        assert rows == [("alarm/#", 1, 3), ("#", 1, 10), ("#", 2, 2)]
        assert found["disk_bytes"] == sum(one["disk_bytes"] for one in found["usage"])
        assert found["bytes_per_day"] > 0 and found["days_left"] > 0
        text = output_of("usage", path, "--by", "generation", "--quota", "1GB")
        assert ["#", "2", "2"] in [line[:3] for line in words(text)]
        assert "days to the quota" in text
        found = json_of("usage", path, "--by", "structure")
        assert sum(one["messages"] for one in found["usage"]) == sum(row[2] for row in rows)
        assert "structure" in output_of("usage", path, "--by", "structure")
        assert json_of("usage", path)["days_left"] is None
        assert "--quota: 'big' is no size" in error_of("usage", path, "--quota", "big")

    def test_beside_a_writer(self, path: Path) -> None:
        with topicdb.open(path):
            assert len(json_of("usage", path)["usage"]) == 2


class TestTrim:
    def test_only_says_what_would_go(self, path: Path) -> None:
        text = output_of("trim", path, "--before", "30d", "--dry-run")
        lines = words(text)
        assert lines[1][:4] == ["0", "#", "1", "10"]
        assert "1 slab and 4 messages of others from before " in text
        error = error_of("trim", path, "--before", "30d")
        assert error.startswith(f"14 messages of {path} from before ")
        assert error.endswith(" go for good: nothing was changed; --yes does it")
        assert len(stored(path)) == 14
        assert "Do it?" in answered([COMMAND, "trim", str(path), "--before", "30d"], "n")
        assert len(stored(path)) == 14
        assert "went" in answered([COMMAND, "trim", str(path), "--before", "30d"], "y")
        assert stored(path) == []

    @pytest.mark.parametrize(
        ("text", "hint"),
        [
            ("2026", "if it is a year, write 2026-01-01T00:00:00Z"),
            ("1700000000", "if these are seconds, write 1700000000000000 or 2023-11-14T22:13:20"),
            ("1700000000000", "if these are milliseconds, write 1700000000000000"),
            ("1700000000000000000", "if these are nanoseconds, write 1700000000000000"),
            ("30", "write ISO 8601 with a zone"),
        ],
    )
    def test_numbers_that_are_no_microseconds(self, path: Path, text: str, hint: str) -> None:
        error = error_of("trim", path, "--before", text, "--yes")
        assert f"--before: {text} microseconds since 1970 would be " in error
        assert hint in error
        assert len(stored(path)) == 14
        assert hint in error_of("scan", path, "--start", text)

    def test_does_it(self, path: Path) -> None:
        found = json_of("trim", path, "--before", "30d", "--yes")
        assert (found["done"], found["messages"]) == (True, 4)
        [slab] = found["slabs"]
        assert (slab["retention_class"], slab["generation"], slab["messages"]) == ("#", 1, 10)
        assert stored(path) == []
        assert len(stored(path, "$SYS/#")) == 1
        assert "0 slabs and 0 messages of others from before " in output_of(
            "trim", path, "--before", "30d", "--yes"
        )

    def test_times_and_filters(self, path: Path) -> None:
        found = json_of("trim", path, "--before", T0 + 2, "--filter", "alarm/#", "--yes")
        assert (found["slabs"], found["messages"]) == ([], 2)
        assert [m.timestamp for m in stored(path, "alarm/#")] == [T0 + 2]
        assert "would go" in output_of(
            "trim", path, "--before", "2023-11-14T22:13:20Z", "--dry-run"
        )
        text = output_of(
            "trim", path, "--before", "2023-11-14T23:13:20", "--tz", "Etc/GMT-1", "--dry-run"
        )
        assert "from before 2023-11-14T23:13:20.000000+01:00 would go" in text
        assert "a#" in error_of("trim", path, "--before", "1d", "--filter", "a#")

    def test_without_an_age(self, path: Path) -> None:
        assert "--before" in usage_error("trim", path)


class TestRotate:
    def test_all_or_one(self, path: Path) -> None:
        assert output_of("rotate", path).splitlines() == [
            "shard 0, class alarm/#: generation 2, columnar",
            "shard 0, class #: generation 3, columnar",
        ]
        text = output_of("rotate", path, "--class", "alarm/#")
        assert text == "shard 0, class alarm/#: generation 3, columnar\n"
        assert "none/#" in error_of("rotate", path, "--class", "none/#")

    def test_another_layout(self, path: Path) -> None:
        before = len(stored(path))
        text = output_of("rotate", path, "--class", "alarm/#", "--layout", "skipstream")
        assert text == "shard 0, class alarm/#: generation 2, skipstream\n"
        assert len(stored(path)) == before
        rows = [line for line in words(output_of("info", path)) if line[1:2] == ["alarm/#"]]
        assert [row[2:5] for row in rows] == [
            ["1", "columnar", "read-only"],
            ["2", "skipstream", "current"],
        ]
        assert "'rows' is not one of" in usage_error("rotate", path, "--layout", "rows")

    def test_of_a_map_of_topics(self, db_path: Path) -> None:
        topicdb.open(db_path, timestamp_bytes=0).close()
        assert "timestamp_bytes" in error_of("rotate", db_path, "--layout", "columnar")
        with topicdb.open(db_path, mode="r") as db:
            assert len(db.slabs()) == 1

    def test_the_clock_of_a_shard_is_that_of_all_classes(self, path: Path) -> None:
        text = output_of("rotate", path, "--reset-clock")
        assert "class #: generation 3" in text
        assert "one clock" in error_of("rotate", path, "--reset-clock", "--class", "#")
        with topicdb.open(path) as db, pytest.raises(ValueError, match="one clock"):
            db.rotate("#", reset_clock=True)


@pytest.mark.parametrize(
    "command",
    [["rotate"], ["trim", "--before", "1d"], ["retention", "--set", "#=1d"], ["usage"]],
    ids=lambda command: command[0],
)
def test_no_database_is_made(tmp_path: Path, command: list[str]) -> None:
    name, *options = command
    assert "no database" in error_of(name, tmp_path / "none", *options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [["rotate"], ["trim", "--before", "1d", "--yes"], ["retention", "--set", "#=1d"]],
    ids=lambda command: command[0],
)
def test_another_writer(path: Path, command: list[str]) -> None:
    name, *options = command
    with topicdb.open(path):
        result = run_here(name, path, *options)
    assert str(path) in error_in(result, 3)


def test_nothing_goes_that_was_not_asked_for(db_path: Path) -> None:
    """Messages over their age stay while classes change, so that users can make an age longer."""
    options: dict[str, Any] = {"retention": {"#": "1us"}, "maintenance_interval": None}
    with topicdb.open(db_path, **options) as db:
        db.append([("a", 1, b"")])
        db.rotate()
    output_of("rotate", db_path)
    output_of("retention", db_path, "--set", "#=365d")
    with topicdb.open(db_path) as db:
        assert db.scan().count() == 1
