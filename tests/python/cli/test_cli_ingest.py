"""Tests of ``topicdb ingest``: columns, times, templates, batches, and all kinds of bad lines."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli_runs import IMPATIENT, error_of, json_lines, output_of, run_here, started, stored
from served import serving
from support import CHILD_TIMEOUT_S

import topicdb
from topicdb.remote.server import tokens

pytest.importorskip("typer", reason="needs topicdb[cli]")

T0 = 1_700_000_000_000_000  # 2023-11-14T22:13:20Z


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
        options = [
            "--topic",
            "site/{plant}/pump/{id}",
            "--timestamp",
            "at",
            "--timestamp-unit",
            "ms",
        ]
        output_of("ingest", db_path, file, *options)
        first, second = stored(db_path)
        assert first == ("site/north/pump/1", 1500, b'{"note":"two\\nlines, \\"quoted\\""}')
        assert (second.topic, second.value) == ("site/s/pump/2", b'{"note":""}')

    def test_numbers_in_csv_are_numbers(self, db_path: Path, tmp_path: Path) -> None:
        cells = [
            "21.50",
            "-3",
            "1e5",
            "0",
            "007",
            "+1",
            "1.",
            ".5",
            "NaN",
            "true",
            "",
            "9" * 19,
            "٣",
        ]
        names = [f"c{n}" for n in range(len(cells))]
        file = tmp_path / "in.csv"
        file.write_text(",".join(["t", *names]) + "\n" + ",".join(["a/1.50", *cells]) + "\n")
        output_of("ingest", db_path, file, "--topic", "t")
        (message,) = stored(db_path)
        assert message.topic == "a/1.50"
        assert message.value.startswith(b'{"c0":21.50,"c1":-3,"c2":1e5,"c3":0,"c4":"007",')
        assert list(json.loads(message.value).values()) == [21.5, -3, 1e5, 0, *cells[4:]]
        output_of("ingest", db_path, file, "--topic", "t", "--all-text", "--repeat")
        assert list(json.loads(stored(db_path)[1].value).values()) == cells

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
        arguments = [*IMPATIENT, "ingest", str(db_path), str(file), "--on-error", "skip"]
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
    """Waits until a reader finds ``count`` messages; only the test's time limit ends the wait."""
    while True:
        try:
            if len(stored(path)) == count:
                return
        except topicdb.Error:
            pass  # the command is still creating the database


def read_all(terminal: int) -> bytes:
    """Returns what is written to a terminal until its other end is closed (Linux says EIO then)."""
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
    "own_topic": (b'{"topic":"$topicdb/x"}', "TopicDB's own"),
    "empty_topic": (b'{"topic":""}', "topic"),
    "lone_surrogate": (b'{"topic":"\\ud800"}', "surrogate"),
    "seconds_time": (b'{"topic":"a","timestamp":1700000000}', "these are seconds, write"),
    "naive_time": (b'{"topic":"a","timestamp":"2026-01-31T14:02:00"}', "has no time zone"),
    "negative_time": (b'{"topic":"a","timestamp":-1}', "column 'timestamp': -1 us is outside"),
    "huge_time": (b'{"topic":"a","timestamp":9223372036854775808}', "is outside"),
    "infinite_time": (b'{"topic":"a","timestamp":1e400}', "a number that large is no time"),
    "relative_time": (b'{"topic":"a","timestamp":"-24h"}', "is no time"),
    "boolean_time": (b'{"topic":"a","timestamp":true}', "expected a number or text, got true"),
    "list_time": (b'{"topic":"a","timestamp":[1]}', "expected a number or text, got [1]"),
}


