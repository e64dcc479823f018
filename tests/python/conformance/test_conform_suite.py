"""The suite itself: it knows the whole contract, and its command says what came of it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conforming import ROOT

import topicdb.conformance
from examples.memory_engine import open_journal, open_memory
from examples.memory_engine.engine import MemoryEngine
from topicdb import engine as contract
from topicdb.conformance import BrokenPromiseError, NotCheckedError, Subject, promises, run
from topicdb.conformance.calls import CALLS
from topicdb.conformance.subject import environment
from topicdb.engine import AppendQueue, Engine
from topicdb.engines import FEATURES, AppendThread, EngineBase, refuse_given, stats_of
from topicdb.engines.base import METHODS
from topicdb.results import QuotaState

PROMISES = Path(topicdb.conformance.__file__).parent / "promises"
PROTOCOLS = (
    contract.Engine,
    contract.ScanCursor,
    contract.TailCursor,
    contract.StreamCursor,
    contract.SubscriptionCursor,
    contract.TransactionEngine,
    contract.AppendQueue,
)


def members(protocol: type) -> set[str]:
    """Returns the public methods and properties that a protocol declares."""
    return {name for name in vars(protocol) if not name.startswith("_")}


def attributes_used(files: Iterable[Path]) -> Iterator[str]:
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                yield node.attr


class TestTheContractIsKnown:
    def test_features_are_of_methods_that_there_are(self) -> None:
        named = [method for methods in FEATURES.values() for method in methods]
        assert set(named) <= METHODS
        assert len(named) == len(set(named))

    def test_every_method_has_a_call(self) -> None:
        assert set(CALLS) == METHODS - {"close"}

    def test_a_promise_uses_every_member(self) -> None:
        """``conformance/promises`` has to grow with the contract."""
        used = set(attributes_used([*PROMISES.rglob("*.py"), PROMISES.parent / "lab.py"]))
        missing = {
            f"{protocol.__name__}.{name}"
            for protocol in PROTOCOLS
            for name in members(protocol) - used
        }
        assert not missing, "no promise is about these"

    def test_every_feature_is_needed_by_a_promise(self) -> None:
        needed = {feature for promise in promises() for feature in promise.needs}
        code = "".join(file.read_text() for file in PROMISES.rglob("*.py"))
        asked = re.findall(r'has\("(\w+)"\)', code)
        assert set(FEATURES) == needed | set(asked)

    def test_the_page_documents_every_member(self) -> None:
        page = (ROOT / "docs" / "internals" / "engines.md").read_text(encoding="utf-8")
        documented = set(re.findall(r"`(\w+)(?:\([^`]*\))?`", page))
        missing = {
            f"{protocol.__name__}.{name}"
            for protocol in PROTOCOLS
            for name in members(protocol) - documented
        }
        assert not missing, "docs/internals/engines.md says nothing of these"
        table = set(re.findall(r"^\| `(\w+)` \| (?:`|\u2013)", page, re.MULTILINE))
        assert set(FEATURES) <= table

    def test_promises_say_something(self) -> None:
        for promise in promises():
            assert promise.text.endswith((".", ").")), promise.name
        assert len({promise.name for promise in promises()}) == len(promises()) > 90


class TestAnEngineThatLacksAlmostAll:
    class Bare(EngineBase):
        path = "bare"
        closed = False

    def test_what_it_lacks_raises_by_name(self) -> None:
        bare: Any = self.Bare()
        with pytest.raises(NotImplementedError, match=r"Bare has no begin\(\): it lacks 'transact"):
            bare.begin(0, None, None)
        with pytest.raises(NotImplementedError, match="every engine needs it"):
            bare.append_rows([], None)
        with pytest.raises(AttributeError, match="no_such_method"):
            bare.no_such_method  # noqa: B018
        assert bare.lacks == set(FEATURES) - {"summaries"}, "EngineBase makes these of scans"

    def test_without_given_it_refuses_iterators(self, tmp_path: Path) -> None:
        class Forgets(MemoryEngine):
            takes_given = False

            def tail(self, filters: Any, after: Any, until: Any, given: Any = (), /) -> Any:
                refuse_given(given)
                return super().tail(filters, after, until)

            def subscribe(self, *arguments: Any) -> Any:
                refuse_given(arguments[7] if len(arguments) > 7 else ())
                return super().subscribe(*arguments[:7])

        name = "basics.refuses_iterators_without_going_behind_them"
        (promise,) = [one for one in promises() if one.name == name]
        promise.check(Subject("forgets", lambda path: Forgets(path, 1)), tmp_path)
        assert Forgets("here", 1).lacks == MemoryEngine("here", 1).lacks | {"given"}

    def test_what_every_engine_has_is_there(self) -> None:
        class Small(EngineBase):
            path, closed = "small", False

            def stats(self) -> dict[str, Any]:
                return stats_of([{"shard": 0, "serial": 0, "disk_bytes": 7}], {1: "lost"})

        small: Any = Small()
        assert small.missing_shards("#") == {} and small.partial() is small
        assert small.quota() == QuotaState(0, 0.0, 7)
        assert small.stats()["missing_shards"] == {1: "lost"}
        with pytest.raises(topicdb.TopicError):
            small.missing_shards("a/#/b")
        small.closed = True
        for call in (lambda: small.missing_shards("#"), small.refresh, small.subscription_stats):
            with pytest.raises(topicdb.ClosedError, match="small is closed"):
                call()


class TestOver:
    def test_what_is_no_engine_is_refused(self) -> None:
        bad: Any = object()
        with pytest.raises(TypeError, match=r"object has no path, schema, closed, .*append_rows"):
            topicdb.Database.over(bad)

    def test_an_engine_can_be_wrapped(self, tmp_path: Path) -> None:
        """An engine that counts scans and passes on everything, put over another database's."""

        class Counting:
            def __init__(self, inner: Any) -> None:
                self.inner, self.scans = inner, 0

            def __getattr__(self, name: str) -> Any:
                return getattr(self.inner, name)

            def scan(self, *arguments: Any) -> Any:
                self.scans += 1
                return self.inner.scan(*arguments)

        with topicdb.open(tmp_path / "db") as db:
            counting: Any = Counting(db.engine)
            over = topicdb.Database.over(counting)
            over.append([("a", 1, b"x")])
            assert len(over.scan("a").to_list()) == 1 and counting.scans == 1
            assert over.engine is counting

    def test_a_program_that_ends_stores_what_is_queued(self, tmp_path: Path) -> None:
        code = (
            "import sys, topicdb\n"
            "from examples.memory_engine import open_journal\n"
            "db = topicdb.Database.over(open_journal(sys.argv[1]))\n"
            "for n in range(500): db.append_async([('a', n, b'x')])\n"
        )
        path = str(tmp_path / "journal")
        command = [sys.executable, "-c", code, path]
        done = subprocess.run(command, capture_output=True, text=True, env=environment())
        assert (done.returncode, done.stderr) == (0, "")
        with topicdb.Database.over(open_journal(path)) as db:
            assert db.scan("a").count() == 500


