"""The checker itself: it takes what is right, and finds each thing that is wrong."""

from dataclasses import replace

import pytest
import yaml

from datamon import catalog
from datamon.stores import open_context
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
        store |= {f"{part}/{key}": found.get(key) for key in found.keys("") if part == "blob" or f"/{repo}/" in key}
    assert catalog.get_bundle(context, repo, bundle).conflicts == 2
    return store, Expected(repo, where[3], "done", sources, frozenset(SPLITS), "latest", bundle)


def key_of(store, ending):
    return next(key for key in store if key.endswith(ending))


def with_yaml(store, ending, **changes):
    key = key_of(store, ending)
    return {key: yaml.safe_dump(yaml.safe_load(store[key]) | changes).encode()}


def stray_list(store):
    return {key_of(store, "/bundle.yaml").replace("bundle.yaml", "bundle-files-00009-000.yaml"): b""}


def another_bundle(store):
    """One of another diamond."""
    key = key_of(store, "/bundle.yaml")
    bundle = yaml.safe_load(store[key])
    other = bundle | {"id": "other", "diamond": bundle["diamond"] | {"id": "another"}}
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
    "is missing": lambda store: {key_of(store, "bundle-files-c00000-000.yaml"): None},
    "another digest": lambda store: {key_of(store, "bundle-files-00000-000.yaml"): b"version: 2\n"},
    "that nobody asked for": another_bundle,
    "2 bundles": two_bundles,
    "still makes": lambda store: with_yaml(store, "/diamond.yaml", making="x"),
    "tells of": lambda store: with_yaml(store, "/diamond.yaml", splits={"done": 1}),
    "0 bundles": lambda store: {key: None for key in store if key.startswith("metadata/bundles/")},
    "label latest is at": lambda store: with_yaml(store, "/label.yaml", bundle="other"),
    "does not name": stray_list,
}


def test_what_is_right(made):
    store, expected = made
    verdict = check(store, expected)
    assert (verdict.state, verdict.conflicts, verdict.splits) == ("done", 2, 2)
    assert verdict.bundle == expected.answered


@pytest.mark.parametrize("why", TAMPERED)
def test_what_is_wrong(made, why):
    store, expected = made
    changed = {key: body for key, body in (store | TAMPERED[why](store)).items() if body is not None}
    with pytest.raises(Wrong, match=why):
        check(changed, expected)


def test_a_canceled_diamond_with_a_bundle(made):
    store, expected = made
    changed = store | with_yaml(store, "/diamond.yaml", state="canceled")
    with pytest.raises(Wrong, match="that is canceled has the bundle"):
        check(changed, replace(expected, state="canceled", answered=""))


def test_what_is_not_as_it_is_known_to_be(made):
    store, expected = made
    one = expected.sources["one"]
    for known, why in (
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
        with pytest.raises(Wrong, match=why):
            check(store, known)
    bundle = yaml.safe_load(store[key_of(store, "/bundle.yaml")])
    origin = bundle["diamond"]
    taken = origin["splits"]
    for change, why in (
        ({"splits": taken[:1]}, "taken were"),
        ({"left_out": [{"id": "x", "state": "failed", "reason": "r"}]}, "left out were"),
        ({"splits": [one | {"generation": 7} for one in taken]}, "taken in generation 7"),
        ({"splits": [one | {"position": 9} for one in taken]}, "in position 9"),
        ({"mode": "no-conflicts"}, "by the rules"),
    ):
        with pytest.raises(Wrong, match=why):
            check(store | with_yaml(store, "/bundle.yaml", diamond=origin | change), expected)
