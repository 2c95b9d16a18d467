"""Reads a store with nothing but PyYAML, blake3 and zstd, and asserts what must hold whatever happened.

Nothing of datamon is used here: the layout, the rules and the digests are spelled out once more, from
docs/internals/formats.md and docs/concepts/semantics.md, as plainly as can be. A store is a mapping of keys to bytes.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import yaml
import zstandard
from blake3 import blake3

_ID = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_HEX = r"[0-9a-f]{64}"
_LAYOUT = re.compile(
    rf"""
    metadata/repos/{_ID}/repo\.yaml
    | metadata/diamonds/{_ID}/{_ID}\.yaml
    | metadata/bundles/{_ID}/{_ID}/bundle\.yaml
    | metadata/lists/[0-9a-f]{{2}}/{_HEX}
    | vmetadata/labels/{_ID}/{_ID}/(label|history/{_ID})\.yaml
    | vmetadata/diamonds/{_ID}/{_ID}/diamond\.yaml
    | vmetadata/diamonds/{_ID}/{_ID}/splits/{_ID}/split\.yaml
    | vmetadata/diamonds/{_ID}/{_ID}/splits/{_ID}/bundle-files-g\d+-[0-9a-f]{{8}}-\d{{5}}\.yaml
    | vmetadata/diamonds/{_ID}/{_ID}/splits/{_ID}/chunks-g\d+-[0-9a-f]{{8}}-[0-9a-f]{{16}}\.yaml
    | vmetadata/diamonds/{_ID}/{_ID}/splits/{_ID}/names-[0-9a-f]{{16}}\.txt
    | vmetadata/diamonds/{_ID}/{_ID}/splits/{_ID}/skipped-g\d+-[0-9a-f]{{8}}-(plan|\d{{5}})\.jsonl
    | blob/(packs|chunks|roots)/[0-9a-f]{{2}}/{_HEX}
    | (metadata|vmetadata|blob)/conditional-writes
    | metadata/store\.yaml
    """,
    re.VERBOSE,
)
_TOP, _END = b"version: 1\nindex: [\n", b" ]\nblocks:\n"  # what the head of a list begins and ends with
_OPEN, _BETWEEN, _CLOSE = b"- entries: [\n", b" ]\n  places: [\n", b" ]\n"  # what is around the lines of a block
_ZSTD = b"\x28\xb5\x2f\xfd"
_FOLDERS = {"with-conflicts": ".conflicts", "with-checkpoints": ".checkpoints"}


class Wrong(AssertionError):
    """Something that must never be."""


@dataclass(frozen=True)
class Expected:
    """What is known of a diamond without asking datamon.

    `sources` has, by split, the contents that its files may have: more than one where a file was changed meanwhile, and
    None among them where it may be gone.
    `state` is what Temporal says, and `splits` what it says of each: its state and generation. `sure` names splits
    whose client was told that they are done. `modes` and `order` are those that a client has asked for.
    """

    repo: str
    diamond: str
    state: str
    sources: dict[str, dict[str, set[bytes | None]]]
    sure: frozenset[str] = frozenset()
    label: str = ""
    answered: str = ""  # the bundle that a client was told
    splits: dict[str, tuple[str, int]] | None = None
    modes: frozenset[str] = frozenset()
    order: str = ""
    conflicts: bool = False  # whether a commit was refused because there are some


@dataclass(frozen=True)
class Verdict:
    """What was found to be right."""

    state: str
    bundle: str = ""
    files: int = 0
    conflicts: int = 0
    splits: int = 0


def check(store: dict[str, bytes], expected: Expected) -> Verdict:
    """All that must hold of a diamond that has ended, and of all objects of the store."""
    for key in store:
        _need(_LAYOUT.fullmatch(key) is not None, f"{key} is outside the layout")
        if key.startswith("metadata/lists/") or (key.count("/") == 3 and key.startswith("blob/")):
            _need(key.split("/")[-2] == key.split("/")[-1][:2], f"{key} is in the wrong folder")
            _need(_digest_of(key, store[key]) == key.split("/")[-1], f"{key} has other bytes than its name says")
    repo, folder = expected.repo, f"vmetadata/diamonds/{expected.repo}/{expected.diamond}/"
    diamond = _yaml(store, f"{folder}diamond.yaml")
    _need(diamond["state"] == expected.state, f"the store says {diamond['state']}, Temporal {expected.state}")
    _yaml(store, f"metadata/diamonds/{repo}/{expected.diamond}.yaml")
    splits = {
        key.removeprefix(folder).split("/")[1]: _yaml(store, key) for key in store if _is_split(key, f"{folder}splits/")
    }
    for split, found in splits.items():
        _check_split(store, f"{folder}splits/{split}/", found, expected, ended=diamond["state"] in ("done", "canceled"))
    if expected.splits is not None:
        published = {split: (found["state"], found["generation"]) for split, found in splits.items()}
        _need(published == expected.splits, f"the store says {published}, Temporal {expected.splits}")
    states = [found["state"] for found in splits.values()]
    counted = {state: states.count(state) for state in ("running", "done", "failed")}
    told = {state: diamond["splits"].get(state, 0) for state in counted}
    _need(told == counted, f"diamond.yaml tells of {told}, there are {counted}")
    for split in expected.sure:
        _need(splits[split]["state"] == "done", f"{split} was done, and now is {splits[split]['state']}")
    bundles = _bundles_of(store, repo, expected.diamond)
    made = {bundle["id"] for bundle in bundles}
    _check_strays(store, repo, made, expected)
    _need(not diamond.get("making"), f"diamond.yaml still makes {diamond.get('making')}")
    if diamond["state"] != "done":
        _need(not bundles, f"a diamond that is {diamond['state']} has the bundle {[b['id'] for b in bundles]}")
        _need(not expected.answered, f"a client was told of bundle {expected.answered}")
        return Verdict(diamond["state"], splits=len(splits))
    _need(len(bundles) == 1, f"a done diamond has {len(bundles)} bundles")
    [bundle] = bundles
    _need(diamond["bundle"] == bundle["id"], f"{diamond['bundle']} is not {bundle['id']}")
    _need(expected.answered in ("", bundle["id"]), f"a client was told of {expected.answered}, not {bundle['id']}")
    _check_bundle(store, bundle, folder, splits, expected)
    if expected.label:
        label = _yaml(store, f"vmetadata/labels/{repo}/{expected.label}/label.yaml")
        _need(label["bundle"] == bundle["id"], f"label {expected.label} is at {label['bundle']}")
    return Verdict("done", bundle["id"], bundle["files"], bundle["conflicts"] + bundle["checkpoints"], len(splits))


def contents(store: dict[str, bytes], repo: str, bundle: str) -> dict[str, bytes]:
    """The files of a bundle, by name."""
    references = _yaml(store, f"metadata/bundles/{repo}/{bundle}/bundle.yaml")["lists"]
    return {entry["name"]: _content(store, entry) for entry in _bundle_entries(store, references)}


def _check_strays(store, repo, made, expected):
    """Nothing lies among the bundles and labels that no commit of this diamond has made."""
    start = f"metadata/bundles/{repo}/"
    for bundle in {key.removeprefix(start).split("/")[0] for key in store if key.startswith(start)} - made:
        found = _yaml(store, f"{start}{bundle}/bundle.yaml")
        _need(found.get("given_up"), f"there is a bundle {bundle} that nobody asked for")
    start = f"vmetadata/labels/{repo}/"
    labels = {key.removeprefix(start).split("/")[0] for key in store if key.startswith(start)}
    _need(labels <= {expected.label}, f"there are labels {labels}, asked for was {expected.label!r}")


def _check_split(store, folder, split, expected, *, ended):
    """A split that is done has lists of exactly what its source has, or had."""
    _need(not ended or split["state"] != "running", f"{folder} still runs")
    _need(split["state"] in ("running", "done", "failed"), f"{folder} is {split['state']}")
    _need(split["state"] != "failed" or split["reason"], f"{folder} failed without a reason")
    if split["state"] != "done":
        return
    source = expected.sources[split["id"]]
    entries = _split_entries(store, folder, split)
    names = [entry["name"] for entry in entries]
    _need(names == sorted(set(names), key=_order), f"{folder} is not in order, or has a name twice")
    missing = {name for name in set(source) - set(names) if None not in source[name]}
    _need(not missing, f"{folder} lacks {missing}")
    _need(set(names) <= set(source), f"{folder} has {set(names) - set(source)} that its source has not")
    for entry in entries:
        data = _content(store, entry)
        _need(data in source[entry["name"]], f"{folder} has other bytes of {entry['name']!r} than its source")
    _need(split["files"] == len(entries), f"{folder} tells of {split['files']} files, not {len(entries)}")
    _need(split["bytes"] == sum(entry["size"] for entry in entries), f"{folder} counts its bytes wrong")


def _check_bundle(store, bundle, folder, splits, expected):
    """The bundle has exactly what the rules say for the splits that were done."""
    origin = bundle["origin"]
    taken = {one["id"]: one for one in origin["splits"]}
    done = {split for split, found in splits.items() if found["state"] == "done"}
    left = {one["id"] for one in origin["left_out"]}
    _need(left == set(splits) - done, f"left out were {sorted(left)}")
    _need(not expected.order or origin["order"] == expected.order, f"the order is {origin['order']}")
    _need(not expected.modes or origin["mode"] in expected.modes, f"the mode is {origin['mode']}")
    _need(set(taken) == done, f"taken were {sorted(taken)}, done are {sorted(done)}")
    _need(len(taken) == len(origin["splits"]), "a split was taken twice")
    versions = []
    for split, one in taken.items():
        found = splits[split]
        _need(found["generation"] == one["generation"], f"{split} was taken in generation {one['generation']}")
        _need(found["position"] == one["position"], f"{split} was taken in position {one['position']}")
        for entry in _split_entries(store, f"{folder}splits/{split}/", found):
            rank = one["position"] if origin["order"] == "added" else entry["timestamp"]
            versions.append((entry["name"], (rank, split), entry))
    winners, losers = _settled(versions)
    wanted = dict(winners)
    if origin["mode"] in _FOLDERS:
        wanted |= {f"{_FOLDERS[origin['mode']]}/{split}/{name}": entry for name, split, entry in losers}
    entries = _bundle_entries(store, bundle["lists"])
    names = [entry["name"] for entry in entries]
    _need(len(set(names)) == len(names), "a name is in the bundle twice")
    got, wanted = ({name: _all_but_name(entry) for name, entry in some.items()} for some in (_by_name(entries), wanted))
    differ = sorted(name for name in got.keys() | wanted.keys() if got.get(name) != wanted.get(name))
    _need(not differ, f"in the bundle, but not by the rules, or the other way: {differ[:6]}")
    won = [entry["name"] for entry in _bundle_entries(store, [one for one in bundle["lists"] if not one["lost"]])]
    _need(won == sorted(won, key=_order), "the lists of the bundle do not follow each other")
    for entry in entries:
        _content(store, entry)
    lost = {name for name in names if name.startswith(tuple(f"{one}/" for one in _FOLDERS.values()))}
    _need(set(won) == set(names) - lost, "what lost is among what won, or the other way")
    _need(bundle["files"] == len(entries), "bundle.yaml counts its files wrong")
    _need(bundle["bytes"] == sum(entry["size"] for entry in entries), "bundle.yaml counts its bytes wrong")
    told = 0 if origin["mode"] == "ignore-conflicts" else len(losers)
    _need(bundle["conflicts"] + bundle["checkpoints"] == told, f"bundle.yaml tells of other conflicts than {told}")
    _need(origin["mode"] != "no-conflicts" or not losers, "conflicts were forbidden, and there are some")
    _need(losers or not expected.conflicts, "a commit was refused for conflicts, and there are none")


def _settled(versions):
    """The rules, every name against all others: quadratic, and easy to believe."""
    by_name: dict[str, list] = {}
    for name, rank, entry in versions:
        by_name.setdefault(name, []).append((rank, entry))
    best = {name: max(held, key=lambda version: version[0]) for name, held in by_name.items()}
    files = {name for name in by_name if best[name][0] > max(_below(name, best), default=(-1, ""))}
    winners, losers = {}, []
    for name, held in by_name.items():
        rank, first = best[name]
        losers += [(name, other[1], entry) for other, entry in held if entry["hash"] != first["hash"]]
        if name in files and not files & set(_above(name)):
            winners[name] = first
        else:
            losers.append((name, rank[1], first))
    return winners, losers


def _by_name(entries):
    return {entry["name"]: entry for entry in entries}


def _all_but_name(entry):
    return {field: value for field, value in entry.items() if field != "name"}


def _below(name, best):
    return [rank for other, (rank, _) in best.items() if other.startswith(f"{name}/")]


def _above(name):
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _bundles_of(store, repo, diamond):
    found = []
    for key in store:
        if re.fullmatch(rf"metadata/bundles/{re.escape(repo)}/[^/]+/bundle\.yaml", key):
            bundle = _yaml(store, key)
            if not bundle.get("given_up") and bundle["origin"]["diamond"] == diamond:
                _need(bundle["id"] == key.split("/")[3], f"{key} says it is {bundle['id']}")
                found.append(bundle)
    return found


def _split_entries(store, folder, split):
    """The entries of a split that is done, in the lists of its generation."""
    found = []
    for one in split["lists"]:
        key = f"{folder}bundle-files-{one['index']}.yaml"
        _need(one["index"].startswith(f"g{split['generation']}-"), f"{key} is of another generation")
        entries = _entries(store, [(key, one)])
        latest = max(entry["timestamp"] for entry in entries)
        _need(one["latest"] == latest, f"the latest entry of {key} is of {latest}")
        found += entries
    return found


def _bundle_entries(store, references):
    return _entries(store, [(f"metadata/lists/{one['digest'][:2]}/{one['digest']}", one) for one in references])


def _entries(store, listed):
    """The entries of some lists, given by their keys and the references to them."""
    found = []
    for key, reference in listed:
        whole = _checked_list(key, _object(store, key))
        names = [entry["name"] for entry in whole.entries]
        facts = {
            "digest": whole.digest,
            "identity": whole.identity,
            "head": whole.head,
            "count": len(names),
            "bytes": sum(entry["size"] for entry in whole.entries),
            "first": names[0],
            "last": names[-1],
            "deletions": 0,
        }
        wrong = sorted(field for field, value in facts.items() if reference[field] != value)
        _need(not wrong, f"{key} is referred to with another {', '.join(wrong)}")
        found += whole.entries
    return found


@dataclass(frozen=True)
class _List:
    """A file list that is what its digests say."""

    digest: str
    identity: str
    head: int
    entries: list[dict]


def _checked_list(key, body):
    """A list, every byte of which its digest vouches for: that is of the head, which has those of the blocks."""
    _need(body.startswith(_TOP) and _END in body, f"{key} has another head")
    length = body.index(_END) + len(_END)
    head, rest = body[:length], body[length:]
    blocks = _lines(key, head[len(_TOP) : -len(_END)])
    _need(len(blocks) > 0, f"{key} has no blocks")
    entries = []
    for block in blocks:
        size = len(_OPEN) + block["entries"] + len(_BETWEEN) + block["places"] + len(_CLOSE)
        entries += _checked_block(key, block, rest[:size])
        rest = rest[size:]
    _need(not rest, f"{key} goes on behind its blocks")
    names = [entry["name"] for entry in entries]
    _need(names == sorted(set(names), key=_order), f"{key} is not in order, or has a name twice")
    if len(entries) <= 200:  # a machine may read it line by line, and people and YAML see the same
        plain = yaml.load(body, Loader=yaml.CSafeLoader)
        same = [entry for block in plain["blocks"] for entry in _joined(block["entries"], block["places"])]
        _need((plain["index"], same) == (blocks, entries), f"{key} is something else as YAML")
    return _List(_digest(head), _digest("".join(block["identity"] for block in blocks).encode()), length, entries)


def _checked_block(key, block, body):
    """The entries of a block, which are what the index says."""
    middle = len(_OPEN) + block["entries"]
    entries, places = body[len(_OPEN) : middle], body[middle + len(_BETWEEN) : -len(_CLOSE)]
    _need(_digest(entries) == block["identity"], f"the entries of a block of {key} have another digest")
    _need(_digest(places) == block["digest"], f"the places of a block of {key} have another digest")
    _need(body == _OPEN + entries + _BETWEEN + places + _CLOSE, f"{key} has other words around a block")
    named, placed = _lines(key, entries), _lines(key, places)
    _need(len(named) == len(placed) == block["count"], f"a block of {key} has not {block['count']} entries")
    _need(not any(entry.get("deleted") for entry in named), f"{key} deletes something")
    _need(sum(entry["size"] for entry in named) == block["bytes"], f"a block of {key} counts its bytes wrong")
    _need(named[0]["name"] == block["first"], f"a block of {key} begins with {named[0]['name']!r}")
    return _joined(named, placed)


def _joined(entries, places):
    return [entry | place for entry, place in zip(entries, places, strict=True)]


def _lines(key, body):
    """JSON objects, one a line, each with a space before it and a comma behind it."""
    lines = body.split(b"\n")
    _need(lines.pop() == b"", f"{key} ends within a line")
    _need(all(line[:2] == b" {" and line[-2:] == b"}," for line in lines), f"{key} has a line that is no entry")
    return [json.loads(line[1:-1]) for line in lines]


def _digest_of(key, body):
    """What an object of the store must be named."""
    if key.startswith("metadata/"):
        return _checked_list(key, body).digest
    return _digest(_plain(key, body) if key.startswith("blob/chunks/") else body)


def _content(store, entry):
    """The bytes of a file, which are those that its hash says."""
    if entry.get("root"):
        data = _chunks(store, f"blob/roots/{entry['root'][:2]}/{entry['root']}")
    elif entry.get("at"):
        pack, offset, *frame = entry["at"]
        key = f"blob/packs/{pack[:2]}/{pack}"
        held = _object(store, key)
        if frame:
            start, length = frame
            held = _plain(key, held[start : start + length], framed=True)
        data = held[offset : offset + entry["size"]]
    else:
        data = b""
    _need(len(data) == entry["size"], f"{entry['name']!r} has {len(data)} bytes, not {entry['size']}")
    hashed = f"link\0{entry['link']}".encode() if "link" in entry else data
    _need(_digest(hashed) == entry["hash"], f"the bytes of {entry['name']!r} have another hash")
    return data


def _chunks(store, key):
    """The bytes of the chunks that a root lists, in order."""
    root, parts = _yaml(store, key), []
    for digest, size in root["chunks"]:
        chunk = f"blob/chunks/{digest[:2]}/{digest}"
        parts.append(_plain(chunk, _object(store, chunk)))
        _need(len(parts[-1]) == size, f"{chunk} has {len(parts[-1])} bytes, and {key} says {size}")
    data = b"".join(parts)
    _need(len(data) == root["size"], f"{key} says {root['size']} bytes, and its chunks have {len(data)}")
    return data


def _plain(key, stored, *, framed=False):
    """What a chunk or a frame holds: zstd says so in its first bytes, and how much it is."""
    if not framed and not stored.startswith(_ZSTD):
        return stored
    try:
        data = zstandard.ZstdDecompressor().decompress(stored, allow_extra_data=False)
        _need(zstandard.frame_content_size(stored) == len(data), f"{key} does not say how much it holds")
    except zstandard.ZstdError as error:
        raise Wrong(f"{key} cannot be decompressed: {error}") from None
    return data


def _object(store, key):
    _need(key in store, f"{key} is missing")
    return store[key]


def _yaml(store, key):
    found = yaml.load(_object(store, key), Loader=yaml.CSafeLoader)
    _need(isinstance(found, dict) and found["version"] == 1, f"{key} is no descriptor")
    return found


def _is_split(key, folder):
    return key.startswith(folder) and key.endswith("/split.yaml")


def _order(name):
    return name.split("/")


def _digest(data):
    return blake3(data).hexdigest()


def _need(holds, otherwise):
    if not holds:
        raise Wrong(otherwise)
