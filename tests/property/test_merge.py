"""The merge against a reference of a few lines: for every order of splits and every cut into ranges."""

from itertools import pairwise, permutations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datamon.filelist import Brief, read_content, unlisted
from datamon.ids import SplitId
from datamon.merge import Run, Settled, Version, settle, settle_range
from datamon.model import Entry
from datamon.names import EVERYTHING, NameRange, ancestors, just, order
from tests.property.strategies import in_order_without_clashes


def version(name, content, rank, split):
    return held_by(split, Entry(name, content, 1, 420, 0, rank))


def held_by(split, entry):
    return Version.of(line(entry), Run(SplitId(split), [], []))


def line(entry):
    """As it stands in a list."""
    [found] = unlisted(b"- %s\n" % msgspec.json.encode(entry))
    return found


def reference(versions):
    """Every name: the strongest wins; a file wins against its folder if it is stronger than all that is in it."""
    by_name = {v.entry.name: [w for w in versions if w.entry.name == v.entry.name] for v in versions}
    best = {name: max(found, key=lambda v: v.strength) for name, found in by_name.items()}

    def rules(name):  # whether a file is stronger than everything below it
        return all(best[name].strength > v.strength for n, v in best.items() if n.startswith(name + "/"))

    shaded = {n for n in best if any(n.startswith(a + "/") and rules(a) for a in best)}
    winners = {name for name in best if rules(name) and name not in shaded}
    lost = {(v.entry.name, v.split) for v in versions if v.entry.hash != best[v.entry.name].entry.hash}
    return {n: best[n].split for n in winners}, lost | {(n, v.split) for n, v in best.items() if n not in winners}


short_names = st.lists(st.sampled_from("xyz-"), min_size=1, max_size=3).map("/".join)
contents = st.sampled_from(["c1", "c2", "c3"])


@st.composite
def split_sets(draw):
    """A few splits over few names, so that they clash in every way."""
    versions = []
    for split in "abcd"[: draw(st.integers(1, 4))]:
        files = draw(st.lists(st.tuples(short_names, contents, st.integers(0, 3)), max_size=6))
        held = [Entry(name, content, 1, 420, 0, rank) for name, content, rank in files]
        versions += [held_by(split, entry) for entry in in_order_without_clashes(held)]
    return versions


class Held:
    """A Reader over versions in memory, which come in any order."""

    def __init__(self, versions):
        self.versions = sorted(versions, key=lambda v: order(v.entry.name))
        self.splits = dict.fromkeys(v.split for v in versions)

    def within(self, names):
        return [v for v in self.versions if names.holds(order(v.entry.name))]

    def runs(self, names):
        return [run(split, [v for v in self.within(names) if v.split == split]) for split in self.splits]

    def above(self, key):
        return [v for folder in ancestors(key) for v in self.within(just(folder))]

    def strongest(self, names):
        return max((v.strength for v in self.within(names)), default=None)


def run(split, versions):
    briefs = [Brief(v.entry.name, v.entry.size, v.entry.timestamp) for v in versions]
    return Run(split, briefs, [v.line for v in versions])


def merged(versions, cuts=()):
    bounds = ["", *sorted(set(cuts)), None]
    ranges = [NameRange(start or "", stop) for start, stop in pairwise(bounds)] if cuts else [EVERYTHING]
    outcomes = [settle_range(names, Held(versions)) for names in ranges]
    won = [read_content("k", line) for outcome in outcomes for line in outcome.lines]
    assert [entry.name for entry in won] == [brief.name for outcome in outcomes for brief in outcome.briefs]
    contested = [settled for outcome in outcomes for settled in outcome.contested]
    assert {s.winner.entry for s in contested if s.winner} <= set(won)
    return won, contested


def summary(versions, cuts=()):
    """The split that each name comes from, and the versions that lost and differ."""
    won, contested = merged(versions, cuts)
    settled = {s.winner.entry.name: s.winner.split for s in contested if s.winner}
    splits = {e.name: settled.get(e.name) or max(v.split for v in versions if v.entry == e) for e in won}
    return splits, {(v.entry.name, v.split) for s in contested for v in s.conflicts}


@given(split_sets())
def test_the_merge_follows_the_rules(versions):
    assert summary(versions) == reference(versions)


@given(split_sets(), st.randoms(use_true_random=False), st.lists(short_names.map(order), min_size=1, max_size=5))
def test_neither_the_order_of_splits_nor_the_cut_matters(versions, random, cuts):
    whole = merged(versions)
    shuffled = random.sample(versions, len(versions))
    assert merged(shuffled) == whole
    assert merged(shuffled, cuts) == whole


@given(split_sets())
def test_no_winner_lies_below_another(versions):
    winners = [order(entry.name) for entry in merged(versions)[0]]
    assert winners == sorted(winners)
    assert not any(b.startswith(a + "\0") for a in winners for b in winners)


@given(split_sets())
def test_every_content_is_kept_somewhere(versions):
    won, contested = merged(versions)
    kept = {(e.name, e.hash) for e in won} | {(v.entry.name, v.entry.hash) for s in contested for v in s.conflicts}
    assert kept == {(v.entry.name, v.entry.hash) for v in versions}


X1, Y2, X3, Z3 = (version("n", c, r, s) for c, r, s in [("x", 1, "a"), ("y", 2, "b"), ("x", 3, "c"), ("z", 3, "d")])


@pytest.mark.parametrize(
    ("versions", "settled"),
    [
        pytest.param([X1], Settled(X1), id="one version wins"),
        pytest.param([X1, Y2], Settled(Y2, (X1,)), id="the later wins, the earlier is kept"),
        pytest.param([X1, Y2, X3], Settled(X3, (Y2,)), id="equal content is no conflict"),
        pytest.param([X3, Z3], Settled(Z3, (X3,)), id="equal times go by split id"),
        pytest.param([X1, Y2, Z3], Settled(Z3, (X1, Y2)), id="every loser is kept under its own split"),
    ],
)
def test_settle_in_any_order_of_arrival(versions, settled):
    for arrival in permutations(versions):
        assert settle(arrival) == settled


@pytest.mark.parametrize(
    ("file_rank", "winners"),
    [
        pytest.param(3, {"x": "a"}, id="the file is later"),
        pytest.param(1, {"x/y": "b", "x/z": "b"}, id="the folder is"),
    ],
)
def test_a_file_against_a_folder(file_rank, winners):
    versions = [version("x", "f", file_rank, "a"), version("x/y", "d", 2, "b"), version("x/z", "d", 0, "b")]
    found, lost = summary(versions)
    assert found == winners
    assert lost == {("x", "a"), ("x/y", "b"), ("x/z", "b")} - set(winners.items())
