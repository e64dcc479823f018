"""Scans: which messages they give, in which order, and of which moment; the newest messages."""

from __future__ import annotations

from topicdb import _core
from topicdb.conformance import expect
from topicdb.conformance.lab import Lab, batches_of, plain, read, values
from topicdb.conformance.promise import promise
from topicdb.engines.groups import MessageGroups

TOPICS = ["a", "a/b", "a/b/c", "a/c", "b", "b/b", "/", "/a", "a/", "$SYS", "$SYS/a", "b/$x"]
FILTERS = [
    "a", "a/b", "a/b/c", "c", "+", "+/+", "+/b", "a/+", "a/+/c", "+/+/+", "#", "a/#", "a/b/#",
    "+/b/#", "+/#", "/", "/+", "+/", "/#", "$SYS", "$SYS/+", "$SYS/#", "b/+", "b/$x",
]  # fmt: skip


def _fill(lab: Lab, commits: int = 5) -> list[tuple[str, int, bytes]]:
    """Stores some messages of each topic, each with a timestamp of its own, and returns them."""
    rows = []
    for commit in range(commits):
        some = [
            (topic, 100 * ((7 * commit + n) % 40) + n, b"%d/%d" % (commit, n))
            for n, topic in enumerate(TOPICS)
        ]
        lab.append(*some)
        rows += some
    return rows


@promise()
def filters_match_as_in_mqtt(lab: Lab) -> None:
    """A scan finds the messages whose topics its filter matches by MQTT's rules, and no others."""
    rows = _fill(lab)
    for filter in FILTERS:
        wanted = sorted(row for row in rows if _core.topic_matches(filter, row[0]))
        for order in ("stream", "time", "none"):
            found = sorted(lab.messages(filter, order=order))
            expect.equal(found, wanted, f"what {filter!r} finds, order {order!r}")


@promise()
def several_filters_find_each_once(lab: Lab) -> None:
    """Several filters find what matches one of them, each message once; None finds everything,
    also topics that begin with "$"."""
    rows = _fill(lab)
    for filters in (["a/#", "+/b", "a/b"], ["$SYS/#", "#"], ["c", "b"], ["c"]):
        wanted = sorted(r for r in rows if any(_core.topic_matches(f, r[0]) for f in filters))
        for order in ("stream", "time", "none"):
            expect.equal(sorted(lab.messages(filters, order=order)), wanted, f"what {filters} find")
    expect.equal(sorted(lab.messages(None)), sorted(rows), "what None finds")


@promise()
def ranges_include_the_start_alone(lab: Lab) -> None:
    """A range of time includes its start and not its end; None is no bound."""
    lab.append(*[("a", n, b"%d" % n) for n in range(10)])
    for start, end in (
        (None, None),
        (3, None),
        (None, 3),
        (3, 7),
        (3, 4),
        (3, 3),
        (7, 3),
        (20, 30),
    ):
        low, high = start or 0, 10 if end is None else end
        wanted = [b"%d" % n for n in range(10) if low <= n < high]
        for order in ("stream", "time", "none"):
            found = sorted(values(lab.messages("a", start, end, order)))
            expect.equal(found, wanted, f"the range from {start} to {end}, order {order!r}")


@promise()
def by_time(lab: Lab) -> None:
    """With the order "time" all messages come by timestamp; equal ones of a topic by commit."""
    _fill(lab)
    lab.append(*[(f"t/{n % 3}", 500, b"first %d" % n) for n in range(9)])
    lab.append(*[(f"t/{n % 3}", 500, b"second %d" % n) for n in range(9)])
    found = lab.messages(None, order="time")
    times = [timestamp for _, timestamp, _ in found]
    expect.equal(times, sorted(times), "timestamps")
    if lab.keeps_all:
        mine = [value for topic, _, value in found if topic == "t/1"]
        wanted = [b"%s %d" % (when, n) for when in (b"first", b"second") for n in (1, 4, 7)]
        expect.equal(mine, wanted, "messages of a topic with one timestamp")


