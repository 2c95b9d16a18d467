"""Whatever bytes lie where datamon reads: they are understood, or refused in a sentence that says where."""

import re
import tempfile
from dataclasses import replace

import msgspec
import pytest
import yaml
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from datamon.bundles.model import Bundle, Label, Repo
from datamon.content.roots import Chunk, Root
from datamon.core.contributors import Contributor
from datamon.core.errors import BadUsage, CorruptObject, DatamonError
from datamon.core.ids import bundle_id, diamond_id, label_name, repo_name, split_id
from datamon.core.names import NameRange, name_problem, sort_key
from datamon.diamonds.model import Diamond, IdReservation, Split
from datamon.lists.format import decode_entries
from datamon.lists.reader import FileList, read_reference
from datamon.lists.reference import ListRef
from datamon.lists.writer import UploadListWriter
from datamon.settings import configuration
from datamon.stores import descriptors
from datamon.stores.context import open_store
from tests.lists import in_memory
from tests.property.strategies import listings

KINDS = [Repo, Bundle, Label, IdReservation, Diamond, Split]
KEY = "some/key.yaml"
BAD_IDS = ["..", ".", "../x", "a/b", "a\0", "", "a\n", "\uff41", "x" * 101, "\ud800"]
REPO = Repo(name="r", description="a repo", contributor=Contributor("Ada", "a@b.org"), created="2026-01-01T00:00:00Z")

words = st.text(max_size=100).map(lambda text: text.encode(errors="replace"))
sizes = st.integers(0, 10**30)
parts = st.sampled_from(["..", ".", "", "a", "\0", "é", "\\"])
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.dates() | st.datetimes()
plain = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)


def with_fields(kind):
    """Mappings with the right names of fields, and anything in them."""
    names = list(kind.__dataclass_fields__)
    known = st.dictionaries(st.sampled_from(names), plain | st.just({}) | st.just([{}]), max_size=len(names))
    return known.map(lambda fields: fields | {"version": 1})


def understood(read):
    """Whether something was read; if not, it was refused with the key."""
    refused = refusal(read, CorruptObject)
    assert refused is None or (KEY in refused and "\n" not in refused)
    return refused is None


def refusal(work, kind=DatamonError):
    """The sentence that something is refused with, if it is."""
    try:
        work()
    except kind as error:
        return str(error)
    return None


@pytest.mark.parametrize("kind", KINDS)
def test_descriptors_with_anything_in_them(kind):
    @given(with_fields(kind) | plain)
    def look(value):
        body = yaml.dump(value, allow_unicode=True).encode(errors="replace")
        understood(lambda: descriptors.load(kind, KEY, body))

    look()


@given(words, st.lists(words | plain.map(lambda value: msgspec.json.encode(str(value)))))
def test_lines_of_a_descriptor_with_anything_in_them(before, lines):
    body = before + b"\nlists: [\n" + b"".join(b" %s,\n" % line for line in lines) + b" ]\n"
    understood(lambda: descriptors.load(Bundle, KEY, body))


@given(st.binary(max_size=200) | st.text(alphabet="[]{}-?:&*!|>'\"%@` \n\tax1.", max_size=200).map(str.encode))
def test_bytes_that_are_no_descriptor(body):
    assert not understood(lambda: descriptors.load(Repo, KEY, body))


