"""Tests of ``topicdb tail``: the newest messages, and those that another process stores then."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
from pathlib import Path

import pytest
from cli_runs import error_of, output_of, run_here, started, stored, usage_error
from served import serving
from support import CHILD_TIMEOUT_S

import topicdb

pytest.importorskip("typer", reason="needs topicdb[cli]")

T0 = 1_700_000_000_000_000  # 2023-11-14T22:13:20Z
HOUR = 3_600_000_000


@pytest.fixture
def path(db_path: Path) -> Path:
    """A database of two shards with a message an hour of each of three topics."""
    with topicdb.open(db_path, shards=2) as db:
        db.append([(f"m/{i % 3}", T0 + i * HOUR, b"%d" % i) for i in range(60)])
        db.append([("late/1", T0, b"\xff\x00"), ("late/1", T0 + 1, b'{"a": [1, "\xc2\xbd"]}')])
    return db_path


def values(text: str) -> list[str]:
    return [json.loads(line)["value"] for line in text.splitlines()]


class TestNewest:
    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            (["m/#", "--last", 3], ["57", "58", "59"]),
            (["m/1", "--last", 2], ["55", "58"]),
            (["m/#"], [str(i) for i in range(50, 60)]),
            (["m/0", "m/2", "--last", 3], ["56", "57", "59"]),
            (["m/#", "--last", 0], []),
            (["m/#", "--last", 999], [str(i) for i in range(60)]),
            (["nothing/#", "--last", 3], []),
            (["late/#", "--last", 1], ['{"a": [1, "½"]}']),
            (["m/#", "--last", 5, "--limit", 2], ["55", "56"]),
        ],
    )
    def test_the_last(self, path: Path, options: list[object], expected: list[str]) -> None:
        found = run_here("tail", path, *options, "--json", "--for", "10ms")
        assert (found.returncode, values(found.stdout)) == (0, expected)

    def test_since_a_time(self, path: Path) -> None:
        words = ["tail", path, "m/#", "--start", "2023-11-17T06:13:20Z", "--for", "1s", "--json"]
        found = run_here(*words, "--limit", 4)
        assert sorted(values(found.stdout)) == ["56", "57", "58", "59"]

    def test_formats(self, path: Path) -> None:
        def shown(format: str, *words: object) -> list[str]:
            options = ["--format", format, "--for", "10ms", *words]
            return run_here("tail", path, "late/#", *options).stdout.splitlines()

        assert shown("text") == [
            "2023-11-14T22:13:20.000000Z  late/1  0xff00 (2 bytes)",
            '2023-11-14T22:13:20.000001Z  late/1  {"a": [1, "½"]}',
        ]
        assert shown("hex") == [
            "2023-11-14T22:13:20.000000Z  late/1  ff00 (2 bytes)",
            "2023-11-14T22:13:20.000001Z  late/1  7b2261223a205b312c2022c2bd225d7d (16 bytes)",
        ]
        assert shown("pretty", "--last", 1) == [
            "2023-11-14T22:13:20.000001Z  late/1",
            "  {",
            '    "a": [',
            "      1,",
            '      "½"',
            "    ]",
            "  }",
        ]
        assert shown("json")[0].endswith('"value": "/wA=", "encoding": "base64"}')
        rows = list(csv.DictReader(io.StringIO("\n".join(shown("csv")))))
        assert [row["value"] for row in rows] == ["/wA=", '{"a": [1, "½"]}']
        assert [row["encoding"] for row in rows] == ["base64", ""]

    def test_csv_comes_back(self, path: Path, tmp_path: Path) -> None:
        lines = output_of("scan", path, "--format", "csv")
        file = tmp_path / "out.csv"
        file.write_text(lines, encoding="utf-8")
        output_of("ingest", tmp_path / "copy", file, "--value", "value", "--encoding", "encoding")
        assert sorted(stored(tmp_path / "copy")) == sorted(stored(path))

    def test_wrong_usage(self, path: Path) -> None:
        assert "not both" in usage_error("tail", path, "--last", 1, "--start", "-1h")
        assert "not both" in usage_error("tail", path, "--json", "--format", "hex")
        assert "no place" in usage_error("tail", path, "--properties", "--format", "csv")
        assert "did you mean 'text'" in usage_error("tail", path, "--format", "txt")
        assert "--for: '5' is not a duration" in error_of("tail", path, "--for", "5")
        assert "a/#/b" in error_of("tail", path, "a/#/b")


def read(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


class TestFollowing:
    def test_beside_a_writer(self, path: Path) -> None:
        with (
            topicdb.open(path) as db,
            started("tail", path, "new/#", "m/1", "--last", 1) as process,
        ):
            assert read(process).endswith(b"  m/1  58\n")
            for number in range(3):
                db.append([("new/1", None, b"%d" % number), ("other", None, b"")])
                assert read(process).endswith(b"  new/1  %d\n" % number)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=CHILD_TIMEOUT_S)
        assert (process.returncode, out, err) == (130, b"", b"topicdb: interrupted\n")

    def test_nothing_is_missed_or_comes_twice(self, path: Path) -> None:
        """Messages that are stored while the newest are looked for come once."""
        with topicdb.open(path) as db:
            words = ["tail", path, "n/#", "--last", 10_000, "--json", "--limit", 500]
            with started(*words) as process:
                for number in range(500):
                    db.append([(f"n/{number % 5}", T0 + number, b"%d" % number)])
                out, _ = process.communicate(timeout=CHILD_TIMEOUT_S)
        assert process.returncode == 0
        assert sorted(values(out.decode()), key=int) == [str(i) for i in range(500)]

    def test_of_a_server(self, path: Path) -> None:
        options = ["--last", 1, "--limit", 2, "--json"]
        with (
            topicdb.open(path) as db,
            serving(db) as server,
            started("tail", server.url, *options) as process,
        ):
            assert json.loads(read(process))["value"] == "59"
            db.append([("new/1", None, b"x")])
            assert json.loads(read(process))["topic"] == "new/1"
            assert process.wait(CHILD_TIMEOUT_S) == 0

    def test_a_reader_that_goes(self, path: Path) -> None:
        with topicdb.open(path) as db, started("tail", path, "n", "--last", 0) as process:
            assert process.stdout is not None and process.stderr is not None
            db.append([("n", None, b"")])
            process.stdout.close()
            while process.poll() is None:
                db.append([("n", None, b"")])
            assert (process.returncode, process.stderr.read()) == (0, b"")
