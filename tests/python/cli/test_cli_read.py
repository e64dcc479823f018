"""Tests of ``topicdb scan``, ``count``, ``info``, ``streams`` and others, and their errors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli_runs import COMMAND, error_in, error_of, output_of, run, run_here, started, stored
from support import CHILD_TIMEOUT_S

import topicdb
from topicdb import jobs

pytest.importorskip("typer", reason="needs topicdb[cli]")

T0 = 1_700_000_000_000_000  # 2023-11-14T22:13:20Z
MESSAGES = [
    ("metrics/h1/cpu", T0, b"42"),
    ("metrics/h1/mem", T0 + 1, '{"free": "½"}'.encode()),
    ("metrics/h2/cpu", T0 + 2, b"\xff\x00"),
    ("sites//ünï", T0 + 3, b""),
]


@pytest.fixture
def filled(db_path: Path) -> Path:
    """A database with two shards that holds MESSAGES."""
    with topicdb.open(db_path, shards=2) as database:
        database.append(MESSAGES)
    return db_path


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with more messages than fit in a pipe."""
    path = tmp_path_factory.mktemp("cli") / "many.db"
    with topicdb.open(path) as database:
        database.append([("t", i, b"x" * 100) for i in range(100_000)])
    return path


class TestScan:
    def test_human(self, filled: Path) -> None:
        assert output_of("scan", filled, "metrics/#", "--order", "time").splitlines() == [
            "2023-11-14T22:13:20.000000Z  metrics/h1/cpu  42",
            '2023-11-14T22:13:20.000001Z  metrics/h1/mem  {"free": "½"}',
            "2023-11-14T22:13:20.000002Z  metrics/h2/cpu  0xff00 (2 bytes)",
        ]

    def test_a_local_database_has_what_was_acknowledged(self, filled: Path) -> None:
        for command in ("scan", "last", "count"):
            plain = output_of(command, filled)
            assert output_of(command, filled, "--acknowledged") == plain
        query = ("SELECT count(*) AS n FROM messages", "--format", "csv")
        plain = output_of("sql", filled, *query)
        assert output_of("sql", filled, *query, "--acknowledged") == plain

    def test_json(self, filled: Path) -> None:
        lines = output_of("scan", filled, "--json", "--order", "time").splitlines()
        assert [json.loads(line) for line in lines] == [
            {"topic": "metrics/h1/cpu", "timestamp": T0, "value": "42"},
            {"topic": "metrics/h1/mem", "timestamp": T0 + 1, "value": '{"free": "½"}'},
            {
                "topic": "metrics/h2/cpu",
                "timestamp": T0 + 2,
                "value": "/wA=",
                "encoding": "base64",
            },
            {"topic": "sites//ünï", "timestamp": T0 + 3, "value": ""},
        ]

    def test_json_round_trip(self, filled: Path, tmp_path: Path) -> None:
        copy = tmp_path / "copy.db"
        lines = output_of("scan", filled, "--json")
        options = ["--value", "value", "--encoding", "encoding"]
        output_of("ingest", copy, "-", *options, stdin=lines)
        assert stored(copy) == MESSAGES

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            (["metrics/+/cpu"], [0, 2]),
            (["--start", str(T0 + 1), "--end", str(T0 + 3)], [1, 2]),
            (["--start", "2023-11-14T22:13:20.000002Z"], [2, 3]),
            (["--end", "2023-11-14T23:13:20.000001+01:00"], [0]),
            (["--start", "-24h"], []),
            (["--limit", "2"], [0, 1]),
            (["--limit", "99"], [0, 1, 2, 3]),
        ],
    )
    def test_selection(self, filled: Path, options: list[str], expected: list[int]) -> None:
        lines = run_here("scan", filled, *options, "--json", "--order", "time").stdout.splitlines()
        assert [json.loads(line)["timestamp"] - T0 for line in lines] == expected

    def test_stream_order_is_the_librarys(self, filled: Path) -> None:
        with topicdb.open(filled, mode="r") as database:
            expected = [m.topic for m in database.scan()]
        lines = output_of("scan", filled, "--json").splitlines()
        assert [json.loads(line)["topic"] for line in lines] == expected

    def test_nothing_drives_the_terminal(self, db: topicdb.Database) -> None:
        db.append([("a/\x1b[31m", 1, b"x\ny\x1b]0;z\x07"), ("b", 2, b"v" * 1000)])
        db.append([("c", 253_402_300_800_000_000, "ü".encode() * 1000)])
        first, second, third = output_of("scan", db.path, "--order", "time").splitlines()
        assert first.endswith(r"  a/\x1b[31m  x\ny\x1b]0;z\x07")
        assert second.endswith("v" * 200 + "… (1,000 bytes)")
        assert third == "253402300800000000  c  " + "ü" * 200 + "… (2,000 bytes)"

    def test_parquet_round_trip(self, filled: Path, tmp_path: Path) -> None:
        pq = pytest.importorskip("pyarrow.parquet")
        file = tmp_path / "out.parquet"
        file.write_bytes(b"what was there before")
        text = output_of("scan", filled, "--to", file, "--order", "time")
        assert text == f"wrote 4 messages to {file}\n"
        table = pq.read_table(file)
        with topicdb.open(filled, mode="r") as database:
            assert table.equals(database.scan(order="time").to_arrow())
        assert output_of("scan", filled, "--to", file, "--limit", 3).startswith("wrote 3 messages")
        assert pq.read_table(file).num_rows == 3
        output_of("scan", filled, "nothing/here", "--to", file)
        assert pq.read_table(file).schema.names == ["topic", "timestamp", "value"]
        assert {path.name for path in tmp_path.iterdir()} == {"out.parquet", filled.name}

    def test_parquet_that_cannot_be_written(self, filled: Path, tmp_path: Path) -> None:
        pytest.importorskip("pyarrow")
        assert "No such file or directory" in error_of(
            "scan", filled, "--to", tmp_path / "no" / "out.parquet"
        )
        taken = tmp_path / "taken.parquet"
        taken.mkdir()
        assert "Is a directory" in error_of("scan", filled, "--to", taken)
        assert {path.name for path in tmp_path.iterdir()} == {taken.name, filled.name}

    @pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
    def test_closed_streams(self, tmp_path: Path, closed: str) -> None:
        file = tmp_path / "in.json"
        file.write_text('{"topic": "a", "value": "1"}\n')
        path = tmp_path / "db"
        for words in (["ingest", path, file], ["info", path]):
            command = ["sh", "-c", f'exec "$0" "$@" {closed}', COMMAND, *map(str, words)]
            done = subprocess.run(command, capture_output=True, timeout=CHILD_TIMEOUT_S)
            assert (done.returncode, done.stderr) == (0, b"")
        assert len(stored(path)) == 1

    def test_closed_pipe(self, many: Path) -> None:
        with started("scan", many) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline()
            process.stdout.close()
            assert process.stderr.read() == b""
            assert process.wait(CHILD_TIMEOUT_S) == 0

    def test_ctrl_c(self, many: Path) -> None:
        with started("scan", many) as process:
            assert process.stdout is not None
            assert process.stdout.readline()  # the command writes, and will fill the pipe
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=CHILD_TIMEOUT_S)
        assert (process.returncode, err) == (130, b"topicdb: interrupted\n")

    def test_full_disk(self, many: Path) -> None:
        with open("/dev/full", "wb") as full:
            command = [COMMAND, "scan", str(many)]
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
        assert done.returncode == 1
        assert done.stderr == b"topicdb: error: No space left on device\n"

    @pytest.mark.parametrize(
        "options",
        [
            ["--to", "x.csv"],
            ["--limit", "0"],
            ["--order", "topic"],
            ["a", "b"],
        ],
    )
    def test_wrong_usage(self, filled: Path, options: list[str]) -> None:
        result = run_here("scan", filled, *options)
        assert (result.returncode, result.stdout) == (2, "")
        assert "Usage: topicdb scan" in result.stderr

    def test_what_went_into_a_file_as_json(self, filled: Path, tmp_path: Path) -> None:
        pq = pytest.importorskip("pyarrow.parquet")
        file = tmp_path / "out.parquet"
        told = json.loads(output_of("scan", filled, "--to", file, "--json"))
        assert told["to"] == str(file)
        assert told["messages"] == pq.read_metadata(file).num_rows > 0


