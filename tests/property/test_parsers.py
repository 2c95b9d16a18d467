"""Whatever bytes lie where datamon reads: they are understood, or refused in a sentence that says where."""

import re
import tempfile

import msgspec
import pytest
import yaml
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from datamon import config, descriptors
from datamon.content import Root, root_yaml
from datamon.errors import BadUsage, CorruptObject, DatamonError
from datamon.filelist import FileList, ListWriter, read_info, unlisted
from datamon.ids import bundle_id, diamond_id, label_name, repo_name, split_id
from datamon.model import Bundle, Contributor, Diamond, Entry, GivenId, Label, ListInfo, Repo, Split
from datamon.names import NameRange, flaw, order
from datamon.stores import open_store
from tests.lists import in_memory
from tests.property.strategies import listings

KINDS = [Repo, Bundle, Label, GivenId, Diamond, Split]
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
    names = [field.name for field in msgspec.structs.fields(kind)] if _is_struct(kind) else list(_hints(kind))
    known = st.dictionaries(st.sampled_from(names), plain | st.just({}) | st.just([{}]), max_size=len(names))
    return known.map(lambda found: found | {"version": 1})


def _is_struct(kind):
    return issubclass(kind, msgspec.Struct)


def _hints(kind):
    return kind.__dataclass_fields__


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
    ("body", "why"),
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
def test_bombs(body, why):
    with pytest.raises(CorruptObject, match=re.escape(why)) as refused:
        descriptors.load(Repo, KEY, body)
    assert KEY in str(refused.value)
    assert len(str(refused.value)) < 1_000


@given(listings, st.data())
def test_a_list_with_some_bytes_changed_is_found_out(entries, data):
    """Its digests vouch for every byte, so a change is never taken for an entry."""
    writer = ListWriter()
    writer.add(*entries)
    body, info = writer.seal("i")
    at = data.draw(st.integers(0, len(body) - 1))
    changed = bytearray(body)
    changed[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptObject):
        in_memory(bytes(changed), info).check()


@given(st.binary(max_size=300) | words.map(lambda text: b"version: 2\nblocks:\n- " + text))
def test_bytes_that_are_no_list(body):
    understood(lambda: read_info(KEY, body, "i"))


@given(plain)
def test_a_list_whose_digests_are_right_and_whose_words_are_not(entry):
    """Written by a stranger who knows how: nothing but the shape can give it away."""
    try:
        line = b"- " + msgspec.json.encode(entry) + b"\n"
    except (msgspec.ValidationError, TypeError, UnicodeEncodeError):
        return
    block = {"first": "a", "count": 1, "length": len(line), "latest": 1, "digest": blake3(line).hexdigest()}
    head = b"version: 2\nblocks:\n- " + msgspec.json.encode(block) + b"\nentries:\n"
    assert not understood(lambda: read_info(KEY, head + line, "i"))


@st.composite
def strange_lists(draw):
    """Lists of some blocks, whose digests are right, and whose lines, names, lengths and ends need not be."""
    bodies, blocks = [], []
    for _ in range(draw(st.integers(1, 3))):
        names = draw(st.lists(st.text("ab/-\xe9", min_size=1, max_size=3), max_size=3))
        names = sorted(names, key=order) if draw(st.booleans()) else names
        lines = [b"- " + msgspec.json.encode(Entry(name, "0" * 64, 1, 420, 0, 1, ("0" * 64, 0))) for name in names]
        ending = draw(st.sampled_from([b"\n"] * 4 + [b"", b" ", b"\n\n", b"x\n"]))
        body = draw(st.sampled_from([b"\n".join(lines) + ending] * 6 + [b"", b"\n", b"- {}\n", b"- null\n"]))
        length = draw(st.sampled_from([len(body)] * 6 + [0, -5, 1, len(body) + 5, 10**9, 10**12, 2**70]))
        block = {"first": draw(st.sampled_from(names or ["a"])), "count": draw(st.sampled_from([len(names), 10**9]))}
        blocks.append(block | {"length": length, "latest": 1, "digest": blake3(body).hexdigest()})
        bodies.append(body)
    head = (
        b"version: 2\nblocks:\n" + b"".join(b"- " + msgspec.json.encode(one) + b"\n" for one in blocks) + b"entries:\n"
    )
    ends = draw(st.sampled_from(["a", "b", "\xe9"])), draw(st.sampled_from(["a", "z", "\xe9/"]))
    return head + b"".join(bodies), ListInfo("i", 1, 1, *ends, blake3(head).hexdigest(), len(head), 1)


ranges = st.builds(NameRange, st.sampled_from(["", "a", "b"]), st.sampled_from([None, "b", "c", "\xea"]))