@promise()
def by_stream(lab: Lab) -> None:
    """With the order "stream" the messages of a topic come by timestamp, equal ones by commit and
    by place in the commit."""
    ranks: dict[bytes, tuple[int, int, int]] = {}
    for commit in range(6):
        rows = [("a", (5 * commit + n) % 7, b"%d.%d" % (commit, n)) for n in range(9)]
        serial = lab.append(*rows).serials[lab.shard_of("a")]
        ranks |= {value: (timestamp, serial, n) for n, (_, timestamp, value) in enumerate(rows)}
    found = values(lab.messages("a"))
    expect.equal(found, sorted(found, key=ranks.__getitem__), "the order of one topic")
    expect.equal(len(found), 54 if lab.keeps_all else 7, "how many there are")


@promise("generations")
def an_older_generation_comes_first(lab: Lab) -> None:
    """With the order "stream" an older generation of a topic is read to its end before a newer."""
    lab.append(("a", 5, b"1"), ("a", 7, b"2"))
    lab.engine.rotate(None)
    lab.append(("a", 1, b"3"), ("a", 6, b"4"))
    expect.equal(values(lab.messages("a")), [b"1", b"2", b"3", b"4"], "generation by generation")
    expect.equal(values(lab.messages("a", order="time")), [b"3", b"1", b"4", b"2"], "by time")


@promise()
def batches_keep_the_limits(lab: Lab) -> None:
    """A batch has at most rows_max messages, and one at least; the end is None, and stays so."""
    rows = [("a", n, b"x" * 100) for n in range(50)]
    lab.append(*rows)
    scan = lab.engine.scan("a", None, None, "stream", None)
    sizes = []
    while (batch := scan.next_batch(7, 1 << 20)) is not None:
        sizes.append(len(batch))
        expect.equal(batch.serials, None, "serials that were not asked for")
    expect.true(min(sizes) >= 1 and max(sizes) <= 7, f"batches of 1 to 7 messages, in {sizes}")
    expect.equal(sum(sizes), 50, "how many messages came")
    expect.equal(scan.next_batch(7, 1 << 20), None, "a batch behind the end")
    scan.close()
    scan.close()
    small = [
        len(batch) for batch in batches_of(lab.engine.scan("a", None, None, "time", None), 50, 450)
    ]
    expect.equal(sum(small), 50, "how many messages came in small batches")
    expect.true(max(small) <= 25, f"about 4 messages have 450 bytes, in {small}")
    tiny = [
        len(batch) for batch in batches_of(lab.engine.scan("a", None, None, "none", None), 50, 1)
    ]
    expect.equal(sum(tiny), 50, "how many messages came with a limit of 1 byte")


@promise()
def serials_are_of_the_commits(lab: Lab) -> None:
    """With with_serials each message comes with the serial of its commit."""
    wanted: dict[bytes, int] = {}
    for commit in range(10):
        rows = [(f"t/{n}", commit, b"%d.%d" % (commit, n)) for n in range(7)]
        receipt = lab.append(*rows)
        wanted |= {value: receipt.serials[lab.shard_of(topic)] for topic, _, value in rows}
    for order in ("stream", "time", "none"):
        scan = lab.engine.scan("t/+", None, None, order, None)
        found: dict[bytes, int] = {}
        while (batch := scan.next_batch(20, 1 << 20, True)) is not None:
            assert batch.serials is not None
            found |= dict(zip(batch.values, batch.serials.tolist(), strict=True))
        scan.close()
        expect.equal(found, wanted, f"serials by value, order {order!r}")


