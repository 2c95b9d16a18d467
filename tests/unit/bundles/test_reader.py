"""Reading bundles: any bytes of any file, one level of folders, one name, and what is laid over a bundle."""

import random
from dataclasses import replace
from itertools import accumulate, pairwise

import pytest
from blake3 import blake3

from datamon.bundles.catalog import get_bundle, publish_bundle
from datamon.bundles.reader import BundleReader, overlaid, uploaded_lists
from datamon.bundles.repos import create_repo
from datamon.content.chunking import cut
from datamon.content.entry import SMALL_BYTES, Entry
from datamon.core.contributors import Contributor
from datamon.core.errors import CorruptFile, NotFound
from datamon.core.ids import RepoName
from datamon.core.names import NameRange, inside_folder, only_name, sort_key
from datamon.lists.cutting import Cutting
from datamon.lists.format import Deletion, rows_of
from datamon.lists.writer import UploadListWriter
from datamon.starter.advice import sentence
from datamon.stores import descriptors, keys
from tests.bundles import FOLDER, bundle_of, put_lists, reader_of

EMPTY = blake3(b"").hexdigest()
LARGE_BYTES = 20 << 20
SIZES = {"empty": 0, "one": 1, "small": SMALL_BYTES - 1, "smallest large": SMALL_BYTES, "large": LARGE_BYTES}


class Recording:
    """A blob store that remembers what was read of it."""

    def __init__(self, store):
        self._store, self.read = store, []

    def __getattr__(self, name):
        return getattr(self._store, name)

    def get(self, key, start=0, length=None):
        self.read.append((key, start, length))
        return self._store.get(key, start, length)


@pytest.fixture
def contents():
    return {name: random.Random(name).randbytes(size) for name, size in SIZES.items()}


@pytest.fixture
def reader(context, tmp_path, contents):
    """A reader of a bundle with a file of each size, whose content is in a store that remembers."""
    (tmp_path / "source").mkdir()
    for name, data in contents.items():
        (tmp_path / "source" / name).write_bytes(data)
    made = reader_of(context, tmp_path / "source")
    return replace(made, context=replace(context, blob=Recording(context.blob)))


def read(reader, name, start=0, length=None):
    return b"".join(reader.read(reader.find(name), start, length))


def starts_of(data):
    """Where the chunks of a large file begin, and where it ends."""
    return list(accumulate((len(chunk) for chunk in cut([data])), initial=0))


