"""The checker itself: it takes what is right, and finds each thing that is wrong."""

from dataclasses import replace

import pytest
import yaml

from datamon.bundles.catalog import get_bundle
from datamon.stores.context import open_context
from tests.faults.checker import Expected, Wrong, check

SPLITS = ("one", "two")


@pytest.fixture(scope="module")
def made(stack, tmp_path_factory):
    """A store with a bundle of two splits that clash, and what is known of it."""
    folder = tmp_path_factory.mktemp("made")
    command = stack
    repo = command("repo", "create", "--repo", "checked")
    where = ("--repo", repo, "--diamond", command("diamond", "initialize", "--repo", repo))
    sources = {}
    for split in SPLITS:
        tree = {"same": b"same", "clash": split.encode(), f"only/{split}": b"x" * 100}
        tree["x/y" if split == "one" else "x"] = b"1"
        for name, body in tree.items():
            (folder / split / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / split / name).write_bytes(body)
        command("diamond", "add", *where, "--path", str(folder / split), "--split", split, "--create")
        sources[split] = {name: {body} for name, body in tree.items()}
    bundle = command("diamond", "commit", *where, "--message", "m", "--label", "latest")
    store = {}
    context = open_context(command.settings().store)
    for part in ("metadata", "vmetadata", "blob"):
        found = getattr(context, part)
        every = part == "blob"
        store |= {f"{part}/{key}": found.get(key) for key in found.keys("") if every or f"/{repo}/" in key}
    descriptor = get_bundle(context, repo, bundle)
    assert descriptor.conflicts == 2
    for key in (f"lists/{one.digest[:2]}/{one.digest}" for one in descriptor.lists):
        store[f"metadata/{key}"] = context.metadata.get(key)
    return store, Expected(repo, where[3], "done", sources, frozenset(SPLITS), "latest", bundle)


def key_of(store, ending):
    return next(key for key in store if key.endswith(ending))


def with_yaml(store, ending, **changes):
    key = key_of(store, ending)
    return {key: yaml.safe_dump(yaml.safe_load(store[key]) | changes).encode()}


def lists_of(store, *, lost):
    """The keys of the lists of the bundle: of what won, or of what lost."""
    references = yaml.safe_load(store[key_of(store, "/bundle.yaml")])["lists"]
    return [f"metadata/lists/{one['digest'][:2]}/{one['digest']}" for one in references if one["lost"] == lost]


def with_list(store, change, *, lost=False):
    """A list of the bundle with other bytes, under the same key."""
    [key] = lists_of(store, lost=lost)
    assert change(store[key]) != store[key]
    return {key: change(store[key])}


def with_reference(store, **changes):
    """A bundle whose first list is referred to in other words."""
    first, *others = yaml.safe_load(store[key_of(store, "/bundle.yaml")])["lists"]
    return with_yaml(store, "/bundle.yaml", lists=[first | changes, *others])


def another_generation(store):
    references = yaml.safe_load(store[key_of(store, "/one/split.yaml")])["lists"]
    renamed = [one | {"index": one["index"].replace("g1-", "g2-")} for one in references]
    return with_yaml(store, "/one/split.yaml", lists=renamed)


def later_than_its_entries(store):
    references = yaml.safe_load(store[key_of(store, "/one/split.yaml")])["lists"]
    return with_yaml(store, "/one/split.yaml", lists=[one | {"latest": one["latest"] + 1} for one in references])


def another_bundle(store):
    """One of another diamond."""
    key = key_of(store, "/bundle.yaml")
    bundle = yaml.safe_load(store[key])
    other = bundle | {"id": "other", "origin": bundle["origin"] | {"diamond": "another"}}
    return {key.replace(bundle["id"], "other"): yaml.safe_dump(other).encode()}


def two_bundles(store):
    key = key_of(store, "/bundle.yaml")
    bundle = yaml.safe_load(store[key])
    return {key.replace(bundle["id"], "other"): yaml.safe_dump(bundle | {"id": "other"}).encode()}


