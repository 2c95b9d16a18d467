"""Reads a store with nothing but PyYAML and blake3, and asserts what must hold whatever happened.

Nothing of datamon is used here: the layout, the rules and the digests are spelled out once more, from docs/formats.md
and docs/semantics.md, as plainly as can be. A store is a mapping of keys to bytes.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import yaml
from blake3 import blake3

_ID = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_HEX = r"[0-9a-f]{64}"
_LAYOUT = re.compile(
    rf"""
    metadata/repos/{_ID}/repo\.yaml
    | metadata/diamonds/{_ID}/{_ID}\.yaml
    | metadata/bundles/{_ID}/{_ID}/(bundle|bundle-files-c?\d{{5}}-\d{{3}})\.yaml
    | vmetadata/labels/{_ID}/{_ID}/(label|history/{_ID})\.yaml
    | vmetadata/diamonds/{_ID}/{_ID}/diamond\.yaml
    | vmetadata/diamonds/{_ID}/{_ID}/splits/{_ID}/split\.yaml
    | vmetadata/diamonds/{_ID}/{_ID}/splits/{_ID}/(bundle-files-g\d+-[0-9a-f]{{8}}-\d{{5}}|slice-[0-9a-z-]+)\.yaml
    | vmetadata/diamonds/{_ID}/{_ID}/splits/{_ID}/names-[0-9a-f]{{16}}\.txt
    | blob/(packs|chunks|roots)/([0-9a-f]{{2}})/{_HEX}
    """,
    re.VERBOSE,
)
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
        if key.startswith("blob/"):
            _need(key.split("/")[2] == key.split("/")[3][:2], f"{key} is in the wrong folder")
            _need(blake3(store[key]).hexdigest() == key.rsplit("/", 1)[1], f"{key} has other bytes than its name says")
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
    folder = f"metadata/bundles/{repo}/{bundle}/"
    lists = _yaml(store, f"{folder}bundle.yaml")["lists"]
    return {entry["name"]: _content(store, entry) for entry in _entries(store, f"{folder}bundle-files-", lists)}


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
    entries = _entries(store, f"{folder}bundle-files-", split["lists"], f"g{split['generation']}-")
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
    origin = bundle["diamond"]
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
        for entry in _entries(store, f"{folder}splits/{split}/bundle-files-", found["lists"]):
            rank = one["position"] if origin["order"] == "added" else entry["timestamp"]
            versions.append((entry["name"], (rank, split), entry))
    winners, losers = _settled(versions)
    wanted = dict(winners)
    if origin["mode"] in _FOLDERS:
        wanted |= {f"{_FOLDERS[origin['mode']]}/{split}/{name}": entry for name, split, entry in losers}
    key = f"metadata/bundles/{expected.repo}/{bundle['id']}/bundle-files-"
    entries = _entries(store, key, bundle["lists"])
    names = [entry["name"] for entry in entries]
    _need(len(set(names)) == len(names), "a name is in the bundle twice")
    got, wanted = ({name: _all_but_name(entry) for name, entry in some.items()} for some in (_by_name(entries), wanted))
    differ = sorted(name for name in got.keys() | wanted.keys() if got.get(name) != wanted.get(name))
    _need(not differ, f"in the bundle, but not by the rules, or the other way: {differ[:6]}")
    won = [entry["name"] for entry in _entries(store, key, [i for i in bundle["lists"] if i["index"][0] != "c"])]
    _need(won == sorted(won, key=_order), "the lists of the bundle do not follow each other")
    for entry in entries:
        _content(store, entry)
    listed = {f"{key}{info['index']}.yaml" for info in bundle["lists"]}
    _need(
        {found for found in store if found.startswith(key)} == listed, "there are lists that bundle.yaml does not name"
    )
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
            if not bundle.get("given_up") and bundle["diamond"]["id"] == diamond:
                _need(bundle["id"] == key.split("/")[3], f"{key} says it is {bundle['id']}")
                found.append(bundle)
    return found


def _entries(store, start, lists, index=""):
    """The entries of some lists, every byte of which the digests vouch for."""
    found = []
    for info in lists:
        key = f"{start}{info['index']}.yaml"
        _need(info["index"].startswith(index), f"{key} is of another generation")
        _need(key in store, f"{key} is missing")
        body = store[key]
        head, rest = body[: info["head"]], body[info["head"] :]
        _need(blake3(head).hexdigest() == info["digest"], f"the head of {key} has another digest")
        top = yaml.load(head, Loader=yaml.CSafeLoader)
        _need(top["version"] == 2 and top["entries"] is None, f"{key} has another head")
        for block in top["blocks"]:
            part, rest = rest[: block["length"]], rest[block["length"] :]
            _need(blake3(part).hexdigest() == block["digest"], f"a block of {key} has another digest")
        _need(not rest, f"{key} goes on behind its blocks")
        entries = [json.loads(line[2:]) for line in body[info["head"] :].splitlines()]
        if len(entries) <= 200:  # a machine may read it as JSON lines, and people and YAML see the same
            _need(yaml.load(body, Loader=yaml.CSafeLoader)["entries"] == entries, f"{key} is something else as YAML")
        names = [entry["name"] for entry in entries]
        _need(names == sorted(names, key=_order), f"{key} is not in order")
        _need(
            (names[0], names[-1], len(names)) == (info["first"], info["last"], info["count"]),
            f"{key} is told of wrongly",
        )
        found += entries
    return found


def _content(store, entry):
    """The bytes of a file, which are those that its hash says."""
    if entry.get("root"):
        root = _yaml(store, f"blob/roots/{entry['root'][:2]}/{entry['root']}")
        data = b"".join(_object(store, f"blob/chunks/{chunk[:2]}/{chunk}") for chunk in root["chunks"])
    elif entry.get("at"):
        pack, start = entry["at"]
        data = _object(store, f"blob/packs/{pack[:2]}/{pack}")[start : start + entry["size"]]
    else:
        data = b""
    _need(len(data) == entry["size"], f"{entry['name']!r} has {len(data)} bytes, not {entry['size']}")
    _need(blake3(data).hexdigest() == entry["hash"], f"the bytes of {entry['name']!r} have another hash")
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


def _need(holds, why):
    if not holds:
        raise Wrong(why)