@promise()
def a_scan_sees_one_moment(lab: Lab) -> None:
    """Once a scan has given its first batch, it sees nothing of later commits."""
    rows = [("a", 2 * n, b"old") for n in range(50)]
    lab.append(*rows)
    for order in ("stream", "time", "none"):
        scan = lab.engine.scan("a", None, None, order, None)
        found = plain(scan.next_batch(5, 1 << 20))
        lab.append(*[("a", 2 * n + 1, order.encode()) for n in range(50)])
        found += read(scan)
        later = [value for _, _, value in found if value == order.encode()]
        expect.equal(later, [], f"what a scan gives of later commits, order {order!r}")


@promise()
def readers_see_whole_commits(lab: Lab) -> None:
    """A scan beside writers sees each commit of a shard wholly or not at all."""
    size, commits = 20, 60
    topics = [lab.topic_in(0, f"whole/{n}") for n in range(size)]

    def write() -> None:
        for commit in range(commits):
            lab.append(*[(topic, commit, b"%d" % commit) for topic in topics])

    writer = lab.beside(write)
    while True:
        is_over = writer.over
        found = values(lab.messages("whole/#", order="none"))
        for commit in set(found):
            expect.equal(found.count(commit), size, f"messages of commit {commit!r} that are seen")
        if is_over:
            break
    writer.result()
    expect.equal(len(found), size * commits, "how many messages there are at last")


@promise()
def what_cannot_be_is_refused(lab: Lab) -> None:
    """A bad filter is a TopicError, an unknown order a ValueError."""
    lab.append(("a", 1, b""))
    for filter in ("a/#/b", "a+", "", ["a", "b/#c"]):
        with expect.raises(_core.TopicError, f"the filter {filter!r}"):
            read(lab.engine.scan(filter, None, None, "stream", None))
    with expect.raises(ValueError, "the order 'random'"):
        read(lab.engine.scan("a", None, None, "random", None))


@promise()
def threads_read_side_by_side(lab: Lab) -> None:
    """Threads may scan at the same time, each with a cursor of its own."""
    rows = [(f"t/{n % 5}", n, b"%d" % n) for n in range(500)]
    lab.append(*rows)
    found = lab.together([lambda: sorted(lab.messages("t/+")) for _ in range(4)])
    for one in found:
        expect.equal(one, sorted(rows), "what a thread has read")


@promise()
def scans_give_arrow(lab: Lab) -> None:
    """next_arrow and arrow_stream give the same messages as Arrow data, values in any form."""
    pa = lab.need_arrow()
    rows = [("a", n, b"%d" % n) for n in range(30)]
    lab.append(*rows)
    scan = lab.engine.scan("a", None, None, "stream", None)
    found: list[bytes] = []
    while (arrow := scan.next_arrow(7, 1 << 20, "payload")) is not None:
        batch = pa.record_batch(arrow)
        expect.true(0 < batch.num_rows <= 7, "Arrow data keeps the limits")
        found += batch.column("value").to_pylist()
    scan.close()
    expect.equal(found, [value for _, _, value in rows], "the values of next_arrow")
    for form in ("stored", "payload", "properties"):
        stream = lab.engine.scan("a", None, None, "stream", None).arrow_stream(7, 1 << 20, form)
        table = pa.RecordBatchReader._import_from_c_capsule(stream).read_all()
        expect.equal(table.column("topic").to_pylist(), ["a"] * 30, f"topics in the form {form!r}")
        wanted = pa.schema(_core.arrow_schema(form))
        expect.equal(table.schema.names, wanted.names, f"columns in the form {form!r}")


@promise()
def newest_of_each_topic(lab: Lab) -> None:
    """last() gives the message with the greatest timestamp of each topic, in the bytewise order of
    topics."""
    for n in (3, 1, 2):
        lab.append(*[(topic, n, b"%d" % n) for topic in ("b", "a/x", "a", "ä", "$SYS/a")])
    wanted = [(topic, 3, b"3") for topic in ("a", "a/x", "b", "ä")]
    expect.equal(read(lab.engine.last("#", None, None)), wanted, "the newest of each topic")
    found = read(lab.engine.last(None, None, None))
    expect.equal(found, [("$SYS/a", 3, b"3"), *wanted], "the newest of every topic")
    found = read(lab.engine.last(["a/#", "a/x"], None, None))
    expect.equal(found, wanted[:2], "the newest of two filters")