TAMPERED = {
    "outside the layout": lambda store: {"blob/tmp123": b"x"},
    "wrong folder": lambda store: {"blob/packs/00/" + "1" * 64: b""},
    "other bytes than its name": lambda store: {key: b"y" for key in store if key.startswith("blob/packs/")},
    "the store says": lambda store: with_yaml(store, "/diamond.yaml", state="canceled"),
    "still runs": lambda store: with_yaml(store, "/one/split.yaml", state="running"),
    "failed without a reason": lambda store: with_yaml(store, "/one/split.yaml", state="failed", reason=""),
    "was done, and now": lambda store: (
        with_yaml(store, "/one/split.yaml", state="failed", reason="r")
        | with_yaml(store, "/diamond.yaml", splits={"done": 1, "failed": 1})
    ),
    "is not": lambda store: with_yaml(store, "/diamond.yaml", bundle="other"),
    "counts its bytes wrong": lambda store: with_yaml(store, "/bundle.yaml", bytes=1),
    "counts its files wrong": lambda store: with_yaml(store, "/bundle.yaml", files=1),
    "other conflicts": lambda store: with_yaml(store, "/bundle.yaml", conflicts=0),
    "is missing": lambda store: dict.fromkeys(lists_of(store, lost=True)),
    "another head": lambda store: with_list(store, lambda body: b"version: 2\n"),
    "entries of a block .* have another digest": lambda store: with_list(
        store, lambda body: body.replace(b'"name":"same"', b'"name":"sane"')
    ),
    "places of a block .* have another digest": lambda store: with_list(
        store, lambda body: body.replace(b'"mtime":', b'"Mtime":')
    ),
    "other words around": lambda store: with_list(store, lambda body: body.replace(b"- entries", b"- entry's")),
    "goes on behind its blocks": lambda store: with_list(store, lambda body: body + b"x"),
    "metadata/lists/.* has other bytes": lambda store: with_list(
        store, lambda body: body.replace(b'"count":', b'"count": '), lost=True
    ),
    "with another count": lambda store: with_reference(store, count=99),
    "with another identity": lambda store: with_reference(store, identity="0" * 64),
    "what lost is among what won": lambda store: with_reference(store, lost=True),
    "of another generation": another_generation,
    "the latest entry of": later_than_its_entries,
    "that nobody asked for": another_bundle,
    "2 bundles": two_bundles,
    "still makes": lambda store: with_yaml(store, "/diamond.yaml", making="x"),
    "tells of": lambda store: with_yaml(store, "/diamond.yaml", splits={"done": 1}),
    "0 bundles": lambda store: {key: None for key in store if key.startswith("metadata/bundles/")},
    "label latest is at": lambda store: with_yaml(store, "/label.yaml", bundle="other"),
}


def test_what_is_right(made):
    store, expected = made
    verdict = check(store, expected)
    assert (verdict.state, verdict.conflicts, verdict.splits) == ("done", 2, 2)
    assert verdict.bundle == expected.answered


@pytest.mark.parametrize("verdict", TAMPERED)
def test_what_is_wrong(made, verdict):
    store, expected = made
    changed = {key: body for key, body in (store | TAMPERED[verdict](store)).items() if body is not None}
    with pytest.raises(Wrong, match=verdict):
        check(changed, expected)


def test_a_canceled_diamond_with_a_bundle(made):
    store, expected = made
    changed = store | with_yaml(store, "/diamond.yaml", state="canceled")
    with pytest.raises(Wrong, match="that is canceled has the bundle"):
        check(changed, replace(expected, state="canceled", answered=""))


def test_what_is_not_as_it_is_known_to_be(made):
    store, expected = made
    one = expected.sources["one"]
    for known, verdict in (
        (replace(expected, state="canceled"), "the store says done"),
        (replace(expected, answered="other"), "a client was told of other"),
        (replace(expected, order="added"), "the order is uploaded"),
        (replace(expected, modes=frozenset({"ignore-conflicts"})), "the mode is with-conflicts"),
        (replace(expected, splits={"one": ("done", 1), "two": ("failed", 1)}), "Temporal"),
        (replace(expected, label="other"), "labels"),
        (replace(expected, sources=expected.sources | {"one": one | {"more": {b""}}}), "lacks"),
        (replace(expected, sources=expected.sources | {"one": one | {"same": {b"other"}}}), "other bytes of 'same'"),
        (replace(expected, sources=expected.sources | {"one": {"same": {b"same"}}}), "that its source has not"),
    ):
        with pytest.raises(Wrong, match=verdict):
            check(store, known)
    bundle = yaml.safe_load(store[key_of(store, "/bundle.yaml")])
    origin = bundle["origin"]
    taken = origin["splits"]
    for change, verdict in (
        ({"splits": taken[:1]}, "taken were"),
        ({"left_out": [{"id": "x", "state": "failed", "reason": "r"}]}, "left out were"),
        ({"splits": [one | {"generation": 7} for one in taken]}, "taken in generation 7"),
        ({"splits": [one | {"position": 9} for one in taken]}, "in position 9"),
        ({"mode": "no-conflicts"}, "by the rules"),
    ):
        with pytest.raises(Wrong, match=verdict):
            check(store | with_yaml(store, "/bundle.yaml", origin=origin | change), expected)