def test_times_without_a_zone(db_path: Path) -> None:
    lines = json_lines([{"topic": "a", "timestamp": "2026-01-31T14:02:00"}])
    for zone, moment in (("Europe/Berlin", "13:02:00"), ("UTC", "14:02:00")):
        output_of("ingest", db_path, "-", "--tz", zone, stdin=lines)
        found = output_of("scan", db_path, "--start", f"2026-01-31T{moment}Z")
        assert found.startswith(f"2026-01-31T{moment}.000000Z")
    within = ["--start", "2026-01-31T14:02", "--end", "2026-01-31 14:02:01"]
    assert output_of("scan", db_path, *within, "--tz", "Europe/Berlin").startswith(
        "2026-01-31T14:02:00.000000+01:00"
    )
    assert output_of("last", db_path, "--at", "2026-01-31T14:02", "--tz", "UTC")
    assert "say with --tz which it is in" in error_of("ingest", db_path, "-", stdin=lines)
    assert "no time zone 'Berlin'" in error_of("scan", db_path, *within, "--tz", "Berlin")
    assert "no time zone 'x'" in error_of("ingest", db_path, "-", "--tz", "x", stdin=lines)


def test_seconds_are_asked_for(db_path: Path) -> None:
    lines = json_lines([{"topic": "a", "timestamp": 1_700_000_000}])
    assert "--timestamp-unit" in error_of("ingest", db_path, "-", stdin=lines)
    output_of("ingest", db_path, "-", "--timestamp-unit", "s", stdin=lines)
    output_of("ingest", db_path, "-", "--timestamp-unit", "us", stdin=lines)
    times = [message.timestamp for message in stored(db_path)]
    assert times == [1_700_000_000, 1_700_000_000_000_000]


class TestTwice:
    """An ingest of a file leaves out what is stored of it already."""

    @staticmethod
    def lines(count: int, changed: int | None = None) -> str:
        return json_lines(
            {"topic": f"t/{i % 3}", "timestamp": T0 + i, "v": "new" if i == changed else i}
            for i in range(count)
        )

    def test_the_same_file(self, db_path: Path, tmp_path: Path) -> None:
        file = tmp_path / "in.jsonl"
        file.write_text(self.lines(25))
        assert output_of("ingest", db_path, file) == f"stored 25 messages in {db_path}\n"
        again = tmp_path / "renamed.json"
        file.rename(again)
        told = output_of("ingest", db_path, again, "--batch-rows", 10)
        assert told == (
            f"{db_path} has the 25 messages of {again} already: nothing was stored "
            "(--repeat stores them again)\n"
        )
        assert len(stored(db_path)) == 25
        assert "stored 25 messages" in output_of("ingest", db_path, again, "--repeat")
        assert len(stored(db_path)) == 50

    def test_messages_without_a_time(self, db_path: Path, tmp_path: Path) -> None:
        file = tmp_path / "in.csv"
        file.write_text("topic,v\na,1\na,1\n")
        output_of("ingest", db_path, file)
        assert "nothing was stored" in output_of("ingest", db_path, file)
        assert len(stored(db_path)) == 2

    @pytest.mark.parametrize("options", [[], ["--shards", 3]], ids=["one shard", "three shards"])
    def test_a_file_that_has_grown(
        self, db_path: Path, tmp_path: Path, options: list[object]
    ) -> None:
        file = tmp_path / "in.jsonl"
        for count, batch_rows in ((25, 10), (38, 10), (60, 7), (61, 100)):
            file.write_text(self.lines(count))
            output_of("ingest", db_path, file, "--batch-rows", batch_rows, *options)
            assert [m.timestamp for m in stored(db_path)] == [T0 + i for i in range(count)]
        told = output_of("ingest", db_path, file)
        assert "has the 61 messages" in told

    def test_a_file_that_was_corrected(self, db_path: Path, tmp_path: Path) -> None:
        file = tmp_path / "in.jsonl"
        lines = self.lines(30).splitlines(keepends=True)
        file.write_text("".join([*lines[:25], "bad\n", *lines[26:]]))
        error = error_of("ingest", db_path, file, "--batch-rows", 10)
        assert "20 messages stored before it, up to line 20" in error
        again = error_of("ingest", db_path, file, "--batch-rows", 10)
        assert "0 messages stored before it, 20 were there already, up to line 20" in again
        file.write_text("".join(lines))
        told = output_of("ingest", db_path, file, "--batch-rows", 10)
        assert "stored 10 messages" in told
        assert f"20 others of {file} were there already" in told
        assert len(stored(db_path)) == 30

    def test_files_that_begin_in_the_same_way(self, db_path: Path, tmp_path: Path) -> None:
        one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
        one.write_text(self.lines(5))
        two.write_text(self.lines(25, changed=3))
        output_of("ingest", db_path, one, "--batch-rows", 10)
        assert "stored 25 messages" in output_of("ingest", db_path, two, "--batch-rows", 10)
        for file, count in ((one, 5), (two, 25)):
            assert f"has the {count} messages" in output_of("ingest", db_path, file)
        assert len(stored(db_path)) == 30

    def test_a_pipe_may_say_the_same_again(self, db_path: Path) -> None:
        for count in (1, 2):
            output_of("ingest", db_path, "-", stdin='{"topic":"door","v":"open"}')
            assert len(stored(db_path)) == count

    def test_skipstream_is_written_again(self, db_path: Path, tmp_path: Path) -> None:
        """Skipstream keeps one message per topic and time, so the file brings back its state."""
        topicdb.open(db_path, layout="skipstream").close()
        file = tmp_path / "in.jsonl"
        file.write_text(self.lines(3))
        output_of("ingest", db_path, file)
        with topicdb.open(db_path) as db:
            db.append([("t/0", T0, b"other")])
        assert "stored 3 messages" in output_of("ingest", db_path, file)
        assert len(stored(db_path)) == 3
        assert b"other" not in [message.value for message in stored(db_path)]