class TestLast:
    def test_now(self, filled: Path) -> None:
        with topicdb.open(filled) as database:
            database.append([("metrics/h1/cpu", T0 + 9, b"43")])
        assert output_of("last", filled, "metrics/#").splitlines() == [
            "2023-11-14T22:13:20.000009Z  metrics/h1/cpu  43",
            '2023-11-14T22:13:20.000001Z  metrics/h1/mem  {"free": "½"}',
            "2023-11-14T22:13:20.000002Z  metrics/h2/cpu  0xff00 (2 bytes)",
        ]
        lines = output_of("last", filled, "+/+/cpu", "--start", str(T0 + 3), "--json").splitlines()
        assert [json.loads(line)["value"] for line in lines] == ["43"]

    def test_at_a_moment(self, filled: Path) -> None:
        at = "2023-11-14T22:13:20.000001Z"
        lines = output_of("last", filled, "--at", at, "--json").splitlines()
        assert [json.loads(line)["topic"] for line in lines] == ["metrics/h1/cpu", "metrics/h1/mem"]
        assert output_of("last", filled, "--at", str(T0 - 1)) == ""
        assert "--at: 'noon' is no time" in error_of("last", filled, "--at", "noon")


class TestReports:
    @pytest.fixture
    def site(self, db_path: Path) -> Path:
        with topicdb.open(
            db_path, shards=2, retention={"old/#": "7d"}, structures=["metrics/+/cpu/+"]
        ) as database:
            database.append([(f"metrics/h{i}/cpu/{i % 2}", i, b"xyz") for i in range(20)])
            database.append([("old/[red]one", 5, b""), ("$SYS/up", 6, b"")])
            database.rotate("old/#")
        return db_path

    def test_spark_log(self, site: Path) -> None:
        for number in (1, 2):
            with jobs.StagedWriter(site, f"j{number}", drop_malformed=True) as writer:
                writer.append([("metrics/h1/cpu/1", 5, b"x"), ("a/#", 5, b"")])
            jobs.commit(site, f"j{number}", [writer.staged], sequence="query-7", number=number)
        rows = [line.split() for line in output_of("spark-log", site).splitlines()]
        assert rows[0][:3] == ["job", "number", "shard"]
        (row,) = rows[1:]
        with topicdb.open(site, mode="r") as database:
            (job,) = jobs.applied(database)
        serial = str(job.last_serial)
        assert row[:7] == ["query-7", "2", str(job.shard), serial, serial, "1", "1"]
        assert row[7].startswith("20") and row[7].endswith("Z")

    def test_info_has_every_limit_of_a_class(self, db_path: Path) -> None:
        retention = {"a/#": "10kB", "b/#": "last:5", "c/#": "1h,2KiB,last:3", "d": None}
        topicdb.open(db_path, retention=retention).close()
        lines = [line.split() for line in output_of("info", db_path).splitlines()]
        limits = "a/#: 10000B, b/#: last:5, c/#: 1h,2048B,last:3, d: kept"
        assert ["retention", *limits.split()] in lines

    def test_info(self, site: Path) -> None:
        text = output_of("info", site)
        facts = dict(line.split("  ", 1) for line in text.split("\n\n")[0].splitlines())
        facts = {name: value.strip() for name, value in facts.items()}
        assert facts["shards"] == "2"
        assert facts["layout"] == "columnar"
        assert facts["retention"] == "old/#: 7d"
        assert facts["structures"] == "metrics/+/cpu/+"
        assert facts["messages"] == "22"
        assert facts["slabs"] == "6"
        assert facts["first message"] == "1970-01-01T00:00:00.000000Z"
        assert facts["last message"] == "1970-01-01T00:00:00.000019Z"
        slabs = [line.split() for line in text.split("\n\n")[1].splitlines()[1:]]
        assert sorted(row[:5] for row in slabs) == sorted(
            [shard, *rest]
            for shard in "01"
            for rest in (
                ["#", "1", "columnar", "current"],
                ["old/#", "1", "columnar", "read-only"],
                ["old/#", "2", "columnar", "current"],
            )
        )
        assert sum(int(row[5]) for row in slabs) == 22

    def test_info_counts_what_was_stored_and_lists_the_rest(self, filled: Path) -> None:
        """A consumer stores its place in messages of TopicDB's own, at the time 0."""
        with topicdb.open(filled) as database, database.consumer("c", "#") as consumer:
            consumer.ack(consumer.poll())
        lines = output_of("info", filled).split("\n\n")[0].splitlines()
        facts = dict(line.split("  ", 1) for line in lines)
        found = json.loads(output_of("info", filled, "--json"))
        own = [s for s in found["slabs"] if s["retention_class"] == "$topicdb/#"]
        assert sum(slab["messages"] for slab in own) > 0
        assert (facts["messages"].strip(), found["messages"]) == ("4", 4)
        assert facts["first message"].strip() == "2023-11-14T22:13:20.000000Z"
        assert (found["first_timestamp"], found["last_timestamp"]) == (T0, T0 + 3)

    def test_streams(self, site: Path) -> None:
        with topicdb.open(site, mode="r") as database:
            expected = [
                [str(s.shard), s.retention_class, str(s.generation), str(s.id), s.structure]
                for s in database.streams("metrics/#")
            ]
        head, *rows = output_of("streams", site, "metrics/#").splitlines()
        assert head.split() == ["shard", "class", "generation", "stream", "structure"]
        assert expected
        assert [row.split() for row in rows] == expected
        assert len(output_of("streams", site, "--start", "2024-01-01T00:00:00Z").splitlines()) == 1

    def test_structures(self, site: Path) -> None:
        with topicdb.open(site, mode="r") as database:
            hosts, all_streams = len(database.streams("metrics/#")), len(database.streams())
        assert all_streams == hosts + 1
        assert output_of("structures", site).splitlines() == [
            f"{site}  ({all_streams} streams)",
            f"├── metrics/+/cpu/+  ({hosts} streams)",
            "└── old/[red]one  (1 stream)",
        ]
        assert "$SYS/up  (1 stream)" in output_of("structures", site, "$SYS/#")

    def test_structures_with_sizes(self, db_path: Path) -> None:
        with topicdb.open(db_path, structures=["m/+", "s/+"]) as db:
            db.append([("m/1", i, b"12345") for i in range(30)])
            db.append([("s/1", i, b"1234567") for i in range(5)])
        lines = output_of("structures", db_path, "--sizes").splitlines()
        assert lines[0].endswith("(2 streams)  35 messages, 290 bytes, 100.0%")
        assert "m/+  (1 stream)  30 messages, 240 bytes, 82.8%" in lines[1]
        assert "s/+  (1 stream)  5 messages, 50 bytes, 17.2%" in lines[2]
        with topicdb.open(db_path) as db:
            db.append([("$SYS/up", 1, b"1")])
        assert "1 message" in output_of("structures", db_path, "$SYS/#", "--sizes")

    def test_tree_of_levels(self, db: topicdb.Database) -> None:
        from rich.console import Console

        from topicdb.cli.report import structure_tree

        topics = ["a", "a/b", "a/b/c/d", "a/b/c/e", "", "/x", "/x/\x1b"]
        db.append([(topic or "/", 1, b"") for topic in topics])
        console = Console(width=200, markup=False)
        with console.capture() as shown:
            console.print(structure_tree(db.structures(), "db"))
        assert shown.get().splitlines() == [
            "db  (7 streams)",
            "├── (empty level)  (3 streams)",
            "│   ├── (empty level)  (1 stream)",
            "│   └── x  (2 streams, 1 of them here)",
            "│       └── \\x1b  (1 stream)",
            "└── a  (4 streams, 1 of them here)",
            "    └── b  (3 streams, 1 of them here)",
            "        └── c  (2 streams)",
            "            ├── d  (1 stream)",
            "            └── e  (1 stream)",
        ]

    def test_tree_of_many_levels(self, db: topicdb.Database) -> None:
        db.append([("/".join("x" * levels), 1, b"") for levels in (2_000, 1_999, 3)])
        text = output_of("structures", db.path)
        assert text.splitlines()[0] == f"{db.path}  (3 streams)"

    def test_stats(self, site: Path) -> None:
        figures = json.loads(output_of("stats", site, "--json"))
        with topicdb.open(site, mode="r") as database:
            expected = database.stats()
        assert figures["messages"] == 22
        assert figures.keys() == expected.keys()
        assert [s["serial"] for s in figures["shards"]] == [s["serial"] for s in expected["shards"]]
        text = output_of("stats", site)
        assert "messages     22" in text
        assert len(text.split("\n\n")[1].splitlines()) == 3

    def test_empty_database(self, db_path: Path) -> None:
        topicdb.open(db_path).close()
        for command in ("info", "streams", "structures", "stats", "scan"):
            output_of(command, db_path)


