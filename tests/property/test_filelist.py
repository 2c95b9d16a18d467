import re
from dataclasses import replace

import msgspec
import pytest
import yaml
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from datamon.errors import CorruptObject, Failed
from datamon.filelist import FileList, ListWriter, read_content, read_info, unlisted
from datamon.model import Entry, ListInfo
from datamon.names import NameRange, order
from tests.lists import in_memory
from tests.property.strategies import listings, names


def written(entries):
    writer = ListWriter()
    writer.add(*entries)
    return writer.seal("i")


@given(listings)
def test_a_list_comes_back_as_it_was(entries):
    body, info = written(entries)
    assert in_memory(body, info).entries() == entries
    assert info == read_info("k", body, "i")
    assert (info.count, info.first, info.last) == (len(entries), entries[0].name, entries[-1].name)
    assert info.bytes == sum(entry.size for entry in entries)


@given(listings, st.integers(0, 30))
def test_lines_that_are_moved_make_the_same_list(entries, cut):
    moved = ListWriter()
    for some in (entries[:cut], entries[cut:]):
        if some:
            found = in_memory(*written(some))
            lines = unlisted(found.read())
            moved.move(found.briefs(lines), lines)
    assert moved.seal("i") == written(entries)


@given(listings)
def test_any_yaml_loader_reads_the_same(entries):
    body, _ = written(entries)
    plain = yaml.safe_load(body)
    assert plain["version"] == 2
    assert sum(block["count"] for block in plain["blocks"]) == len(entries)
    assert msgspec.convert(plain["entries"], list[Entry]) == entries


@given(listings, names, names)
def test_a_slice_is_what_a_filter_would_give(entries, one, other):
    start, stop = sorted([order(one), order(other)])
    body, info = written(entries)
    for names_range in (NameRange(start, stop), NameRange(start), NameRange("", stop)):
        held = [e for e in entries if names_range.holds(order(e.name))]
        assert [e.name for e in in_memory(body, info).entries(names_range)] == [e.name for e in held]
        assert in_memory(body, info).latest(names_range) == max((e.timestamp for e in held), default=None)
    earlier = [e.name for e in entries if order(e.name) < stop]
    above = in_memory(body, info).above(stop)
    if stop not in {order(e.name) for e in entries}:  # else there is nothing above it
        assert (read_content("k", above).name if above else None) == (earlier[-1] if earlier else None)


@given(st.lists(names, min_size=2, max_size=20, unique=True))
def test_the_name_order_is_that_of_the_components(found):
    assert sorted(found, key=order) == sorted(found, key=lambda name: name.split("/"))


def entry(name):
    return Entry(name, "9f", 0, 420, 0, 7)


def test_the_bytes_of_a_list():
    """The format as it lies in the store."""
    small = Entry("a/b.csv", "9f", 812, 420, 5, 7, at=("5d1c", 4))
    body, info = written([small, Entry("a/c.bin", "0c", 734003200, 420, 6, 8, root="aa")])
    assert body == (
        b"version: 2\n"
        b"blocks:\n"
        b'- {"first":"a/b.csv","count":2,"length":192,"latest":8,"digest":"%s"}\n'
        b"entries:\n"
        b'- {"name":"a/b.csv","hash":"9f","size":812,"mode":420,"mtime":5,"timestamp":7,"at":["5d1c",4]}\n'
        b'- {"name":"a/c.bin","hash":"0c","size":734003200,"mode":420,"mtime":6,"timestamp":8,"root":"aa"}\n'
    ) % (blake3(body[info.head :]).hexdigest().encode())
    digest = blake3(body[: info.head]).hexdigest()
    assert info == ListInfo("i", 2, 734004012, "a/b.csv", "a/c.bin", digest, body.index(b'- {"name"'), 8)


@pytest.mark.parametrize(
    ("found", "why"), [(["b", "a"], "came after"), (["a", "a"], "came after"), (["x", "x/y"], "lies below it")]
)
def test_a_list_out_of_order_cannot_be_written(found, why):
    with pytest.raises(Failed, match=why):
        written([entry(name) for name in found])


