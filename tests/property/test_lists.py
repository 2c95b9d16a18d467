"""File lists: what is written is what is read, in whole and in parts; what is damaged is refused."""

import re
from dataclasses import replace

import msgspec
import pytest
import yaml
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from datamon.content.entry import Entry, Place
from datamon.core.errors import CorruptObject, Failed
from datamon.core.names import NameRange, name_of, sort_key
from datamon.lists.cutting import Cutting
from datamon.lists.format import Deletion, rows_of
from datamon.lists.reader import FileList, read_reference
from datamon.lists.reference import ListRef
from datamon.lists.writer import ListWriter, UploadListWriter
from tests.lists import in_memory
from tests.property.strategies import changes, listings, names

SMALL = Cutting(block_entries=2, list_entries=4)


def written(entries, cutting=SMALL):
    writer = UploadListWriter(cutting)
    writer.add(*entries)
    return writer.seal("i")


@given(listings)
def test_a_list_comes_back_as_it_was(entries):
    body, reference = written(entries)
    assert list(in_memory(body, reference).entries()) == entries
    assert reference == read_reference("k", body, "i")
    assert (reference.count, reference.first, reference.last) == (len(entries), entries[0].name, entries[-1].name)
    assert reference.bytes == sum(entry.size for entry in entries)
    assert reference.latest == max(entry.timestamp for entry in entries)


@given(changes)
def test_deletions_come_back_too(items):
    body, reference = written(items)
    assert list(in_memory(body, reference).entries()) == items
    assert reference.deletions == sum(isinstance(item, Deletion) for item in items)


@given(listings)
def test_any_yaml_loader_reads_the_same(entries):
    body, _ = written(entries)
    plain = yaml.safe_load(body)
    assert plain["version"] == 1
    assert sum(block["count"] for block in plain["index"]) == len(entries)
    read = [
        entry | place
        for block in plain["blocks"]
        for entry, place in zip(block["entries"], block["places"], strict=True)
    ]
    assert msgspec.convert(read, list[Entry]) == entries


@given(listings, names, names)
def test_a_range_is_what_a_filter_would_give(entries, one, other):
    start, stop = sorted([sort_key(one), sort_key(other)])
    body, reference = written(entries)
    for names_range in (NameRange(start, stop), NameRange(start), NameRange("", stop)):
        inside = [entry for entry in entries if names_range.holds(sort_key(entry.name))]
        assert list(in_memory(body, reference).entries(names_range)) == inside
        assert in_memory(body, reference).latest(names_range) == max((e.timestamp for e in inside), default=None)
    earlier = [entry.name for entry in entries if sort_key(entry.name) < stop]
    before = in_memory(body, reference).last_before(stop).keys
    if stop not in {sort_key(entry.name) for entry in entries}:  # else there is nothing above it
        assert [name_of(key) for key in before] == earlier[-1:]


@given(st.lists(names, min_size=2, max_size=20, unique=True))
def test_the_name_order_is_that_of_the_components(some):
    assert sorted(some, key=sort_key) == sorted(some, key=lambda name: name.split("/"))


class Shelf:
    """Where lists of a bundle are put."""

    def __init__(self):
        self.bodies, self.opened = {}, []

    def writer(self, cutting=SMALL):
        return ListWriter(self.put, self.open, cutting)

    def put(self, body, reference):
        self.bodies[reference.digest] = body

    def open(self, reference):
        self.opened.append(reference)
        return FileList.in_memory(reference.digest, reference, self.bodies[reference.digest])

    def lists_of(self, entries, cutting=SMALL):
        writer = self.writer(cutting)
        writer.move(rows_of(entries))
        return writer.finish()