class TestBadInput:
    @pytest.mark.parametrize(("line", "reason"), BAD_LINES.values(), ids=BAD_LINES)
    def test_bad_line(self, db_path: Path, line: bytes, reason: str) -> None:
        good = b'{"topic":"good","timestamp":1}\n'
        message = error_of("ingest", db_path, "-", stdin=good + line + b"\n" + good)
        assert message.startswith("line 2: ")
        assert message.endswith("; nothing stored")
        assert reason in message
        assert stored(db_path) == []

        skipped = run_here("ingest", db_path, "-", "--on-error", "skip", stdin=good + line + b"\n")
        assert skipped.returncode == 0
        assert skipped.stdout == f"stored 1 messages in {db_path}; skipped 1 bad lines\n"
        assert skipped.stderr.startswith("topicdb: skipped line 2: ")
        assert len(stored(db_path)) == 1

    def test_a_time_where_there_are_none(self, db_path: Path) -> None:
        topicdb.open(db_path, layout="skipstream", timestamp_bytes=0).close()
        lines = json_lines({"topic": f"t/{i}", "timestamp": T0 * (i == 12)} for i in range(15))
        message = error_of("ingest", db_path, "-", "--batch-rows", 10, stdin=lines)
        assert message.startswith(f"line 13: timestamp {T0}: a database with timestamp_bytes=0")
        assert message.endswith("; 10 messages stored before it, up to line 10")
        skipped = run_here("ingest", db_path, "-", "--on-error", "skip", stdin=lines)
        assert skipped.stdout == f"stored 14 messages in {db_path}; skipped 1 bad lines\n"

    def test_stop_says_what_is_stored(self, db_path: Path) -> None:
        lines = json_lines({"topic": "t", "timestamp": i} for i in range(25)) + "oops\n"
        message = error_of("ingest", db_path, "-", "--batch-rows", 10, stdin=lines)
        assert message.startswith("line 26: not JSON")
        assert message.endswith("; 20 messages stored before it, up to line 20")
        assert [m.timestamp for m in stored(db_path)] == list(range(20))

    def test_only_the_first_bad_lines_are_shown(self, db_path: Path) -> None:
        result = run_here("ingest", db_path, "-", "--on-error", "skip", stdin="oops\n" * 30)
        assert result.returncode == 0
        assert result.stdout.endswith("skipped 30 bad lines\n")
        assert result.stderr.count("\n") == 11

    def test_line_too_long(self, db_path: Path, tmp_path: Path) -> None:
        file = tmp_path / "long.jsonl"
        long = b'{"topic":"t","x":"' + b"x" * (33 << 20) + b'"}\n'
        file.write_bytes(long + b'{"topic":"t","timestamp":1}')
        assert "line 1: longer than 32 MiB" in error_of("ingest", db_path, file)
        assert run_here("ingest", db_path, file, "--on-error", "skip").returncode == 0
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
        assert run_here("ingest", db_path, "-", *options, "--on-error", "skip", stdin=text).stdout
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
            ["-", "--timestamp-unit", "h"],
        ],
    )
    def test_wrong_usage(self, db_path: Path, options: list[str]) -> None:
        result = run_here("ingest", db_path, *options)
        assert (result.returncode, result.stdout) == (2, "")
        assert "Usage: topicdb ingest" in result.stderr
        assert "Traceback" not in result.stderr
        assert not db_path.exists()


