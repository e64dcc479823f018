"""The command ``topicdb``: mostly real runs of the installed entry point."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support import CHILD_TIMEOUT_S

import topicdb

pytest.importorskip("typer", reason="needs topicdb[cli]")

COMMAND = Path(sys.executable).with_name("topicdb")
T0 = 1_700_000_000_000_000  # 2023-11-14T22:13:20Z
MESSAGES = [
    ("metrics/h1/cpu", T0, b"42"),
    ("metrics/h1/mem", T0 + 1, '{"free": "½"}'.encode()),
    ("metrics/h2/cpu", T0 + 2, b"\xff\x00"),
    ("sites//ünï", T0 + 3, b""),
]


def run(*arguments: object, stdin: str | bytes | None = None) -> subprocess.CompletedProcess[str]:
    """Runs the command to its end."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    result = subprocess.run(
        [COMMAND, *map(str, arguments)],
        input=b"" if data is None else data,
        capture_output=True,
        timeout=CHILD_TIMEOUT_S,
    )
    return subprocess.CompletedProcess(
        result.args, result.returncode, result.stdout.decode(), result.stderr.decode()
    )


def output_of(*arguments: object, stdin: str | bytes | None = None) -> str:
    """What a run printed that went well and said nothing on stderr."""
    result = run(*arguments, stdin=stdin)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def error_of(*arguments: object, stdin: str | bytes | None = None, code: int = 1) -> str:
    """The one line on stderr of a run that failed with ``code`` and printed nothing."""
    result = run(*arguments, stdin=stdin)
    assert (result.returncode, result.stdout) == (code, ""), result.stderr
    prefix = "topicdb: error: "
    assert result.stderr.startswith(prefix)
    assert result.stderr.count("\n") == 1, "one line, no traceback"
    return result.stderr.removeprefix(prefix).rstrip("\n")