READERS = [["info"], ["scan"], ["streams"], ["structures"], ["stats"]]


class TestErrors:
    def test_reads_beside_a_writer_and_a_second_writer_is_refused(
        self, db: topicdb.Database
    ) -> None:
        db.append([("t", 1, b"")])
        assert output_of("scan", db.path).endswith("  t  \n")
        message = error_in(run("ingest", db.path, "-", stdin='{"topic":"t"}'), code=3)
        assert str(os.getpid()) in message
        assert db.scan().count() == 1

    @pytest.mark.parametrize("command", READERS, ids=str)
    def test_nothing_there(self, tmp_path: Path, command: list[str]) -> None:
        path = tmp_path / "no.db"
        assert str(path) in error_of(*command, path)
        assert not path.exists(), "a reader creates nothing"

    @pytest.mark.parametrize("command", [*READERS, ["ingest"]], ids=str)
    def test_not_a_database(self, tmp_path: Path, command: list[str]) -> None:
        (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8")
        files = ["-"] if command == ["ingest"] else []
        assert str(tmp_path) in error_of(*command, tmp_path, *files)
        assert [p.name for p in tmp_path.iterdir()] == ["photo.jpg"]

    @pytest.mark.parametrize("command", ["scan", "streams", "structures"])
    def test_bad_filter(self, filled: Path, command: str) -> None:
        assert "a/#/b" in error_of(command, filled, "a/#/b")

    @pytest.mark.parametrize("option", ["--start", "--end"])
    @pytest.mark.parametrize("time", ["2026-01-32T14:02:00", "tomorrow", "-5", "9" * 20])
    def test_bad_time(self, filled: Path, option: str, time: str) -> None:
        error = error_of("scan", filled, option, time)
        assert error.removeprefix("--").startswith(option.removeprefix("--"))

    def test_debug_shows_a_traceback(self, tmp_path: Path) -> None:
        result = run("--debug", "info", tmp_path / "no.db")
        assert result.returncode == 1
        assert "Traceback" in result.stderr
        assert result.stderr.splitlines()[-1].startswith("topicdb: error: there is no database")

    def test_usage(self) -> None:
        assert run("frobnicate").returncode == 2
        assert "Usage: topicdb" in output_of("--help")

    def test_version(self) -> None:
        assert output_of("--version").startswith(f"topicdb {topicdb.__version__} (format ")

    @pytest.mark.installed
    def test_without_the_extra(self, tmp_path: Path) -> None:
        """An interpreter that sees only the standard library, NumPy and TopicDB names the extra."""
        import numpy

        for package in (topicdb, numpy):
            directory = Path(str(package.__file__)).parent
            for folder in (directory, directory.with_name(f"{directory.name}.libs")):
                if folder.exists():
                    (tmp_path / folder.name).symlink_to(folder)
        code = f"""if True:
            import sys
            sys.path.append({str(tmp_path)!r})
            from topicdb.cli import main
            sys.exit(main())"""
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("topicdb: error: ")
        assert 'pip install "topicdb[cli]"' in done.stderr
        assert done.stderr.count("\n") == 1


class TestCount:
    def test_all_together(self, filled: Path) -> None:
        assert output_of("count", filled).splitlines()[-1].split() == [
            "4",
            "2023-11-14T22:13:20.000000Z",
            "2023-11-14T22:13:20.000003Z",
        ]
        assert output_of("count", filled, "nobody") == "no message matches\n"

    def test_by_topic(self, filled: Path) -> None:
        lines = output_of("count", filled, "metrics/#", "--levels", 2).splitlines()
        assert [line.split()[:2] for line in lines[-2:]] == [
            ["metrics/h1", "2"],
            ["metrics/h2", "1"],
        ]

    def test_spans_begin_at_midnight_of_the_zone(self, filled: Path) -> None:
        text = output_of("count", filled, "--span", "1d", "--tz", "Asia/Kolkata", "--json")
        (group,) = json.loads(text)["groups"]
        assert group["messages"] == 4
        assert (group["span_start"] + 5.5 * 3_600e6) % 86_400e6 == 0

    def test_mistakes(self, filled: Path) -> None:
        assert "--levels: expected a number of levels or 'all'" in error_of(
            "count", filled, "--levels", "two"
        )
        assert "span" in error_of("count", filled, "--span", "hourly")