@given(strange_lists(), ranges, st.sampled_from(["a", "b", "a\0", "\xe9", "", "zz"]))
def test_no_question_to_a_strange_list_hangs_or_is_a_bug(listed, names, key):
    """Whatever is asked of it: all, a part, the latest, what stands above; read in parts, or held."""
    body, info = listed
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(folder)
        store.create(KEY, body)
        for ask in (
            lambda found: found.check(),
            lambda found: found.entries(names),
            lambda found: found.latest(names),
            lambda found: found.above(key),
            lambda found: found.hold(names).entries(names),
            lambda found: found.hold(names).above(key) if names.holds(key) else None,
        ):
            understood(lambda ask=ask: ask(FileList.stored(store, KEY, info)))
        understood(lambda: read_info(KEY, body, "i"))


def test_a_list_whose_last_line_does_not_end(tmp_path):
    """Found by a reviewer: looking up a name behind it went on for ever."""
    lines = b"".join(b"- " + msgspec.json.encode(Entry(name, "0" * 64, 1, 420, 0, 1)) + b"\n" for name in "abc")[:-1]
    block = {"first": "a", "count": 3, "length": len(lines), "latest": 1, "digest": blake3(lines).hexdigest()}
    head = b"version: 2\nblocks:\n- " + msgspec.json.encode(block) + b"\nentries:\n"
    store = open_store(str(tmp_path))
    store.create(KEY, head + lines)
    info = ListInfo("i", 3, 3, "a", "z", blake3(head).hexdigest(), len(head), 1)
    assert not understood(lambda: FileList.stored(store, KEY, info).entries(NameRange("d", "e")))


def test_a_billion_entries_in_a_head_of_a_hundred_bytes():
    """What a head or a descriptor claims is not believed, and nothing is made ready for it."""
    for count, length in ((10**9, 10), (10**9, 10**12), (-1, 10), (1, -5)):
        block = b'- {"first":"a","count":%d,"length":%d,"latest":1,"digest":"%s"}\n' % (count, length, b"0" * 64)
        body = b"version: 2\nblocks:\n" + block + b"entries:\n- {}\n"
        assert not understood(lambda body=body: read_info(KEY, body, "i"))
    huge = ListInfo("i", 10**9, 10**18, "a", "b", "0" * 64, 10**12, 1)
    assert not understood(lambda: FileList(KEY, huge, lambda start, length: b"").entries())


@given(st.binary(max_size=200) | sizes.map(lambda size: b"version: 1\nsize: %d\nchunk: 1\nchunks:\n" % size))
def test_roots(body):
    understood(lambda: Root.read(KEY, body))


def test_a_root_whose_chunks_are_too_large_to_hold():
    body = root_yaml(5, ["0" * 64])
    assert understood(lambda: Root.read(KEY, body))
    assert not understood(lambda: Root.read(KEY, body.replace(b"chunk: 16777216", b"chunk: 1000000000000")))


def test_a_root_whose_numbers_do_not_end():
    body = root_yaml(1, ["0" * 64]).replace(b"size: 1", b"size: " + b"1" * 10_000)
    assert not understood(lambda: Root.read(KEY, body))


@given(st.text(max_size=120) | st.sampled_from(BAD_IDS))
def test_ids_cannot_leave_their_folder(text):
    for check in (repo_name, diamond_id, split_id, bundle_id, label_name):
        said = refusal(lambda check=check: check(text), BadUsage)
        assert said is not None or re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", text)
        assert "\n" not in (said or "")


@given(
    st.text(max_size=60) | st.lists(st.sampled_from(["..", ".", "", "a", "\0", "é", "\\"]), max_size=5).map("/".join)
)
def test_names_cannot_leave_their_folder(name):
    if flaw(name) is None:
        parts = name.split("/")
        assert not {"", ".", ".."} & set(parts)
        assert "\0" not in name
        assert len(name.encode()) <= 1024


@given(st.binary(max_size=200) | st.text(alphabet='[]="\n.abstore1{}', max_size=100).map(str.encode))
def test_configuration_files(tmp_path_factory, body):
    file = tmp_path_factory.mktemp("config") / "datamon.toml"
    file.write_bytes(body)
    config.set_flag("DATAMON_CONFIG", str(file))
    said = refusal(config.environment)
    config.forget_flags()
    assert said is None or str(file) in said


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
    config.set_flag("DATAMON_CONFIG", str(file))
    said = refusal(config.environment)
    config.forget_flags()
    assert str(file) in said
    assert len(said) < 1_000


@given(st.binary(max_size=300))
def test_lines_of_a_list(body):
    assert isinstance(unlisted(body), list)