@contextmanager
def started(*arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """A run to talk with; killed at the end if it still goes."""
    with subprocess.Popen(
        [COMMAND, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def json_lines(records: Iterable[dict[str, Any]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def stored(path: Path, filter: str = "#") -> list[topicdb.Message]:
    with topicdb.open(path, mode="r") as database:
        return database.scan(filter, order="time").to_list()


@pytest.fixture
def filled(db_path: Path) -> Path:
    """A database with two shards and MESSAGES."""
    with topicdb.open(db_path, shards=2) as database:
        database.append(MESSAGES)
    return db_path


class TestIngest:
    def test_json_lines_with_defaults(self, db_path: Path, tmp_path: Path) -> None:
        file = tmp_path / "in.jsonl"
        file.write_text(
            '{"topic": "a/b", "timestamp": 7, "x": 1.5, "y": "ü"}\n'
            "\n"
            '{"timestamp": "1970-01-01T01:00:00.000008+01:00", "topic": "a/c"}'
        )
        assert output_of("ingest", db_path, file) == f"stored 2 messages in {db_path}\n"
        assert stored(db_path) == [("a/b", 7, '{"x":1.5,"y":"ü"}'.encode()), ("a/c", 8, b"{}")]

    def test_missing_timestamps_are_assigned(self, db_path: Path) -> None:
        lines = '{"topic":"a"}\n{"topic":"b","timestamp":null}\n{"topic":"c","timestamp":5}\n'
        text = output_of("ingest", db_path, "-", stdin=lines)
        assert text == (
            f"stored 3 messages in {db_path}, 2 of them with the time of their commit\n"
        )
        late = stored(db_path)[1:]
        assert [m.topic for m in late] == ["a", "b"]
        assert all(m.timestamp > T0 for m in late)

    def test_csv_template_unit_and_rest(self, db_path: Path, tmp_path: Path) -> None:
        file = tmp_path / "in.CSV"
        file.write_bytes(
            b'\xef\xbb\xbfplant,id,at,note\r\nnorth,1,1.5,"two\nlines, ""quoted"""\r\n\r\ns,2,,\r\n'
        )
        options = ["--topic", "site/{plant}/pump/{id}", "--timestamp", "at", "--time-unit", "ms"]
        output_of("ingest", db_path, file, *options)
        first, second = stored(db_path)
        assert first == ("site/north/pump/1", 1500, b'{"note":"two\\nlines, \\"quoted\\""}')
        assert (second.topic, second.value) == ("site/s/pump/2", b'{"note":""}')

    def test_value_column(self, db_path: Path) -> None:
        values = ["text", 42, None, {"a": [1]}]
        lines = json_lines({"topic": "t", "timestamp": i, "v": v} for i, v in enumerate(values))
        output_of("ingest", db_path, "-", "--value", "v", stdin=lines)
        assert [m.value for m in stored(db_path)] == [b"text", b"42", b"null", b'{"a":[1]}']

    def test_creates_with_hints(self, db_path: Path) -> None:
        lines = json_lines({"topic": f"m/h{i}/cpu"} for i in range(5))
        options = ["--shards", 3, "--structure", "m/+/cpu", "--structure", "x/+/#"]
        output_of("ingest", db_path, "-", *options, stdin=lines)
        with topicdb.open(db_path, mode="r") as database:
            assert database.schema["shards"] == 3
            assert database.schema["structures"] == ["m/+/cpu", "x/+/#"]
            assert list(database.structures()) == ["m/+/cpu"]
        assert "shards: 2 was asked for" in error_of(
            "ingest", db_path, "-", "--shards", 2, stdin=lines
        )

    @pytest.mark.parametrize("durability", ["none", "os", "disk"])
    def test_durability_and_several_batches(self, db_path: Path, durability: str) -> None:
        lines = json_lines({"topic": "t", "timestamp": i} for i in range(25))
        options = ["--durability", durability, "--batch-rows", 10]
        assert "stored 25 messages" in output_of("ingest", db_path, "-", *options, stdin=lines)
        assert [m.timestamp for m in stored(db_path)] == list(range(25))
        with topicdb.open(db_path, mode="r") as database:
            assert database.stats()["shards"][0]["serial"] == 3

    def test_a_quiet_pipe_does_not_hold_messages_back(self, db_path: Path) -> None:
        with started("ingest", db_path, "-") as process:
            assert process.stdin is not None
            process.stdin.write(b'{"topic":"t","timestamp":1}\n{"topic":"t","timestamp":2}\n')
            process.stdin.flush()
            wait_until_stored(db_path, 2)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=CHILD_TIMEOUT_S)
        assert (process.returncode, out) == (130, b"")
        assert err == b"topicdb: interrupted; 2 messages stored before it, up to line 2\n"

    def test_progress_is_for_terminals(self, db_path: Path, tmp_path: Path) -> None:
        file = tmp_path / "in.jsonl"
        file.write_text('{"topic":"t"}\n{"topic":"+"}\n' * 1000)
        screen, terminal = pty.openpty()
        arguments = [COMMAND, "ingest", str(db_path), str(file), "--on-error", "skip"]
        with subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=terminal
        ) as process:
            os.close(terminal)
            shown = read_all(screen)
            process.wait(CHILD_TIMEOUT_S)
        os.close(screen)
        assert process.returncode == 0
        assert b"1,000 messages" in shown
        assert b"skipped line 2:" in shown

    def test_python_m(self, db_path: Path) -> None:
        command = [sys.executable, "-m", "topicdb.cli", "ingest", str(db_path), "-"]
        done = subprocess.run(command, input=b'{"topic":"t"}', capture_output=True, check=True)
        assert done.stdout.startswith(b"stored 1 messages")


def wait_until_stored(path: Path, count: int) -> None:
    """Looks again until a reader finds ``count`` messages; the test's time limit ends it else."""
    while True:
        try:
            if len(stored(path)) == count:
                return
        except topicdb.Error:
            pass  # it is being created


def read_all(terminal: int) -> bytes:
    """What is written to a terminal until its other end is closed (Linux says EIO then)."""
    shown = b""
    try:
        while chunk := os.read(terminal, 65_536):
            shown += chunk
    except OSError:
        pass
    return shown


BAD_LINES = {
    "not_json": (b"{topic: 1}", "not JSON"),
    "not_an_object": (b"[1]", "not a JSON object"),
    "nested_too_deep": (b'{"topic":' + b"[" * 100_000, "not JSON"),
    "nan": (b'{"topic":"a","x":NaN}', "NaN is no JSON number"),
    "infinite": (b'{"topic":"a","x":1e999}', "Out of range float"),
    "not_utf8": (b'{"topic":"\xff"}', "not UTF-8"),
    "no_topic": (b'{"timestamp":1}', "no column 'topic'; there are: timestamp"),
    "null_topic": (b'{"topic":null}', "column 'topic' is null"),
    "object_topic": (b'{"topic":{"a":1}}', "column 'topic' is no word"),
    "wildcard_topic": (b'{"topic":"a/+"}', "'+'"),
    "empty_topic": (b'{"topic":""}', "topic"),
    "lone_surrogate": (b'{"topic":"\\ud800"}', "surrogate"),
    "naive_time": (b'{"topic":"a","timestamp":"2026-01-31T14:02:00"}', "has no time zone"),
    "negative_time": (b'{"topic":"a","timestamp":-1}', "column 'timestamp': -1 us is outside"),
    "huge_time": (b'{"topic":"a","timestamp":9223372036854775808}', "is outside"),
    "relative_time": (b'{"topic":"a","timestamp":"-24h"}', "is no time"),
    "boolean_time": (b'{"topic":"a","timestamp":true}', "expected a number or text, got true"),
    "list_time": (b'{"topic":"a","timestamp":[1]}', "expected a number or text, got [1]"),
}


class TestBadInput:
    @pytest.mark.parametrize(("line", "reason"), BAD_LINES.values(), ids=BAD_LINES)
    def test_bad_line(self, db_path: Path, line: bytes, reason: str) -> None:
        good = b'{"topic":"good","timestamp":1}\n'
        message = error_of("ingest", db_path, "-", stdin=good + line + b"\n" + good)
        assert message.startswith("line 2: ")
        assert message.endswith("; nothing stored")
        assert reason in message
        assert stored(db_path) == []

        skipped = run("ingest", db_path, "-", "--on-error", "skip", stdin=good + line + b"\n")
        assert skipped.returncode == 0
        assert skipped.stdout == f"stored 1 messages in {db_path}; skipped 1 bad lines\n"
        assert skipped.stderr.startswith("topicdb: skipped line 2: ")
        assert len(stored(db_path)) == 1

    def test_stop_says_what_is_stored(self, db_path: Path) -> None:
        lines = json_lines({"topic": "t", "timestamp": i} for i in range(25)) + "oops\n"
        message = error_of("ingest", db_path, "-", "--batch-rows", 10, stdin=lines)
        assert message.startswith("line 26: not JSON")
        assert message.endswith("; 20 messages stored before it, up to line 20")
        assert [m.timestamp for m in stored(db_path)] == list(range(20))

    def test_only_the_first_bad_lines_are_shown(self, db_path: Path) -> None:
        result = run("ingest", db_path, "-", "--on-error", "skip", stdin="oops\n" * 30)
        assert result.returncode == 0
        assert result.stdout.endswith("skipped 30 bad lines\n")
        assert result.stderr.count("\n") == 11

    def test_line_too_long(self, db_path: Path, tmp_path: Path) -> None:
        file = tmp_path / "long.jsonl"
        long = b'{"topic":"t","x":"' + b"x" * (33 << 20) + b'"}\n'
        file.write_bytes(long + b'{"topic":"t","timestamp":1}')
        assert "line 1: longer than 32 MiB" in error_of("ingest", db_path, file)
        assert run("ingest", db_path, file, "--on-error", "skip").returncode == 0
        assert len(stored(db_path)) == 1

    @pytest.mark.parametrize(
        ("text", "options", "reason"),
        [
            ("", [], "the CSV input is empty"),
            ("\n\n", [], "the CSV input is empty"),
            ("a,a\n", [], "names the column 'a' twice"),
            ("a,b\n1,2\n", [], "no column 'topic'; there are: a, b"),
            ("topic\nt\n", ["--timestamp", "at"], "no column 'at'"),
            ("topic\nt\n", ["--value", "v"], "no column 'v'"),
            ("x\nt\n", ["--topic", "a/{y}"], "no column 'y'"),
            ('"x\n', [], "in the CSV header, line 1: not CSV"),
        ],
    )
    def test_bad_csv_header(
        self, db_path: Path, text: str, options: list[str], reason: str
    ) -> None:
        message = error_of("ingest", db_path, "-", "--format", "csv", *options, stdin=text)
        assert reason in message
        assert not db_path.exists(), "nothing is created for it"

    @pytest.mark.parametrize(
        ("row", "reason"),
        [
            (b"a", "line 3: 1 cells, but the header has 2"),
            (b"a,1,2", "line 3: 3 cells, but the header has 2"),
            (b'"a"b,1', "line 3: not CSV"),
            (b"\xff,1", "line 3: not UTF-8"),
            (b"a/#,1", "line 3: topic 'a/#'"),
            (b"a,soon", "line 3: column 'timestamp': 'soon' is no time"),
        ],
    )
    def test_bad_csv_row(self, db_path: Path, row: bytes, reason: str) -> None:
        text = b"topic,timestamp\ngood,1\n" + row + b"\nafter,2\n"
        options = ["--format", "csv"]
        assert reason in error_of("ingest", db_path, "-", *options, stdin=text)
        assert stored(db_path) == []
        assert run("ingest", db_path, "-", *options, "--on-error", "skip", stdin=text).stdout
        assert [m.topic for m in stored(db_path)] == ["good", "after"]

    def test_a_quote_that_never_ends(self, db_path: Path) -> None:
        text = 'topic,x\na,1\nb,"2\nc,3\n'
        assert "line 3: not CSV" in error_of("ingest", db_path, "-", "--format", "csv", stdin=text)

    def test_bad_base64(self, db_path: Path) -> None:
        line = '{"topic":"t","value":"***","encoding":"base64"}'
        options = ["--value", "value", "--encoding", "encoding"]
        assert "line 1: column 'value': not base64" in error_of(
            "ingest", db_path, "-", *options, stdin=line
        )

    def test_no_such_file(self, db_path: Path, tmp_path: Path) -> None:
        missing = tmp_path / "no.csv"
        message = error_of("ingest", db_path, missing)
        assert message == f"No such file or directory: {missing}"
        assert not db_path.exists()

    @pytest.mark.parametrize(
        "options",
        [
            ["data.txt"],
            ["-", "--encoding", "e"],
            ["-", "--topic", "a/{b"],
            ["-", "--topic", "a/{}"],
            ["-", "--topic", ""],
            ["-", "--batch-rows", "0"],
            ["-", "--durability", "max"],
            ["-", "--time-unit", "h"],
        ],
    )
    def test_wrong_usage(self, db_path: Path, options: list[str]) -> None:
        result = run("ingest", db_path, *options)
        assert (result.returncode, result.stdout) == (2, "")
        assert "Usage: topicdb ingest" in result.stderr
        assert "Traceback" not in result.stderr
        assert not db_path.exists()


class TestScan:
    def test_human(self, filled: Path) -> None:
        assert output_of("scan", filled, "metrics/#", "--order", "time").splitlines() == [
            "2023-11-14T22:13:20.000000Z  metrics/h1/cpu  42",
            '2023-11-14T22:13:20.000001Z  metrics/h1/mem  {"free": "½"}',
            "2023-11-14T22:13:20.000002Z  metrics/h2/cpu  0xff00",
        ]

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
        lines = output_of("scan", filled, *options, "--json", "--order", "time").splitlines()
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
            assert process.stdout.readline()  # it writes now, and the pipe will be full
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
            ["--json", "--to", "x.parquet"],
            ["--to", "x.csv"],
            ["--limit", "0"],
            ["--order", "topic"],
            ["a", "b"],
        ],
    )
    def test_wrong_usage(self, filled: Path, options: list[str]) -> None:
        result = run("scan", filled, *options)
        assert (result.returncode, result.stdout) == (2, "")
        assert "Usage: topicdb scan" in result.stderr


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More messages than fit in a pipe."""
    path = tmp_path_factory.mktemp("cli") / "many.db"
    with topicdb.open(path) as database:
        database.append([("t", i, b"x" * 100) for i in range(100_000)])
    return path


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

    def test_info(self, site: Path) -> None:
        text = output_of("info", site)
        facts = dict(line.split("  ", 1) for line in text.split("\n\n")[0].splitlines())
        facts = {name: value.strip() for name, value in facts.items()}
        assert facts["shards"] == "2"
        assert facts["layout"] == "skipstream"
        assert facts["retention"] == "old/#: 7d"
        assert facts["structures"] == "metrics/+/cpu/+"
        assert facts["messages"] == "22"
        assert facts["slabs"] == "6"
        assert facts["first message"] == "1970-01-01T00:00:00.000000Z"
        assert facts["last message"] == "1970-01-01T00:00:00.000019Z"
        slabs = [line.split() for line in text.split("\n\n")[1].splitlines()[1:]]
        assert sorted(row[:4] for row in slabs) == sorted(
            [shard, *rest]
            for shard in "01"
            for rest in (
                ["#", "1", "current"],
                ["old/#", "1", "read-only"],
                ["old/#", "2", "current"],
            )
        )
        assert sum(int(row[4]) for row in slabs) == 22

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
        message = error_of("ingest", db.path, "-", stdin='{"topic":"t"}', code=3)
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
    @pytest.mark.parametrize("time", ["2026-01-31T14:02:00", "yesterday", "-5", "9" * 20])
    def test_bad_time(self, filled: Path, option: str, time: str) -> None:
        assert error_of("scan", filled, option, time).startswith(option.removeprefix("--"))

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

    def test_without_the_extra(self, tmp_path: Path) -> None:
        """In an interpreter that sees only the standard library, NumPy and TopicDB."""
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


class TestMapping:
    """What would be slow to try with a run for each case."""

    @pytest.mark.parametrize(
        ("value", "unit", "expected"),
        [
            (1, "s", 1_000_000),
            (1.5, "ms", 1_500),
            ("1700000000.123456", "s", 1_700_000_000_123_456),
            (1_700_000_000.123456, "s", 1_700_000_000_123_456),
            (1999, "ns", 1),
            (" 7 ", "us", 7),
            (2**63 - 1, "us", 2**63 - 1),
            ("2026-01-31T14:02:00Z", "s", 1_769_868_120_000_000),
            ("2026-01-31T14:02:00.5+01:00", "ns", 1_769_864_520_500_000),
            ("", "us", None),
            (None, "us", None),
        ],
    )
    def test_timestamp(self, value: object, unit: str, expected: int | None) -> None:
        from topicdb.cli.mapping import TimeUnit, timestamp_us

        assert timestamp_us(value, TimeUnit(unit), "at") == expected

    @pytest.mark.parametrize(
        ("template", "expected"),
        [
            ("name", "n"),
            ("{name}", "n"),
            ("a/{name}/{id}", "a/n/7"),
            ("a/b", "a/b"),
            ("{{x}}/{flag}/{ratio}", "{x}/true/1.0"),
            ("{a/b}", "slash"),
            ("/{name}/", "/n/"),
        ],
    )
    def test_template(self, template: str, expected: str) -> None:
        from topicdb.cli.mapping import TopicTemplate

        fields = {"name": "n", "id": 7, "flag": True, "ratio": 1.0, "a/b": "slash"}
        assert TopicTemplate(template)(fields) == expected

    @pytest.mark.parametrize("template", ["", "{", "}", "a/{}", "a/{b", "a/b}", "{a{b}"])
    def test_bad_template(self, template: str) -> None:
        from topicdb.cli.mapping import TopicTemplate

        with pytest.raises(ValueError, match="template|belongs to no"):
            TopicTemplate(template)