@promise()
def newest_of_equal_ones_is_the_last_commit(lab: Lab) -> None:
    """Of messages with equal timestamps the one that was committed last is the newest."""
    lab.append(("a", 5, b"1"), ("a", 5, b"2"))
    lab.append(("a", 5, b"3"), ("a", 4, b"no"))
    lab.append(("a", 5, b"4"), ("a", 5, b"5"))
    lab.append(("a", 3, b"no"))
    expect.equal(read(lab.engine.last("a", None, None)), [("a", 5, b"5")], "the newest")


@promise()
def newest_within_a_range(lab: Lab) -> None:
    """Messages outside start <= timestamp < end do not count."""
    lab.append(*[("a", n, b"%d" % n) for n in range(10)], ("b", 2, b"b"))
    for start, end, wanted in (
        (None, 5, [("a", 4, b"4"), ("b", 2, b"b")]),
        (3, None, [("a", 9, b"9")]),
        (2, 3, [("a", 2, b"2"), ("b", 2, b"b")]),
        (20, None, []),
    ):
        found = read(lab.engine.last("#", start, end))
        expect.equal(found, wanted, f"the newest from {start} to {end}")


@promise("deletes")
def newest_is_not_deleted(lab: Lab) -> None:
    """When the newest message is deleted, the one before it is the newest."""
    lab.append(*[("a", n, b"%d" % n) for n in range(5)])
    lab.engine.delete("a", 3, None, None)
    expect.equal(read(lab.engine.last("a", None, None)), [("a", 2, b"2")], "the newest")


@promise("generations")
def newest_of_all_generations(lab: Lab) -> None:
    """The newest message may be in an older generation."""
    lab.append(("a", 5, b"old"), ("b", 1, b"old"))
    lab.engine.rotate(None)
    lab.append(("a", 3, b"new"), ("b", 1, b"new"))
    wanted = [("a", 5, b"old"), ("b", 1, b"new")]
    expect.equal(read(lab.engine.last("#", None, None)), wanted, "the newest")


@promise()
def newest_of_a_bad_filter_is_refused(lab: Lab) -> None:
    """A bad filter is a TopicError."""
    with expect.raises(_core.TopicError, "the filter a/#/b"):
        read(lab.engine.last("a/#/b", None, None))


@promise("summaries")
def counts_are_those_of_a_scan(lab: Lab) -> None:
    """summarize() counts what a scan gives, by the first levels of topics and by spans of time."""
    _fill(lab)
    for filter, start, end in (("#", None, None), (None, 300, None), (["a/#", "+/b"], 100, 2_000)):
        found = sorted(lab.messages(filter, start, end))
        for levels in (0, 1, 2, None):
            for span, origin in ((None, 0), (1, 0), (700, 0), (700, 150)):
                groups = MessageGroups(levels, span, origin)
                for topic, timestamp, _ in found:
                    groups.add(topic, timestamp)
                summary = lab.engine.summarize(filter, start, end, levels, span, origin)
                what = f"{filter!r} by {levels} levels and spans of {span} from {origin}"
                expect.equal(summary, groups.sorted(), what)
    expect.equal(lab.engine.summarize("nobody", None, None, 0, None, 0), [], "of no topic")


@promise("summaries")
def counts_that_cannot_be_are_refused(lab: Lab) -> None:
    """summarize() refuses a bad filter, a negative number of levels, and a span of no time."""
    with expect.raises(_core.TopicError, "the filter a/#/b"):
        lab.engine.summarize("a/#/b", None, None, 0, None, 0)
    for levels, span in ((-1, None), (0, 0), (0, -5), (0, (1 << 60) + 1)):
        with expect.raises(ValueError, f"{levels} levels and a span of {span}"):
            lab.engine.summarize("#", None, None, levels, span, 0)
