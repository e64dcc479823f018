"""What is stored and what it takes: usage, costs of reads, trimming, jobs."""

from __future__ import annotations

from topicdb import _core
from topicdb.conformance import expect
from topicdb.conformance.lab import Lab
from topicdb.conformance.promise import promise
from topicdb.engines.base import READ_COUNTS


@promise("usage", "generations")
def usage_is_of_all_slabs(lab: Lab) -> None:
    """usage() has every slab with its bytes on disk."""
    lab.append(*[(f"u/{n}", n, b"x" * 100) for n in range(50)])
    lab.engine.rotate(None)
    lab.append(("u/1", 1, b"x"))
    lab.engine.flush()
    found = lab.engine.usage()
    listed = [(s.shard, s.retention_class, s.generation, s.messages) for s in lab.engine.slabs()]
    mine = [
        (one.slab.shard, one.slab.retention_class, one.slab.generation, one.slab.messages)
        for one in found
    ]
    expect.equal(sorted(mine), sorted(listed), "the slabs")
    for one in found:
        expect.true(
            0 <= one.garbage_bytes <= max(one.disk_bytes, 0), "garbage is a part of the bytes"
        )


@promise("usage")
def usage_is_of_all_structures(lab: Lab) -> None:
    """usage_by_structure() has the messages of each structure and class."""
    lab.append(*[(f"u/{n}", n, b"x" * 100) for n in range(50)])
    lab.engine.flush()
    found = lab.engine.usage_by_structure()
    expect.true(sum(one.messages for one in found) >= 50, "the messages of all structures")
    places = [(one.retention_class, one.structure) for one in found]
    expect.equal(len(set(places)), len(places), "how many different structures are listed")


@promise("explain")
def a_scan_is_explained(lab: Lab) -> None:
    """explain() has the keys that are documented; rows_matched is what a scan gives."""
    lab.append(*[(f"e/{n % 5}", n, b"%d" % n) for n in range(100)])
    found = lab.engine.explain("e/3", 10, 60)
    keys = {"slabs", "streams", *READ_COUNTS}
    expect.equal(keys - set(found), set(), "the keys that it lacks")
    expect.equal(found["rows_matched"], len(lab.messages("e/3", 10, 60)), "rows_matched")
    expect.equal(lab.engine.explain("nobody", None, None)["rows_matched"], 0, "of no topic")
    with expect.raises(_core.TopicError, "the filter a/#/b"):
        lab.engine.explain("a/#/b", None, None)


@promise("trimming", "generations")
def what_is_older_goes(lab: Lab) -> None:
    """trim() removes messages with earlier timestamps: whole slabs where every message is, and
    single ones of "#" in others. With dry_run it counts the same, and changes nothing."""
    topic = lab.topic_in(0)
    lab.append(*[(topic, t, b"old %d" % t) for t in range(10)])
    lab.engine.rotate(None)
    lab.append(*[(topic, t, b"new %d" % t) for t in range(10, 20)], ("$SYS/x", 1, b""))
    with lab.nothing_changes("a trial"):
        would = lab.engine.trim(12, None, True)
    done = lab.engine.trim(12, None, False)
    expect.equal((would.slabs, would.messages), (done.slabs, done.messages), "what a trial counts")
    went = [(slab.shard, slab.messages) for slab in done.slabs if slab.messages]
    expect.equal(went, [(0, 10)], "the slabs with messages that went")
    expect.equal(done.messages, 2, "single messages that went")
    wanted = [("$SYS/x", 1, b""), *[(topic, t, b"new %d" % t) for t in range(12, 20)]]
    expect.equal(lab.everything(), wanted, "what is left")


@promise("trimming")
def what_is_older_of_a_filter_goes(lab: Lab) -> None:
    """trim() with a filter removes single messages of its topics alone."""
    lab.append(("a/1", 1, b""), ("a/2", 9, b""), ("b", 1, b""))
    done = lab.engine.trim(5, "a/#", False)
    expect.equal((done.slabs, done.messages), ([], 1), "what went")
    expect.equal(lab.everything(), [("a/2", 9, b""), ("b", 1, b"")], "what is left")
    with lab.nothing_changes("a/#/b"), expect.raises(_core.TopicError, "the filter a/#/b"):
        lab.engine.trim(5, "a/#/b", False)


@promise("jobs")
def no_job_was_applied(lab: Lab) -> None:
    """jobs() is empty where no job was applied."""
    lab.append(("a", 1, b""))
    expect.equal(lab.engine.jobs(), [], "the jobs")


@promise("snapshots")
def a_snapshot_is_the_engine_of_one_moment(lab: Lab) -> None:
    """A snapshot can be opened like the engine, and has what was acknowledged before it."""
    lab.append(*[(f"s/{n}", n, b"%d" % n) for n in range(20)])
    before = lab.everything()
    # An engine elsewhere knows no path of this machine, and takes a name.
    name = str(lab.directory / "copy") if lab.has("directory") else "copy"
    made = lab.engine.snapshot(name, None, False)
    expect.equal(made.serials, lab.serials(), "the serials of the snapshot")
    lab.append(("s/later", 1, b""))
    with expect.raises(_core.ExistsError, "a snapshot where one is"):
        lab.engine.snapshot(name, None, False)
    with lab.subject.opened(made.path) as copy:
        scan = copy.scan(None, None, None, "none", None)
        found = []
        while (batch := scan.next_batch(100, 1 << 20)) is not None:
            found += [(m.topic, m.timestamp, m.value) for m in batch]
        scan.close()
    expect.equal(sorted(found), before, "what the snapshot has")