@given(st.integers(0, 400), st.binary(min_size=1, max_size=3))
def test_a_descriptor_with_some_bytes_changed(at, put):
    body = bytearray(descriptors.dump(REPO))
    at %= len(body)
    body[at : at + len(put)] = put
    understood(lambda: descriptors.load(Repo, KEY, bytes(body)))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"[" * 1_000_000, "nested more than"),
        (b"{a: " * 100_000, "nested more than"),
        (b"- " * 100_000 + b"x", "nested more than"),
        (b"? " * 100_000, "nested more than"),
        (b"\n".join(b" " * n + b"a:" for n in range(2_000)), "nested more than"),
        (b"a: &a [x]\nb: &b [*a, *a]\n", "an alias"),
        (b"a: &a {x: 1}\nb: {<<: *a}\n", "an alias"),
        (b"version: 1\n" + b"#" * (9 << 20), "bytes, and a descriptor at most"),
        (b"version: " + b"9" * 10_000, "not YAML"),
        (b"version: 2026-99-99", "not YAML"),
        (b"version: 7\n", "`version` is 7"),
        (b"version: 1\nname: [r]\n", "name"),
        (b"version: 1\nname: r\ndescription: [" + b"1:1," * 100_000 + b"]", "description"),
        (b"!!python/object/apply:os.system ['true']", "a tag"),
        (b'x: !!int ""', "a tag"),
        (b"x: !!timestamp foo", "a tag"),
        (b"version: 0x" + b"f" * 5_000, "`version` is int"),
        (b"x: " + b"1:" * 100_000 + b"1", "a text of"),
        (b"x: " + b"1:" * 200 + b"1", "a number of"),
        (b"x: " + b"1:" * 200 + b"1.5", "a number of"),
        (b"[" + b"1," * 600_000 + b"1]", "more than 500,000 parts"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bombs(body, reason):
    with pytest.raises(CorruptObject, match=re.escape(reason)) as refused:
        descriptors.load(Repo, KEY, body)
    assert KEY in str(refused.value)
    assert len(str(refused.value)) < 1_000


def line(value):
    """A line of a list, whatever is in it."""
    return b" " + msgspec.json.encode(value) + b",\n"


def list_of(*blocks, more=b""):
    """A list and its reference, written by a stranger who knows how: its digests are right.

    A block is given as the bytes of its entries and of its places, and what the index is to say in other words.
    """
    index, body = b"", b""
    for entries, places, changes in blocks:
        block = {
            "first": "a",
            "count": 1,
            "bytes": 1,
            "entries": len(entries),
            "places": len(places),
            "identity": blake3(entries).hexdigest(),
            "digest": blake3(places).hexdigest(),
            "latest": 1,
        }
        index += line(block | changes)
        body += b"- entries: [\n" + entries + b" ]\n  places: [\n" + places + b" ]\n"
    head = b"version: 1\nindex: [\n" + index + b" ]\nblocks:\n"
    return head + body + more, ListRef(blake3(head).hexdigest(), "", 1, 1, "a", "z", len(head), 1)


def file_line(name):
    return line({"name": name, "hash": "0" * 64, "size": 1, "mode": 420})


PLACE = line({"mtime": 0, "timestamp": 1, "at": ["0" * 64, 0]})


@given(listings, st.data())
def test_a_list_with_some_bytes_changed_is_found_out(entries, data):
    """Its digests vouch for every byte, so a change is never taken for an entry."""
    writer = UploadListWriter()
    writer.add(*entries)
    body, reference = writer.seal("i")
    at = data.draw(st.integers(0, len(body) - 1))
    changed = bytearray(body)
    changed[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptObject):
        in_memory(bytes(changed), reference).read_all()


@given(st.binary(max_size=300) | words.map(lambda text: b"version: 1\nindex: [\n " + text + b",\n ]\nblocks:\n"))
def test_bytes_that_are_no_list(body):
    assert not understood(lambda: read_reference(KEY, body, "i"))


@given(plain)
def test_a_list_whose_digests_are_right_and_whose_words_are_not(value):
    """Nothing but the shape can give it away: of an entry, of a place, and of a block in the index."""
    try:
        strange = line(value)
    except (msgspec.ValidationError, TypeError, UnicodeEncodeError):
        return
    for body, reference in (list_of((strange, PLACE, {})), list_of((file_line("a"), strange, {}))):
        assert not understood(
            lambda body=body, reference=reference: list(FileList.in_memory(KEY, reference, body).entries())
        )
    assert not understood(lambda: read_reference(KEY, list_of((strange, PLACE, {}))[0], "i"))
    head = b"version: 1\nindex: [\n" + strange + b" ]\nblocks:\n"
    assert not understood(lambda: read_reference(KEY, head, "i"))


@st.composite
def strange_lists(draw):
    """Lists of some blocks, whose digests are right, and whose lines, names, lengths and ends need not be."""
    blocks = []
    for _ in range(draw(st.integers(1, 3))):
        names = draw(st.lists(st.text("ab/-\xe9", min_size=1, max_size=3), max_size=3))
        names = sorted(names, key=sort_key) if draw(st.booleans()) else names
        ending = draw(st.sampled_from([b""] * 4 + [b" ", b"\n", b"x\n", b",\n"]))
        lines = b"".join(map(file_line, names)) + ending
        entries = draw(st.sampled_from([lines] * 6 + [b"", b"\n", b" {},\n", b" null,\n", lines[:-1], lines[:-2]]))
        places = draw(st.sampled_from([PLACE * len(names)] * 6 + [b"", PLACE * 5, b" {},\n", PLACE[:-2]]))
        length = draw(st.sampled_from([len(entries)] * 6 + [0, -5, 1, len(entries) + 5, 10**9, 10**12, 2**70]))
        count = draw(st.sampled_from([len(names), 10**9]))
        blocks.append(
            (entries, places, {"first": draw(st.sampled_from(names or ["a"])), "count": count, "entries": length})
        )
    more = draw(st.sampled_from([b""] * 4 + [b"x", b"- entries: [\n"]))
    body, reference = list_of(*blocks, more=more)
    ends = {"first": draw(st.sampled_from(["a", "b", "\xe9"])), "last": draw(st.sampled_from(["a", "z", "\xe9/"]))}
    return body, replace(reference, **ends)


ranges = st.builds(NameRange, st.sampled_from(["", "a", "b"]), st.sampled_from([None, "b", "c", "\xea"]))


@given(strange_lists(), ranges, st.sampled_from(["a", "b", "a\0", "\xe9", "", "zz"]))
def test_no_question_to_a_strange_list_hangs_or_is_a_bug(listed, names, key):
    """Whatever is asked of it: all, a part, the latest, one name, what stands before it, and its blocks."""
    body, reference = listed
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(folder)
        store.create(KEY, body)
        for ask in (
            lambda listed: listed.read_all(),
            lambda listed: list(listed.entries(names)),
            lambda listed: listed.latest(names),
            lambda listed: listed.find(key),
            lambda listed: listed.last_before(key),
            lambda listed: [raw.last for raw in listed.read_blocks(0, 1)],
        ):
            understood(lambda ask=ask: ask(FileList.stored(store, KEY, reference)))
        understood(lambda: read_reference(KEY, body, "i"))


def test_a_list_whose_last_line_does_not_end(tmp_path):
    """Found by a reviewer: looking up a name behind it went on for ever."""
    entries = b"".join(map(file_line, "abc"))
    store = open_store(str(tmp_path))
    for number, missing in enumerate((1, 2)):
        body, reference = list_of((entries[:-missing], PLACE * 3, {"count": 3}))
        store.create(f"{number}/{KEY}", body)
        listed = FileList.stored(store, f"{number}/{KEY}", reference)
        assert not understood(lambda listed=listed: list(listed.entries(NameRange("d", "e"))))
        assert not understood(lambda listed=listed: listed.last_before("d"))


def test_a_billion_entries_in_a_head_of_a_hundred_bytes():
    """What a head or a descriptor claims is not believed, and nothing is made ready for it."""
    for changes in (
        {"count": 10**9, "entries": 10},
        {"count": 10**9, "entries": 10**12},
        {"count": -1, "entries": 10},
        {"count": 1, "entries": -5},
        {"places": 10**12},
        {"places": -5},
    ):
        body, _ = list_of((b" {},\n", PLACE, changes))
        assert not understood(lambda body=body: read_reference(KEY, body, "i"))
    huge = ListRef("0" * 64, "0" * 64, 10**9, 10**18, "a", "b", 10**12, 1)
    assert not understood(lambda: list(FileList(KEY, huge, lambda start, length: b"").entries()))


@given(st.binary(max_size=200) | sizes.map(lambda size: b"version: 1\nsize: %d\nchunks:\n" % size))
def test_roots(body):
    understood(lambda: Root.read(KEY, body))


def test_a_root_whose_chunks_are_too_large_to_hold():
    body = Root([Chunk("0" * 64, 5)]).yaml()
    assert understood(lambda: Root.read(KEY, body))
    assert not understood(lambda: Root.read(KEY, Root([Chunk("0" * 64, 5_000_000_000)]).yaml()))


def test_a_root_whose_numbers_do_not_end():
    body = Root([Chunk("0" * 64, 1)]).yaml().replace(b"size: 1", b"size: " + b"1" * 10_000)
    assert not understood(lambda: Root.read(KEY, body))


@given(st.text(max_size=120) | st.sampled_from(BAD_IDS))
def test_ids_cannot_leave_their_folder(text):
    for check in (repo_name, diamond_id, split_id, bundle_id, label_name):
        refused = refusal(lambda check=check: check(text), BadUsage)
        assert refused is not None or re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", text)
        assert "\n" not in (refused or "")


@given(
    st.text(max_size=60) | st.lists(st.sampled_from(["..", ".", "", "a", "\0", "é", "\\"]), max_size=5).map("/".join)
)
def test_names_cannot_leave_their_folder(name):
    if name_problem(name) is None:
        parts = name.split("/")
        assert not {"", ".", ".."} & set(parts)
        assert "\0" not in name
        assert len(name.encode()) <= 1024


@given(st.binary(max_size=200) | st.text(alphabet='[]="\n.abstore1{}', max_size=100).map(str.encode))
def test_configuration_files(tmp_path_factory, body):
    file = tmp_path_factory.mktemp("config") / "datamon.toml"
    file.write_bytes(body)
    configuration.set_flag("DATAMON_CONFIG", str(file))
    refused = refusal(configuration.environment)
    configuration.forget_flags()
    assert refused is None or str(file) in refused


@pytest.mark.parametrize(
    "body",
    [
        "temporal." + "address." * 5000 + "b = 1",
        "a = " + "[" * 5000,
        "a." * 5000 + "b = 1",
        "a = " + "{b=" * 3000,
        "a = " + "1" * 5000,
    ],
)
def test_configuration_files_that_are_bombs(tmp_path, body):
    file = tmp_path / "datamon.toml"
    file.write_text(body)
    configuration.set_flag("DATAMON_CONFIG", str(file))
    refused = refusal(configuration.environment)
    configuration.forget_flags()
    assert str(file) in refused
    assert len(refused) < 1_000


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_lines_of_a_list(entries, places):
    understood(lambda: decode_entries(KEY, [entries + b",\n"], [places + b",\n"]))
