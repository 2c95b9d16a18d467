"""Ancestors, found in a few reads, held against a plain walk over parents."""

import random
from itertools import pairwise

import pytest

from datamon.bundles.history import descend, first_parents, is_ancestor, nth_ancestor
from datamon.core.ids import BundleId
from tests.bundles import bundle_of

LONG = 10_000
FEW_READS = 40


class Repo:
    """Bundles made one after the other, and how often one of them was read."""

    def __init__(self):
        self.bundles, self.reads = {}, 0

    def read(self, bundle):
        self.reads += 1
        return self.bundles[bundle]

    def add(self, *parents):
        generation, jump = descend(list(parents), self.read)
        name = BundleId(f"b{len(self.bundles)}")
        ids = [parent.id for parent in parents]
        self.bundles[name] = bundle_of([], id=name, parents=ids, generation=generation, jump=jump)
        return self.bundles[name]

    def reads_of(self, question):
        """The answer to a question, and how many reads it took."""
        before = self.reads
        return question(), self.reads - before


def random_repo(seed, bundles=300):
    """Lines, branches and merges: most bundles have one parent, often the newest; some have several, or none."""
    rng = random.Random(seed)
    merges, beginnings = rng.choice([(0.02, 0.01), (0.1, 0.0), (0.3, 0.05)])
    repo = Repo()
    for _ in range(bundles):
        known = list(repo.bundles.values())
        near = known[-rng.choice([1, 1, 1, 5, 300]) :]
        chance = rng.random()
        if not known or chance < beginnings:
            repo.add()
        elif chance < beginnings + merges:
            repo.add(*rng.sample(known, min(len(known), rng.choice([2, 2, 3]))))
        else:
            repo.add(rng.choice(near))
    return repo


def walked_ancestors(repo):
    """Of every bundle, all that it comes from, itself included."""
    ancestors = {}
    for bundle in repo.bundles.values():
        ancestors[bundle.id] = {bundle.id}.union(*(ancestors[parent] for parent in bundle.parents))
    return ancestors


def walked_first_parents(repo, bundle):
    line = [bundle.id]
    while repo.bundles[line[-1]].parents:
        line.append(repo.bundles[line[-1]].parents[0])
    return line


@pytest.fixture(scope="module")
def line():
    """So many bundles, each made from the one before."""
    repo = Repo()
    bundles = [repo.add()]
    while len(bundles) < LONG:
        bundles.append(repo.add(bundles[-1]))
    return repo, bundles


@pytest.mark.parametrize("seed", range(6))
def test_every_question_about_ancestry_is_answered_as_by_a_walk(seed):
    repo = random_repo(seed)
    ancestors = walked_ancestors(repo)
    for bundle in repo.bundles.values():
        answered = {other.id for other in repo.bundles.values() if is_ancestor(other, bundle, repo.read)}
        assert answered == ancestors[bundle.id]


@pytest.mark.parametrize("seed", range(6))
def test_every_nth_ancestor_is_the_one_that_a_walk_finds(seed):
    repo = random_repo(seed)
    for bundle in repo.bundles.values():
        walked = walked_first_parents(repo, bundle)
        assert [one.id for one in first_parents(bundle, repo.read)] == walked
        reached = [nth_ancestor(bundle, steps, repo.read) for steps in range(len(walked))]
        assert [one.id for one in reached] == walked
        assert nth_ancestor(bundle, len(walked), repo.read) is None
        assert nth_ancestor(bundle, len(walked) + 1000, repo.read) is None


@pytest.mark.parametrize("seed", range(6))
def test_a_bundle_descends_from_its_parents_and_jumps_over_no_merge(seed):
    repo = random_repo(seed)
    for bundle in repo.bundles.values():
        parents = [repo.bundles[parent] for parent in bundle.parents]
        assert bundle.generation == 1 + max((parent.generation for parent in parents), default=0)
        assert (bundle.jump is not None) == (len(parents) == 1)
        if bundle.jump is not None:
            passed = walked_first_parents(repo, bundle)
            passed = passed[: passed.index(bundle.jump.bundle)]
            assert all(len(repo.bundles[one].parents) == 1 for one in passed)
            assert bundle.jump.generation == repo.bundles[bundle.jump.bundle].generation
            assert len(passed) == bundle.generation - bundle.jump.generation


def test_jumps_lead_where_the_skew_binary_numbers_say(line):
    _, bundles = line
    jumps = [bundle.jump and bundle.jump.generation for bundle in bundles[:8]]
    assert jumps == [None, 1, 2, 1, 4, 5, 4, 1]


def test_making_a_bundle_takes_one_read_of_another(line):
    repo, bundles = line
    assert all(repo.reads_of(lambda one=one: descend([one], repo.read))[1] <= 1 for one in bundles[:: LONG // 100])


def test_in_a_long_line_every_nth_ancestor_takes_few_reads(line):
    repo, bundles = line
    rng = random.Random(1)
    last = LONG - 1
    asked = [(last, steps) for steps in range(LONG)]
    asked += [(start, rng.randint(0, start)) for start in (rng.randrange(LONG) for _ in range(5_000))]
    for start, steps in asked:
        reached, reads = repo.reads_of(lambda start=start, steps=steps: nth_ancestor(bundles[start], steps, repo.read))
        assert reached is bundles[start - steps]
        assert reads <= FEW_READS, (start, steps)
    beyond, reads = repo.reads_of(lambda: nth_ancestor(bundles[last], LONG, repo.read))
    assert beyond is None
    assert reads <= FEW_READS


def test_in_a_long_line_every_question_about_ancestry_takes_few_reads(line):
    repo, bundles = line
    rng = random.Random(2)
    last = LONG - 1
    asked = [(other, last) for other in range(LONG)]
    asked += [(rng.randrange(LONG), rng.randrange(LONG)) for _ in range(5_000)]
    for other, start in asked:
        answer, reads = repo.reads_of(
            lambda other=other, start=start: is_ancestor(bundles[other], bundles[start], repo.read)
        )
        assert answer is (other <= start)
        assert reads <= FEW_READS, (other, start)


def test_a_bundle_beside_a_long_line_is_known_as_no_ancestor_in_few_reads(line):
    repo, bundles = line
    beside = Repo()
    beside.bundles = dict(repo.bundles)
    forks = {number: beside.add(bundles[number]) for number in range(0, LONG - 1, 97)}
    for number, fork in forks.items():
        answer, reads = beside.reads_of(lambda fork=fork: is_ancestor(fork, bundles[-1], beside.read))
        assert (answer, reads <= FEW_READS) == (False, True), number
        assert is_ancestor(bundles[number], fork, beside.read)


def test_generations_grow_along_every_line(line):
    _, bundles = line
    assert all(after.generation == before.generation + 1 for before, after in pairwise(bundles))