def ranges_of(data):
    """Ranges that begin and end at, before and behind whatever may matter; and some at random."""
    size = len(data)
    rng = random.Random(size)
    edges = {0, 1, size // 2, size - 1, size, size + 1, 2 * size + 5}
    edges |= {start + near for start in starts_of(data) for near in (-1, 0, 1)}
    edges = sorted(edge for edge in edges if 0 <= edge <= 2 * size + 5)
    yield from ((start, None) for start in edges)
    yield from (
        (start, stop - start) for start in edges for stop in rng.sample(edges, min(3, len(edges))) if stop >= start
    )
    yield from ((rng.randrange(size + 1), rng.randrange(size + 1)) for _ in range(10))


@pytest.mark.parametrize("name", SIZES)
def test_any_range_of_bytes_is_right(reader, contents, name):
    for start, length in ranges_of(contents[name]):
        wanted = contents[name][start:] if length is None else contents[name][start : start + length]
        assert read(reader, name, start, length) == wanted, (start, length)


def test_of_a_large_file_only_the_chunks_that_are_needed_are_read(reader, contents):
    entry, blob, large = reader.find("large"), reader.context.blob, contents["large"]
    spans = list(pairwise(starts_of(large)))
    assert len(spans) > 2
    for start, length in ranges_of(large):
        stop = LARGE_BYTES if length is None else min(LARGE_BYTES, start + length)
        touched = [keys.chunk(blake3(large[a:b]).hexdigest()) for a, b in spans if max(a, start) < min(b, stop)]
        blob.read.clear()
        list(reader.read(entry, start, length))
        wanted = {keys.root(entry.root), *touched} if touched else set()
        assert sorted(key for key, *_ in blob.read) == sorted(wanted), (start, length)


def test_of_a_small_file_its_own_bytes_are_read_and_of_an_empty_one_none(reader):
    entry, blob = reader.find("one"), reader.context.blob
    assert list(reader.read(reader.find("empty"))) == []
    assert list(reader.read(entry, 1)) == []
    assert list(reader.read(entry, 0, 0)) == []
    assert blob.read == []
    list(reader.read(entry))
    assert blob.read == [(keys.pack(entry.at.pack), entry.at.offset, 1)]


def test_a_range_of_a_large_file_comes_chunk_by_chunk(reader, contents):
    _, first, second, *_ = starts_of(contents["large"])
    given = list(reader.read(reader.find("large"), 5, second))
    assert [len(data) for data in given] == [first - 5, second - first, 5]


def damage(store, key):
    seen = store.get_versioned(key)
    store.replace(key, seen.body[:-1] + bytes([seen.body[-1] ^ 1]), seen.version)


@pytest.mark.parametrize("harm", [damage, lambda store, key: store.delete(key)], ids=["damaged", "missing"])
def test_a_chunk_that_is_wrong_is_noticed_and_nothing_of_it_is_given(context, reader, contents, harm):
    large = contents["large"]
    _, first, second, *_ = starts_of(large)
    key = keys.chunk(blake3(large[first:second]).hexdigest())
    harm(context.blob, key)
    assert read(reader, "large", 0, first) == large[:first]
    assert read(reader, "large", second) == large[second:]
    for start, length in ((0, None), (first - 1, 2), (first, 1), (second - 1, 1)):
        given = []
        with pytest.raises(CorruptFile, match=f"'large' in {key}"):
            given.extend(reader.read(reader.find("large"), start, length))
        assert b"".join(given) == large[start:first]


@pytest.mark.parametrize("harm", [damage, lambda store, key: store.delete(key)], ids=["damaged", "missing"])
def test_a_root_that_is_wrong_is_noticed(context, reader, harm):
    key = keys.root(reader.find("large").root)
    harm(context.blob, key)
    with pytest.raises(CorruptFile, match=f"'large' in {key}"):
        read(reader, "large", 0, 1)


def test_a_root_of_another_file_of_the_same_size_is_noticed(context, tmp_path):
    """Whoever writes lists can point to it, and every chunk is what its name says."""
    (tmp_path / "source").mkdir()
    for name in "ab":
        (tmp_path / "source" / name).write_bytes(random.Random(name).randbytes(SMALL_BYTES))
    a, b = reader_of(context, tmp_path / "source").entries()
    crossed = Entry("a", a.hash, a.size, a.mode, a.mtime, a.timestamp, None, b.root)
    reader = BundleReader(context, bundle_of(put_lists(context, [crossed])))
    with pytest.raises(CorruptFile, match="'a' in roots/"):
        read(reader, "a")


def test_a_pack_that_is_wrong_is_noticed_for_any_byte_of_a_file(context, reader):
    """The last byte of the file is wrong, and the first is asked for."""
    pack, offset, *_ = reader.find("small").at
    seen = context.blob.get_versioned(keys.pack(pack))
    last = offset + SIZES["small"] - 1
    wrong = seen.body[:last] + bytes([seen.body[last] ^ 1]) + seen.body[last + 1 :]
    context.blob.replace(keys.pack(pack), wrong, seen.version)
    with pytest.raises(CorruptFile, match=f"'small' in {keys.pack(pack)}"):
        read(reader, "small", 0, 1)


def file(name, mark=0):
    return Entry(name, EMPTY, 0, 420, mark, 0)


def random_names(rng, count, depth=4):
    """Names of files, none below another, many of which look alike."""
    names = set()
    for _ in range(count):
        parts = [rng.choice(["a", "a-1", "a.b", "b", "ä", "\x01", "~"]) for _ in range(rng.randint(1, depth))]
        names.add("/".join(parts))
    return sorted((name for name in names if not names & set(folders_above(name))), key=sort_key)


def folders_above(name):
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def one_level(names, folder):
    """What lies directly in a folder, as a plain look at all names says."""
    prefix = f"{folder}/" if folder else ""
    below = [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
    level = {(part, slash) for part, slash, _ in (name.partition("/") for name in below)}
    return [f"{prefix}{part}{slash}" for part, slash in sorted(level)]


@pytest.mark.parametrize("seed", range(40))
def test_a_folder_lists_the_files_and_folders_of_one_level(context, seed):
    rng = random.Random(seed)
    names = random_names(rng, rng.choice([0, 1, 10, 100, 400]))
    lists = put_lists(context, list(map(file, names)), Cutting(block_entries=2, list_entries=8))
    reader = BundleReader(context, bundle_of(lists))
    folders = {"", "nowhere", *names, *(folder for name in names for folder in folders_above(name))}
    for folder in folders:
        shown = [one if isinstance(one, str) else one.name for one in reader.folder(folder)]
        assert shown == one_level(names, folder), folder


def test_what_is_in_a_folder_below_is_passed_over_unread(context):
    names = [f"{folder}/{number:04d}" for folder in "abc" for number in range(2_000)]
    lists = put_lists(context, [*map(file, names), file("d")], Cutting(block_entries=64, list_entries=256))
    counted = Recording(context.metadata)
    reader = BundleReader(replace(context, metadata=counted), bundle_of(lists))
    assert [one if isinstance(one, str) else one.name for one in reader.folder("")] == ["a/", "b/", "c/", "d"]
    assert len({key for key, *_ in counted.read}) <= 8 < len(lists)


@pytest.mark.parametrize("seed", range(20))
def test_a_name_is_found_if_it_is_there(context, seed):
    names = random_names(random.Random(seed), 200)
    reader = BundleReader(context, bundle_of(put_lists(context, list(map(file, names)), Cutting(2, 8))))
    assert [reader.find(name).name for name in names] == names
    missing = {name + more for name in names for more in ("x", "/x", "-")} | {
        n for m in names for n in folders_above(m)
    }
    for name in sorted(missing - set(names)):
        with pytest.raises(NotFound):
            reader.find(name)


def test_a_name_that_is_not_there_is_said_in_a_sentence(reader):
    with pytest.raises(NotFound, match="there is no file 'nothing'") as refusal:
        reader.find("nothing")
    assert sentence(refusal.value).endswith("`datamon bundle list files` shows all files")


def test_a_bundle_can_be_read_under_any_repo_name(context, reader, contents):
    """Its descriptor is copied byte for byte, as a clone does it, and the repo that it was made in goes."""
    first, other = RepoName("made-here"), RepoName("cloned-here")
    create_repo(context, first, "", Contributor("Ada"), 0)
    create_repo(context, other, "", Contributor("Ada"), 0)
    publish_bundle(context, first, reader.bundle)
    bundle = reader.bundle.id
    context.metadata.create(keys.bundle(other, bundle), context.metadata.get(keys.bundle(first, bundle)))
    for key in (keys.bundle(first, bundle), keys.repo(first)):
        context.metadata.delete(key)
    clone = BundleReader(context, get_bundle(context, other, bundle))
    assert clone.bundle == reader.bundle
    assert {entry.name: b"".join(clone.read(entry)) for entry in clone.entries()} == contents
    text = descriptors.dump(clone.bundle).decode()
    assert not any(repo in text for repo in (first, other))


def random_layer(rng, mark, *, deletes=True):
    """Files and deletions as a list may hold them. `mark` tells from which layer a file is."""
    files = random_names(rng, rng.choice([0, 1, 3, 8, 15]))
    deleted = {*random_names(rng, 3), *(f"{name}/" for name in random_names(rng, 3, depth=2))} if deletes else set()
    deleted |= {"/"} if deletes and rng.random() < 0.1 else set()
    deleted -= set(files)
    # nothing but the deletion of what was below it may stand below a file of the same list
    deleted = {name for name in deleted if not any(name.startswith(f"{one}/") and name != f"{one}/" for one in files)}
    layer = [*(file(name, mark) for name in files), *(Deletion(name, 0) for name in deleted if rng.random() < 0.7)]
    return sorted(layer, key=lambda entry: sort_key(entry.name))


def lay(files, layer):
    """The naive model: what is there, as {name: entry}, after one more layer."""
    for deletion in (entry for entry in layer if isinstance(entry, Deletion)):
        if deletion.name == "/":
            files = {}
        elif deletion.is_folder:
            files = {name: entry for name, entry in files.items() if not name.startswith(deletion.name)}
        else:
            files = {name: entry for name, entry in files.items() if name != deletion.name}
    for new in (entry for entry in layer if isinstance(entry, Entry)):
        above = set(folders_above(new.name))
        files = {n: e for n, e in files.items() if n not in above and not n.startswith(f"{new.name}/")}
        files[new.name] = new
    return files


def laid(base, layers):
    files = {entry.name: entry for entry in base}
    for layer in layers:
        files = lay(files, layer)
    return sorted(files.values(), key=lambda entry: sort_key(entry.name))


@pytest.mark.parametrize("seed", range(8))
def test_an_overlay_is_what_a_dictionary_says_it_is(seed):
    rng = random.Random(seed)
    for _ in range(100):
        base = random_layer(rng, 0, deletes=False)
        layers = [random_layer(rng, mark) for mark in range(1, rng.randint(2, 6))]
        for layer in (base, *layers):
            rows_of(layer)  # such a list can be written
        assert list(overlaid([base, *layers])) == laid(base, layers), (base, layers)


EXAMPLES = {
    "the later layer wins": (["a"], [["a"], ["a"]], ["a2"]),
    "a name is deleted": (["a", "b"], [["-a"]], ["b0"]),
    "and comes back": (["a"], [["-a"], ["a"]], ["a2"]),
    "a deleted name leaves what is below": (["a/b"], [["-a"]], ["a/b0"]),
    "a folder is deleted": (["a", "b/c", "b/d/e", "b-1"], [["-b/"]], ["a0", "b-10"]),
    "a deleted folder leaves the file of its name": (["a"], [["-a/"]], ["a0"]),
    "everything is deleted": (["a", "b/c"], [["-/"]], []),
    "but for what comes in the same layer": (["a", "b/c"], [["-/", "b/d"]], ["b/d1"]),
    "a file replaces everything below it": (["a/b", "a/c/d", "a-1"], [["a"]], ["a1", "a-10"]),
    "a file replaces the file above it": (["a"], [["a/b"]], ["a/b1"]),
    "what made room does so even if it goes": (["a", "b"], [["a/b"], ["-a/b"]], ["b0"]),
    "a file over a file below a file": (["a"], [["a/b"], ["a"]], ["a2"]),
    "what an older layer deletes, a newer one has": (["a/b"], [["-a/"], ["a/b"]], ["a/b2"]),
}


@pytest.mark.parametrize(("base", "layers", "result"), EXAMPLES.values(), ids=EXAMPLES)
def test_overlays_by_example(base, layers, result):
    def entries(names, mark):
        made = [Deletion(name[1:], 0) if name.startswith("-") else file(name, mark) for name in names]
        return sorted(made, key=lambda entry: sort_key(entry.name))

    stacked = [entries(layer, mark) for mark, layer in enumerate(layers, 1)]
    assert [f"{entry.name}{entry.mtime}" for entry in overlaid([entries(base, 0), *stacked])] == result


@pytest.mark.parametrize("seed", range(30))
def test_a_reader_shows_a_bundle_with_what_is_laid_over_it(context, seed):
    rng = random.Random(seed)
    base = random_layer(rng, 0, deletes=False)
    layers = [layer for layer in (random_layer(rng, mark) for mark in (1, 2, 3)) if layer]
    overlay = []
    for number, layer in enumerate(layers):
        writer = UploadListWriter()
        writer.add(*layer)
        body, reference = writer.seal(keys.upload_index(1, "abcdefgh", number))
        context.vmetadata.create(keys.uploaded_list(FOLDER, reference.index), body)
        overlay.append(uploaded_lists(context, FOLDER, [reference]))
    reader = BundleReader(context, bundle_of(put_lists(context, base)), overlay)
    files = laid(base, layers)
    assert list(reader.entries()) == files
    names = {entry.name for layer in (base, *layers) for entry in layer if not entry.name.endswith("/")}
    for start in sorted(map(sort_key, names)):
        for inside in (only_name(start), inside_folder(start), NameRange(start), NameRange("", start)):
            expected = [entry for entry in files if inside.holds(sort_key(entry.name))]
            assert list(reader.entries(inside)) == expected, (start, inside)
