import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from datamon.errors import CorruptObject, Failed
from datamon.filelist import FileList, ListWriter
from datamon.model import Entry, ListInfo
from datamon.names import NameRange, order
from tests.property.strategies import PACKS, listings, names


def written(entries, packs=PACKS):
    writer = ListWriter()
    for entry in entries:
        writer.add(entry, packs)
    return writer.seal("i")


def placed(entry, packs):
    """The entry with the pack itself instead of its place in a table."""
    return msgspec.structs.replace(entry, at=None), packs[entry.at[0]] if entry.at else None, entry.at and entry.at[1]


@given(listings)
def test_a_list_comes_back_as_it_was(entries):
    body, info = written(entries)
    found = FileList("k", body, info.digest)
    assert [placed(e, found.packs) for e in found.entries()] == [placed(e, PACKS) for e in entries]
    assert info == found.info("i")
    assert (info.count, info.first, info.last) == (len(entries), entries[0].name, entries[-1].name)
    assert info.bytes == sum(entry.size for entry in entries)


@given(listings)
def test_any_yaml_loader_reads_the_same(entries):
    body, _ = written(entries)
    plain = yaml.safe_load(body)
    assert plain["version"] == 1
    assert [e["name"] for e in plain["entries"]] == [e.name for e in entries]
    decoded = msgspec.convert(plain["entries"], list[Entry])
    assert [placed(e, plain["packs"]) for e in decoded] == [placed(e, PACKS) for e in entries]


@given(listings, names, names)
def test_a_slice_is_what_a_filter_would_give(entries, one, other):
    start, stop = sorted([order(one), order(other)])
    found = FileList("k", written(entries)[0])
    for names_range in (NameRange(start, stop), NameRange(start), NameRange("", stop)):
        assert [e.name for e in found.entries(names_range)] == [
            e.name for e in entries if names_range.holds(order(e.name))
        ]


@given(st.lists(names, min_size=2, max_size=20, unique=True))
def test_the_name_order_is_that_of_the_components(found):
    assert sorted(found, key=order) == sorted(found, key=lambda name: name.split("/"))


def entry(name):
    return Entry(name, "9f", 0, 420, 0, 7)


def test_the_bytes_of_a_list():
    """The format as it lies in the store."""
    writer = ListWriter()
    writer.add(Entry("a/b.csv", "9f", 812, 420, 5, 7, at=(1, 4)), ["77aa", "5d1c"])
    writer.add(Entry("a/c.bin", "0c", 734003200, 420, 6, 8, root="aa"), [])
    body, info = writer.seal("g1-00000000-00000")
    assert body == (
        b"version: 1\n"
        b'packs: ["5d1c"]\n'
        b"entries:\n"
        b'- {"name":"a/b.csv","hash":"9f","size":812,"mode":420,"mtime":5,"timestamp":7,"at":[0,4]}\n'
        b'- {"name":"a/c.bin","hash":"0c","size":734003200,"mode":420,"mtime":6,"timestamp":8,"root":"aa"}\n'
    )
    assert info == ListInfo("g1-00000000-00000", 2, 734004012, "a/b.csv", "a/c.bin", info.digest)


@pytest.mark.parametrize(
    ("found", "why"), [(["b", "a"], "came after"), (["a", "a"], "came after"), (["x", "x/y"], "lies below it")]
)
def test_a_list_out_of_order_cannot_be_written(found, why):
    with pytest.raises(Failed, match=why):
        written([entry(name) for name in found])


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (lambda body: body.replace(b"version: 1", b"version: 9"), "version"),
        (lambda body: body.replace(b"entries:", b"entires:"), "entries"),
        (lambda body: body.replace(b'"size":0', b'"size":"0"'), "size"),
        (lambda body: body.replace(b'"hash":"9f",', b""), "hash"),
        (lambda body: body[:-10], "malformed|truncated"),
        (lambda body: body.replace(b"packs: [", b"packs: {"), "packs"),
    ],
)
def test_a_damaged_list_is_refused_naming_its_key(harm, why):
    body = harm(written([entry("a"), entry("b")])[0])
    with pytest.raises(CorruptObject, match=why) as caught:
        FileList("the/key", body).entries()
    assert "the/key" in str(caught.value)


def test_a_list_with_another_digest_is_refused():
    body, info = written([entry("a")])
    with pytest.raises(CorruptObject, match="digest"):
        FileList("k", body + b"\n", info.digest)