@given(listings, st.lists(st.integers(1, 9), min_size=1, max_size=9), st.data())
def test_however_entries_come_the_lists_are_the_same(entries, steps, data):
    """As rows, as blocks of other lists, or as whole lists."""
    shelf, start = Shelf(), 0
    writer, expected = shelf.writer(), shelf.lists_of(entries)
    while start < len(entries):
        some = entries[start : start + steps[start % len(steps)]]
        start += len(some)
        form = data.draw(st.sampled_from(["rows", "blocks", "lists"]))
        if form == "rows":
            writer.move(rows_of(some))
        elif form == "blocks":
            for raw in in_memory(*written(some)).read_all():
                writer.copy(raw)
        else:
            for reference in shelf.lists_of(some):
                writer.refer(reference)
    assert writer.finish() == expected


def test_names_that_are_never_cut_still_end_somewhere():
    """Somebody could choose them so."""
    cutting = Cutting(block_entries=2, list_entries=4, fullness=2)
    uncut = [name for name in (f"{n:04d}" for n in range(400)) if not cutting.starts_block(name)][:50]
    lists = Shelf().lists_of([entry(name) for name in uncut], cutting)
    assert [one.count for one in lists] == [8, 8, 8, 8, 8, 8, 2]


def test_upload_times_do_not_change_the_identity_of_a_list():
    one = [Entry("a", "1" * 64, 1, 420, 5, 6, Place("2" * 64, 7)), Entry("b", "3" * 64, 1, 493, 0, 0)]
    other = [Entry("a", "1" * 64, 1, 420, 8, 9, None, "4" * 64), Entry("b", "3" * 64, 1, 493, 1, 1)]
    first, second = (written(entries)[1] for entries in (one, other))
    assert first.identity == second.identity
    assert first.digest != second.digest
    changed = [Entry("a", "1" * 64, 1, 421, 5, 6, Place("2" * 64, 7)), one[1]]
    assert written(changed)[1].identity != first.identity


def test_a_change_rewrites_few_lists_and_copies_the_other_blocks():
    entries = [Entry(f"{n:05d}", f"{n:064x}", 1, 420, 0, 0) for n in range(40_000)]
    shelf = Shelf()
    before = shelf.lists_of(entries, Cutting())
    entries[20_000] = Entry("20000", "f" * 64, 1, 420, 0, 0)
    after = shelf.lists_of(entries, Cutting())
    assert len(set(after) - set(before)) == 1


def entry(name):
    return Entry(name, "9f", 0, 420, 0, 7)


def test_the_bytes_of_a_list():
    """The format as it lies in the store."""
    small = Entry("a/b.csv", "9f", 812, 420, 5, 7, at=Place("5d1c", 4))
    body, reference = written([small, Entry("a/c.bin", "0c", 734003200, 420, 6, 8, root="aa")], Cutting())
    lines = (
        b' {"name":"a/b.csv","hash":"9f","size":812,"mode":420},\n'
        b' {"name":"a/c.bin","hash":"0c","size":734003200,"mode":420},\n'
    )
    places = b' {"mtime":5,"timestamp":7,"at":["5d1c",4]},\n {"mtime":6,"timestamp":8,"root":"aa"},\n'
    identity, digest = (blake3(part).hexdigest().encode() for part in (lines, places))
    assert body == (
        b"version: 1\n"
        b"index: [\n"
        b' {"first":"a/b.csv","count":2,"bytes":734004012,"entries":%d,"places":%d,'
        b'"identity":"%s","digest":"%s","latest":8},\n'
        b" ]\n"
        b"blocks:\n"
        b"- entries: [\n%s ]\n"
        b"  places: [\n%s ]\n"
    ) % (len(lines), len(places), identity, digest, lines, places)
    head = body[: body.index(b"- entries")]
    assert reference == ListRef(
        digest=blake3(head).hexdigest(),
        identity=blake3(identity).hexdigest(),
        count=2,
        bytes=734004012,
        first="a/b.csv",
        last="a/c.bin",
        head=len(head),
        latest=8,
        index="i",
    )


