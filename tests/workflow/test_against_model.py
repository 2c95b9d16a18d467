"""Random lives of a diamond through the real workflows, beside a small model of what must come of them."""

import asyncio

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from datamon.bundles.catalog import get_bundle
from datamon.bundles.reader import BundleReader
from datamon.core.errors import ConflictsForbidden, NotFound, NothingToCommit, SplitFailed, WrongState
from datamon.core.ids import RepoName
from datamon.diamonds.model import DiamondState, SplitState
from datamon.merge.modes import ConflictMode
from datamon.starter.client import SplitOptions
from tests.workflow.helpers import add_started, published, splits

NODES = st.sampled_from(["node-1", "node-2", "node-3"])
NAMES, TEXTS = st.sampled_from(["a", "x", "x/y"]), st.sampled_from(["1", "2", "3"])
FILES = st.dictionaries(NAMES, TEXTS, min_size=1, max_size=2).filter(
    lambda files: not {"x", "x/y"} <= set(files)  # no file system holds both
)
PARTS = st.dictionaries(NODES, FILES, min_size=1, max_size=2)
KEPT = st.sampled_from([ConflictMode.KEEP, ConflictMode.CHECKPOINTS, ConflictMode.IGNORE])
OPEN = precondition(lambda self: self.state is DiamondState.INITIALIZED)
ENDED = precondition(lambda self: self.state is not DiamondState.INITIALIZED)


def merged(versions):
    """Which names win, and which versions lose, as (name, split).

    Of a name the newest version wins; a file wins against its folder if it is newer than all that is in it.
    """
    newest = {}
    for name, clock, node, text in sorted(versions, key=lambda version: version[1]):
        newest[name] = (clock, node, text)

    def is_newer_than_its_folder(name):
        return all(newest[name][0] > clock for below, (clock, *_) in newest.items() if below.startswith(f"{name}/"))

    def is_covered(name):
        return any(name.startswith(f"{above}/") and is_newer_than_its_folder(above) for above in newest)

    winners = {name for name in newest if is_newer_than_its_folder(name) and not is_covered(name)}
    outdated = {(name, node) for name, _, node, text in versions if text != newest[name][2]}
    return winners, outdated | {(name, node) for name, (_, node, _) in newest.items() if name not in winners}


class Lives(RuleBasedStateMachine):
    """The model: which state the diamond is in, and of each split its state and the versions it holds."""

    def __init__(self, loop, datamon, repo, folder):
        super().__init__()
        self.loop, self.datamon, self.repo, self.folder = loop, datamon, repo, folder
        self.state, self.splits, self.held, self.clock = DiamondState.INITIALIZED, {}, {}, 0

    def wait(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    @initialize(last=KEPT, parts=PARTS)
    def open(self, last, parts):
        self.last = last
        self.diamond = self.wait(self.datamon.diamonds.initialize(self.repo))
        self.add(parts)

    def source(self, files):
        self.clock += 1
        folder = self.folder / self.diamond.id / str(self.clock)
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    async def upload(self, path, node, create=True):
        return await (await self.diamond.add(path, SplitOptions(id=node, create=create))).result()

    @OPEN
    @rule(parts=PARTS)
    def add(self, parts):
        """Anew, or again over runs that failed or still go on."""
        for node, files in parts.items():
            self.add_one(node, files)

    def add_one(self, node, files):
        source = self.source(files)
        if self.splits.get(node) is SplitState.DONE:
            with pytest.raises(WrongState, match="cannot run again"):
                self.wait(self.upload(source, node))
            return
        assert self.wait(self.upload(source, node)).files == len(files)
        self.splits[node] = SplitState.DONE
        self.held[node] = {name: (text, self.clock) for name, text in files.items()}

    @OPEN
    @rule(node=NODES)
    def add_in_vain(self, node):
        if self.splits.get(node) is not SplitState.DONE:
            with pytest.raises(SplitFailed, match="does not exist"):
                self.wait(self.upload(self.folder / "missing", node))
            self.splits[node] = SplitState.FAILED

    @OPEN
    @rule(node=NODES)
    def add_one_that_hangs(self, node):
        if node not in self.splits:
            self.wait(add_started(self.diamond, node))
            self.splits[node] = SplitState.RUNNING

    @OPEN
    @rule(node=NODES)
    def run_again_what_is_not_there(self, node):
        if node not in self.splits:
            with pytest.raises(NotFound):
                self.wait(self.upload(self.folder, node, create=False))

    @OPEN
    @rule()
    def lose_the_workflow(self):
        self.wait(self.diamond.handle.terminate())
        self.wait(self.datamon.diamonds.recover(self.repo, self.diamond.id))
        self.stop_running()

    def stop_running(self):
        for node, state in self.splits.items():
            if state is SplitState.RUNNING:
                self.splits[node] = SplitState.FAILED

    @OPEN
    @rule(mode=st.just(ConflictMode.FORBID))
    def commit(self, mode):
        done = [node for node, state in self.splits.items() if state is SplitState.DONE]
        if not done:
            with pytest.raises(NothingToCommit):
                self.wait(self.diamond.commit("m", mode))
            return
        self.stop_running()
        winners, lost = merged(self.versions(done))
        if mode is ConflictMode.FORBID and lost:
            with pytest.raises(ConflictsForbidden) as refused:
                self.wait(self.diamond.commit("m", mode))
            assert refused.value.count == len(lost)
            return
        answer = self.wait(self.diamond.commit("m", mode))
        self.state = DiamondState.DONE
        assert {left.id for left in answer.left_out} == set(self.splits) - set(done)
        bundle = get_bundle(self.datamon.context, RepoName(self.repo), answer.bundle)
        names = {entry.name for entry in BundleReader(self.datamon.context, bundle).entries()}
        kept = {f"{mode.folder}/{split}/{name}" for name, split in lost} if mode.folder else set()
        assert names == {*winners, *kept}

    def versions(self, done):
        return [(name, clock, node, text) for node in done for name, (text, clock) in self.held[node].items()]

    @OPEN
    @rule(sure=st.integers(0, 3))
    def cancel(self, sure):
        if sure:
            return  # else most lives would end so
        self.wait(self.diamond.cancel())
        self.stop_running()
        self.state = DiamondState.CANCELED

    @ENDED
    @rule(node=NODES)
    def nothing_more_is_accepted(self, node):
        for late in (self.upload(self.folder, node), self.diamond.commit("m"), self.diamond.cancel()):
            with pytest.raises(WrongState, match=f"is {self.state}"):
                self.wait(late)

    @invariant()
    def the_store_says_the_same(self):
        if hasattr(self, "diamond"):
            assert published(self.datamon, self.diamond).state is self.state
            assert {split.id: split.state for split in splits(self.datamon, self.diamond).values()} == self.splits

    def teardown(self):
        """A life that has not ended yet ends with a commit, if there is anything to commit."""
        if self.state is DiamondState.INITIALIZED and hasattr(self, "diamond"):
            self.commit(self.last)
            self.the_store_says_the_same()
        if self.state is DiamondState.INITIALIZED and hasattr(self, "diamond"):
            self.wait(self.diamond.cancel())


async def test_random_lives(datamon, repo, tmp_path):
    loop = asyncio.get_running_loop()
    few = settings(
        max_examples=10,
        stateful_step_count=8,
        deadline=None,
        phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a life takes seconds; one that fails is told as it was
        suppress_health_check=list(HealthCheck),
    )
    await asyncio.to_thread(run_state_machine_as_test, lambda: Lives(loop, datamon, repo, tmp_path), settings=few)