class TestTheCommand:
    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "topicdb.conformance", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, env=environment(), timeout=600
        )

    def test_it_says_what_was_kept(self) -> None:
        done = self.run("examples.memory_engine:open_memory", "-k", "basics")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "ok     basics.has_every_method: An engine has every method" in done.stdout
        assert "0 broken" in done.stdout.splitlines()[-1]

    def test_it_says_what_is_broken(self, tmp_path: Path) -> None:
        (tmp_path / "broken_engine.py").write_text(
            "from examples.memory_engine.engine import MemoryEngine\n"
            "class Broken(MemoryEngine):\n"
            "    def refresh(self): raise KeyError('mine')\n"
            "def open_engine(path): return Broken(path, 1)\n"
        )
        sys.path.insert(0, str(tmp_path))
        try:
            done = self.run("broken_engine:open_engine", "-k", "basics", "--quiet")
        finally:
            sys.path.remove(str(tmp_path))
        assert done.returncode == 1
        assert done.stdout.startswith("BROKEN basics.refresh_and_flush_change_nothing")
        assert "KeyError: 'mine'" in done.stdout and "in refresh" in done.stdout
        assert "1 broken" in done.stdout.splitlines()[-1]

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (("no_module",), "expected module:name"),
            (("no_such_module:open",), "No module named"),
            (("examples.memory_engine:nothing",), "has no nothing"),
            (("examples.memory_engine:SHARDS",), "expected a function"),
            (("examples.memory_engine:open_memory", "-k", "zzz"), "no promise has 'zzz'"),
        ],
    )
    def test_what_it_cannot_run(self, arguments: tuple[str, ...], says: str) -> None:
        done = self.run(*arguments)
        assert done.returncode == 2 and says in done.stderr, done

    def test_it_lists_promises(self) -> None:
        done = self.run("any:thing", "--list", "-k", "deleting")
        lines = done.stdout.splitlines()
        assert lines == [f"{p.name}: {p.text}" for p in promises() if "deleting" in p.name]


class TestSubjects:
    def test_a_function_is_found_by_another_process(self) -> None:
        assert Subject("one", open_memory).reference == "examples.memory_engine:open_memory"
        assert Subject("two", lambda path: open_memory(path)).reference is None
        assert Subject.named("examples.memory_engine:open_memory").open is open_memory

    def test_the_queue_of_the_subject_is_checked(self, tmp_path: Path) -> None:
        made: list[Engine] = []

        def queue(engine: Engine) -> AppendQueue:
            made.append(engine)
            return AppendThread(engine)

        (promise,) = [p for p in promises() if p.name == "committing.a_future_has_the_receipt"]
        promise.check(Subject("memory", open_memory, appends=queue), tmp_path)
        assert [type(engine) for engine in made] == [MemoryEngine]

    def test_who_opens_only_whole_is_not_checked_for_missing_shards(self, tmp_path: Path) -> None:
        (promise,) = [p for p in promises() if p.name == "missing.a_lost_one_is_named"]
        with pytest.raises(NotCheckedError, match="does not open without"):
            promise.check(Subject("journal", open_journal), tmp_path)

    def test_outcomes(self, tmp_path: Path) -> None:
        chosen = [p for p in promises() if p.name.startswith("retention.")]
        outcomes = list(run(Subject("memory", open_memory), chosen, directory=tmp_path))
        assert {outcome.verdict for outcome in outcomes} == {"not checked"}
        assert "retention" in outcomes[0].text
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(p.name for p in chosen)

    def test_not_checked_is_no_success(self, tmp_path: Path) -> None:
        (promise,) = [p for p in promises() if p.name == "retention.maintenance_rotates"]
        with pytest.raises(NotCheckedError, match="lacks retention"):
            promise.check(Subject("memory", open_memory), tmp_path)

    def test_an_engine_that_does_not_open_is_broken(self, tmp_path: Path) -> None:
        def fail(path: str) -> Any:
            raise OSError("no engine today")

        (outcome, *_) = run(Subject("fails", fail), promises()[:1], directory=tmp_path)
        assert (outcome.verdict, outcome.text) == ("broken", "OSError: no engine today")

    def test_a_call_that_never_returns_is_broken(self, tmp_path: Path) -> None:
        def wait(path: str) -> Any:
            threading.Event().wait()

        with pytest.raises(BrokenPromiseError, match="has not returned"):
            promises()[0].check(Subject("hangs", wait), tmp_path, patience_s=0.01)