@pytest.mark.parametrize(
    ("some", "reason"), [(["b", "a"], "came after"), (["a", "a"], "came after"), (["x", "x/y"], "lies below it")]
)
def test_a_list_out_of_order_cannot_be_written(some, reason):
    with pytest.raises(Failed, match=reason):
        written([entry(name) for name in some])
    writer = UploadListWriter()
    writer.add(entry(some[0]))
    with pytest.raises(Failed, match=reason):
        writer.add(entry(some[1]))


def sealed_again(body):
    """A list with a head that fits its blocks, as whoever wrote them could have written it."""
    head, blocks, rest = body.partition(b"blocks:\n")
    match = re.fullmatch(rb"- entries: \[\n(.*) \]\n  places: \[\n(.*) \]\n", rest, re.DOTALL)
    if match is None:
        return body
    lines, places = match.groups()
    facts = b'"entries":%d,"places":%d,"identity":"%s","digest":"%s"' % (
        len(lines),
        len(places),
        blake3(lines).hexdigest().encode(),
        blake3(places).hexdigest().encode(),
    )
    return re.sub(rb'"entries":\d+,.*"digest":"[0-9a-f]*"', facts, head) + blocks + rest


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (lambda body: body.replace(b"version: 1", b"version: 9"), "version"),
        (lambda body: body.replace(b"blocks:", b"bricks:"), "blocks"),
        (lambda body: body.replace(b"index:", b"indox:"), "index"),
        (lambda body: body.replace(b'"count":2', b'"count":"2"'), "count"),
        (lambda body: body.replace(b'"size":0', b'"size":"0"'), "size"),
        (lambda body: body.replace(b'"timestamp":7', b'"timestamp":"7"'), "timestamp"),
        (lambda body: body.replace(b'"mode":420},\n ]', b'"mode":420}\n ]'), "does not begin or end|malformed"),
        (lambda body: body[:-5], "begin or end|its head says"),
        (lambda body: body.replace(b"places: [", b"places: ("), "begin or end"),
        (lambda body: body.replace(b',"mode":420},\n {"name":"b"', b',"mode":420}, {"name":"b"'), "match|malformed"),
    ],
)
def test_a_damaged_list_is_refused_naming_its_key(harm, reason):
    body, reference = written([entry("a"), entry("b")], Cutting())
    harmed = sealed_again(harm(body))
    with pytest.raises(CorruptObject, match=reason) as error:
        list(in_memory(harmed, read_reference("the/key", harmed, "i")).entries())
    assert "the/key" in str(error.value)
    with pytest.raises(CorruptObject, match=r"digest|its head says|begin or end"):
        in_memory(harm(body), reference).read_all()


def test_bytes_that_no_digest_covers_are_noticed():
    body, reference = written([entry("a")])
    with pytest.raises(CorruptObject, match="its head says"):
        in_memory(body + b"\n", reference).read_all()


MANY = [Entry(f"{number // 7:05d}/{number % 7}", "9f", 1, 420, 0, number % 4001) for number in range(9000)]


def test_a_few_names_of_a_long_list_are_found_in_a_small_part_of_it():
    body, reference = written(MANY, Cutting())
    read = []

    def get(start, length):
        read.append(length)
        return body[start : start + length]

    def listed():
        return FileList("k", reference, get)

    assert [e.name for e in listed().entries(NameRange("00300\0" + "5", "00301"))] == ["00300/5", "00300/6"]
    assert listed().last_before("00300").keys == [sort_key("00299/6")]
    assert len(read) == 3  # the head once
    assert sum(read) < len(body) * 0.5
    read.clear()
    assert listed().latest(NameRange("00001")) == 4000
    assert sum(read) < len(body) * 0.5
    assert list(listed().entries(NameRange("1"))) == []


def test_a_head_that_is_too_long_to_be_true_is_not_read():
    body, reference = written([entry("too"), entry("long")][::-1])
    for length in (10**19, 1 << 30, -1):
        with pytest.raises(CorruptObject, match="says that its head has"):
            list(in_memory(body, replace(reference, digest=f"{length}", head=length)).entries(NameRange("too")))
