"""Tests of what the command line says to mistyped commands, options, filters, times and paths."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cli_runs import COMMAND, error_of, run_here, usage_error

import topicdb

pytest.importorskip("typer", reason="needs topicdb[cli]")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with topicdb.open(tmp_path / "fleet.db") as db:
        db.append([("site/1/pump", 1, b"900")])
    return tmp_path / "fleet.db"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["scna"], "there is no command 'scna'; did you mean 'scan'?"),
        (["fsck"], "there is no command 'fsck'; did you mean 'verify'?"),
        (["nonsense"], "there is no command 'nonsense' of topicdb; it has: bridge,"),
        (["replay", "rnu"], "there is no command 'rnu'; did you mean 'run'?"),
        (["--debgu"], "there is no option '--debgu' of topicdb; did you mean '--debug'?"),
        (
            ["scan", "x", "--strat", "1"],
            "no option '--strat' of topicdb scan; did you mean '--start",
        ),
        (["scan", "x", "--since", "1"], "'--since' of topicdb scan; did you mean '--start'?"),
        (["quota", "x", "--tls-root-certs", "1"], "did you mean '--ca'?"),
        (["scan", "x", "--quux"], "no option '--quux' of topicdb scan; --help lists those that"),
        (["scan", "x", "--order", "Tiem"], "'Tiem' is not one of stream, time, none; did you mean"),
        (["scan", "x", "--limit", "ten"], "'--limit': expected a whole number, such as 10"),
        (["scan", "x", "a", "b"], "'b' is one argument too many"),
        (["scan", "x", "a", "a/b"], "put a topic filter in quotes: 'site/+/pump'"),
        (["scan", "x", "--start", "yesterday", "14:02"], "in quotes: 'yesterday 14:02'"),
        (["scan", "x", "a", "--start", "today", "14:02"], "in quotes: 'yesterday 14:02'"),
        (["scan"], "Missing argument 'PATH|URL'"),
        (["import", "grpc://plant", "x"], "this command needs a directory: it prepares"),
    ],
)
def test_usage(words: list[str], told: str) -> None:
    assert told in usage_error(*words)


def test_a_path_without_a_database(path: Path, tmp_path: Path) -> None:
    told = error_of("scan", tmp_path / "flet.db")
    assert told == f"there is no database at {tmp_path / 'flet.db'}; did you mean {path}?"
    assert f"but there are some in it: {path}" in error_of("info", tmp_path)
    assert f"beside it there are: {path}" in error_of("rotate", tmp_path / "other")
    none = tmp_path / "no" / "x.db"
    assert error_of("last", none) == f"there is no database at {none}"


def test_a_bad_filter(path: Path) -> None:
    assert "a wildcard must be a whole level" in error_of("scan", path, "site#")


def test_options_for_a_server(path: Path) -> None:
    told = error_of("scan", path, "--token", "x")
    assert (
        told == f"--token, --token-file and --ca are for the URL of a server, and {path} is a "
        "directory"
    )
    url = "grpc://127.0.0.1:1"
    assert "nobody listens there" in error_of("scan", url)
    assert error_of("scan", "http://x").startswith("expected grpc+tls://host:port or grpc://host")
    assert "not both" in error_of("scan", url, "--token", "x", "--token-file", path / "TOPICDB")
    assert "give the URL of the server" in error_of("quota", path)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["import", "URL", "x.parquet"], "send JSON lines or CSV to the server with topicdb"),
        (["restore", "from", "URL"], "on the machine where the database is to be"),
        (["repair", "URL"], "end the server, and run the command on its machine"),
        (["drop", "URL"], "topicdb delete removes messages at a server, too"),
        (["serve", "URL"], "run it on the machine of the database"),
    ],
)
def test_a_command_that_needs_a_directory_says_why(words: list[str], meant: str) -> None:
    url = "grpc://127.0.0.1:1"
    told = usage_error(*(url if word == "URL" else word for word in words))
    assert f"{url} is the URL of a server, and this command needs a directory:" in told
    assert meant in told


def test_every_help_text_is_a_sentence() -> None:
    for words, command in _commands():
        for one in command.params:
            text = one.help or ""
            first = text[:1]
            is_sentence = first.isupper() and text.endswith(".") and len(text.split()) > 2
            assert is_sentence, f"{' '.join(words)} {one.name}: {text!r}"


def test_one_name_means_one_thing() -> None:
    """Options of one name take values of one kind, and there are no two names for one thing."""
    kinds: dict[str, set[str]] = {}
    for _, command in _commands():
        for one in command.params:
            for name in one.opts:
                kinds.setdefault(name, set()).add(
                    "flag" if getattr(one, "is_flag", False) else str(one.metavar)
                )
    for name in ("--ca", "--tz", "--token", "--token-file", "--filter", "--limit", "--json"):
        assert len(kinds[name] - {"None"}) == 1, name
    for old in ("--older-than", "--name", "--rows", "--time-unit", "--trim", "--trim-share"):
        assert old not in kinds


def test_every_command_has_json() -> None:
    for words, command in _commands():
        assert any("--json" in one.opts for one in command.params), words


def _commands() -> list[tuple[list[str], Any]]:
    import typer

    from topicdb.cli.app import app

    group: Any = typer.main.get_command(app)
    found = []
    for words in _leaves(group, []):
        command = group
        for word in words:
            command = command.commands[word]
        found.append((words, command))
    return found


def test_every_command_has_a_sentence_and_an_example() -> None:
    from topicdb.cli.app import app

    def commands(typer_app: object, words: list[str]) -> list[list[str]]:
        import typer

        group = typer.main.get_command(typer_app)  # type: ignore[arg-type]
        return _leaves(group, words)

    for words in commands(app, []):
        result = run_here(*words, "--help")
        assert result.returncode == 0
        if words not in _WITHOUT_EXAMPLE:
            assert f"topicdb {' '.join(words)} " in result.stdout.replace("\n", " "), words
            assert "Example:" in result.stdout, words


_WITHOUT_EXAMPLE: list[list[str]] = []


def _leaves(command: object, words: list[str]) -> list[list[str]]:
    below = getattr(command, "commands", None)
    if below is None:
        return [words]
    return [leaf for name, one in below.items() for leaf in _leaves(one, [*words, name])]


def test_help_fills_the_width() -> None:
    lines = [line.rstrip() for line in run_here("tail", "--help").stdout.splitlines()]
    start = next(i for i, line in enumerate(lines) if "The newest messages are" in line)
    end = lines.index("", start)
    assert " ".join(" ".join(lines[start:end]).split()).endswith("the exit code is 130.")
    assert all(len(line) > 60 for line in lines[start : end - 1])


def test_shells_complete_commands_and_options() -> None:
    def completed(words: str) -> list[str]:
        environment = {
            **os.environ,
            "_TOPICDB_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        }
        done = subprocess.run([COMMAND], env=environment, capture_output=True, text=True)
        return done.stdout.split()

    assert completed("topicdb ta") == ["tail"]
    assert "seek" in completed("topicdb consumers se")
    assert "--start" in completed("topicdb scan --st")