def sealed_again(body):
    """A list with a head that fits its entries, as whoever wrote them could have written it."""
    head, found, lines = body.partition(b"\nentries:\n")
    facts = b'"length":%d,"latest":7,"digest":"%s"' % (len(lines), blake3(lines).hexdigest().encode())
    return re.sub(rb'"length":.*"digest":"[0-9a-f]*"', facts, head) + found + lines


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (lambda body: body.replace(b"version: 2", b"version: 9"), "version"),
        (lambda body: body.replace(b"entries:", b"entires:"), "entries"),
        (lambda body: body.replace(b"blocks:", b"bricks:"), "blocks"),
        (lambda body: body.replace(b'"count":2', b'"count":"2"'), "count"),
        (lambda body: body.replace(b'"size":0', b'"size":"0"'), "size"),
        (lambda body: body.replace(b'"hash":"9f",', b""), "hash"),
        (lambda body: body[:-10], "does not end with its line"),
        (lambda body: body[:-10] + b"\n", "malformed|truncated"),
    ],
)
def test_a_damaged_list_is_refused_naming_its_key(harm, why):
    body, info = written([entry("a"), entry("b")])
    harmed = sealed_again(harm(body))
    with pytest.raises(CorruptObject, match=why) as caught:
        read_info("the/key", harmed, "i")
    assert "the/key" in str(caught.value)
    with pytest.raises(CorruptObject, match=r"digest|its head says"):
        in_memory(harm(body), info).entries()


def test_bytes_that_no_digest_covers_are_noticed():
    body, info = written([entry("a")])
    with pytest.raises(CorruptObject, match="its head says"):
        in_memory(body + b"\n", info).entries()


MANY = [Entry(f"{number // 7:05d}/{number % 7}", "9f", 1, 420, 0, number % 4001) for number in range(4500)]


def test_a_few_names_of_a_long_list_are_found_in_a_small_part_of_it():
    body, info = written(MANY)
    read = []

    def get(start, length):
        read.append(length)
        return body[start : start + length]

    def found():
        return FileList("k", info, get)

    assert [e.name for e in found().entries(NameRange("00300\0" + "5", "00301"))] == ["00300/5", "00300/6"]
    assert read_content("k", found().above("00300")).name == "00299/6"
    assert sum(read) < len(body) * 0.6
    assert len(read) == 3  # the head once
    read.clear()
    assert found().latest(NameRange("00001")) == 4000
    assert sum(read) < len(body) * 0.5
    assert found().entries(NameRange("1")) == []


OLD = (
    b"version: 1\n"
    b'packs: ["5d1c","77aa"]\n'
    b"entries:\n"
    b'- {"name":"a/b.csv","hash":"9f","size":812,"mode":420,"mtime":5,"timestamp":7,"at":[1,4]}\n'
    b'- {"name":"a/c.bin","hash":"0c","size":734003200,"mode":420,"mtime":6,"timestamp":8,"root":"aa"}\n'
)


class Stored:
    """A store with one object."""

    def __init__(self, body):
        self.body = body

    def get(self, key, start=0, length=None):
        return self.body[start : None if length is None else start + length]


def as_stored(body, info):
    return FileList.stored(Stored(body), "k", info)


def test_a_list_of_the_first_version_is_read_too():
    info = ListInfo("g1-00000000-00000", 2, 734004012, "a/b.csv", "a/c.bin", blake3(OLD).hexdigest())
    found = as_stored(OLD, info)
    assert found.entries() == [
        Entry("a/b.csv", "9f", 812, 420, 5, 7, at=("77aa", 4)),
        Entry("a/c.bin", "0c", 734003200, 420, 6, 8, root="aa"),
    ]
    assert [e.name for e in as_stored(OLD, info).entries(NameRange(order("a/c")))] == ["a/c.bin"]
    assert as_stored(OLD, info).latest(NameRange()) == 8
    assert read_info("k", OLD, info.index) == replace(info, latest=8)
    for harmed in (OLD + b"\n", OLD.replace(b"812", b"813")):
        with pytest.raises(CorruptObject, match="digest"):
            as_stored(harmed, info)


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (lambda body: body.replace(b"[1,4]", b"[7,4]"), "entries"),
        (lambda body: body.replace(b"a/c.bin", b"a/a.bin"), "came after"),
        (lambda body: body.partition(b"- ")[0], "without entries"),
        (lambda body: body.replace(b"packs: [", b"packs: {"), "packs"),
    ],
)
def test_a_list_of_the_first_version_that_makes_no_sense_is_refused(harm, why):
    with pytest.raises(CorruptObject, match=why):
        read_info("k", harm(OLD), "i")


def test_a_head_that_is_too_long_to_be_true_is_not_read():
    body, info = written([entry("too"), entry("long")][::-1])
    for length in (10**19, 1 << 30, -1):
        with pytest.raises(CorruptObject, match="says that its head has"):
            in_memory(body, replace(info, head=length)).entries(NameRange("too"))