class TestMapping:
    """Tests of the mapping itself: a run of the command for each case would be slow."""

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
        from topicdb.cli.ingest.mapping import TimeUnit, timestamp_us

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
        from topicdb.cli.ingest.mapping import TopicTemplate

        fields = {"name": "n", "id": 7, "flag": True, "ratio": 1.0, "a/b": "slash"}
        assert TopicTemplate(template)(fields) == expected

    @pytest.mark.parametrize("template", ["", "{", "}", "a/{}", "a/{b", "a/b}", "{a{b}"])
    def test_bad_template(self, template: str) -> None:
        from topicdb.cli.ingest.mapping import TopicTemplate

        with pytest.raises(ValueError, match=r"template|belongs to no"):
            TopicTemplate(template)


class TestAtAServer:
    def test_a_file_is_stored_once(self, db_path: Path, tmp_path: Path) -> None:
        file = tmp_path / "in.jsonl"
        file.write_text(json_lines({"topic": f"a/{i}", "timestamp": i} for i in range(25)))
        with topicdb.open(db_path) as db, serving(db) as server:
            words = ["ingest", server.url, file, "--batch-rows", "10"]
            assert output_of(*words) == f"stored 25 messages in {server.url}\n"
            assert "has the 25 messages of" in output_of(*words)
            assert [message.timestamp for message in db.scan(order="time")] == list(range(25))

    def test_a_token_that_may_write(self, db_path: Path, tmp_path: Path) -> None:
        file = tmp_path / "in.jsonl"
        lines = json_lines({"topic": f"a/{i}", "timestamp": i} for i in range(3))
        file.write_text(lines)
        writes = tokens.add(tmp_path / "tokens.json", {"name": "writes", "write": ["a/#"]})
        given = tmp_path / "token"
        given.write_text(writes)
        with topicdb.open(db_path) as db, serving(db, tokens=tmp_path / "tokens.json") as server:
            assert "a token is needed" in error_of("ingest", server.url, file)
            words = ["ingest", server.url, "-", "--token-file", given]
            assert run_here(*words, stdin=lines).returncode == 0
            assert "may not write" in error_of(*words, stdin='{"topic": "b"}')
            words[2] = file
            assert "--repeat stores all messages without asking" in error_of(*words)
            assert run_here(*words, "--repeat").returncode == 0
            assert db.scan().count() == 6

    def test_what_a_new_database_would_have(self, db_path: Path) -> None:
        with topicdb.open(db_path) as db, serving(db) as server:
            words = ["ingest", server.url, "-", "--shards", "2", "--structure", "a/#"]
            told = error_of(*words, stdin='{"topic": "a"}')
            assert told.startswith(f"{server.url} is a server, which has its database already:")
            assert "leave out --shards and --structure" in told
            told = error_of("ingest", server.url, "-", "--key", "k", stdin='{"topic": "a"}')
            assert "shards by topic" in told
            assert db.scan().count() == 0
