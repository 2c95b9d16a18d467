"""A random diamond out of a seed, and its life: what people do with it, and what they ask when it is over."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace

from blake3 import blake3
from temporalio.service import RPCError

from datamon.bundles.catalog import get_bundle
from datamon.bundles.reader import BundleReader
from datamon.core.errors import (
    AlreadyExists,
    ConflictsForbidden,
    DatamonError,
    NoWorker,
    ServerUnreachable,
    SplitFailed,
    WrongState,
)
from datamon.core.ids import new_id
from datamon.diamonds.catalog import get_split, split_lists
from datamon.diamonds.model import DiamondState
from datamon.merge.modes import ConflictMode, Order
from datamon.sources.cache import RACY_SECONDS
from datamon.starter.client import Datamon, SplitOptions
from datamon.workflows.common.options import Options
from tests.faults.checker import Expected, Verdict, Wrong, check

IMPATIENT = Options(
    heartbeat_seconds=3,
    retry_first_seconds=0.2,
    retry_longest_seconds=2,
    metadata_seconds=5,
    stop_seconds=5,
    probe_seconds=10,
)
PATIENCE = 180  # seconds, after which a life counts as stuck
_PASSING = (ServerUnreachable, NoWorker, RPCError)  # what a person would answer by asking again
_NAMES = ("a", "b", "c d", "é", "x", "x-1", "z.csv")


@dataclass
class Work:
    """What is in the sources of a diamond, and how it is committed."""

    trees: list[dict[str, bytes]]
    mode: ConflictMode
    order: Order
    label: str
    remote: bool  # whether the sources are in S3
    written: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, seed, *, remote=None):
        chance = random.Random(f"work {seed}")
        return cls(
            trees=[_tree(chance) for _ in range(chance.randint(2, 4))],
            mode=chance.choice(list(ConflictMode)),
            order=chance.choice(list(Order)),
            label=chance.choice(["", "latest"]),
            remote=chance.random() < 0.4 if remote is None else remote,
        )


def _tree(chance):
    """Files of a few names in a few folders, so that splits clash, and also a file with a folder."""
    tree: dict[str, bytes] = {}
    for _ in range(chance.randint(1, 40)):
        name = "/".join(chance.choice(_NAMES) for _ in range(chance.randint(1, 3)))
        parts = name.split("/")
        above = {"/".join(parts[:count]) for count in range(1, len(parts))}
        if not above & set(tree) and not any(other.startswith(f"{name}/") for other in tree):
            tree[name] = chance.choice([b"", b"same", _bytes(chance, chance.randint(1, 3000))])
    if chance.random() < 0.3:
        tree["large"] = _bytes(chance, chance.randint(4 << 20, 6 << 20))
    return tree


def _bytes(chance, size):
    """As a program writes them, that can be compressed, or as a camera does, that cannot."""
    if chance.random() < 0.5:
        return chance.randbytes(size)
    words = [chance.randbytes(8).hex() for _ in range(1000)]
    return "\n".join(chance.choices(words, k=size // 17 + 1)).encode()[:size]


class Life:
    """One diamond. Whoever lives it loses the connection now and then, and asks again, as a person would."""

    def __init__(self, farm, datamon, work, seed):
        self.farm, self.datamon, self.work = farm, datamon, work
        self.repo = f"r{seed}"
        self.diamond = None
        self.splits = [new_id() for _ in work.trees]
        self.sources = {
            split: {name: {body} for name, body in tree.items()}
            for split, tree in zip(self.splits, work.trees, strict=True)
        }
        self.sure: set[str] = set()
        self.refused: list[DatamonError] = []
        self.commits: list[tuple[str, ConflictMode]] = []  # every request to commit that was sent, and its mode
        self.answered = ""
        self.canceled = False

    async def open(self):
        self._write_sources()
        with suppress(AlreadyExists):
            await self.datamon.repos.create(self.repo)
        self.diamond = await self._asked(lambda: self.datamon.diamonds.initialize(self.repo, options=IMPATIENT))

    def _write_sources(self):
        self.work.written = [self._written(*one) for one in zip(self.splits, self.work.trees, strict=True)]

    def _written(self, source, tree):
        """Write the files of a source. Gives where they are."""
        folder = self.farm.folder / "sources" / source
        for name, body in tree.items():
            if self.work.remote:
                self.farm.put(f"source-{source}", name, body)
            else:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(body)
        return f"{self.farm.place}/source-{source}/" if self.work.remote else str(folder)

    async def add(self):
        """Add all splits and wait for them."""
        await asyncio.gather(*(self._add(*one) for one in zip(self.splits, self.work.written, strict=True)))

    async def _add(self, split, path):
        """Until it is done; or, if the diamond was canceled, until it is not."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                added = await self.diamond.add(path, SplitOptions(id=split, create=True))
                await self._asked(added.result)
            except _PASSING:
                await asyncio.sleep(0.5)
            except WrongState:  # it is done: the answer to the first add was lost
                break
            except SplitFailed as error:
                self.refused.append(error)
                return
            else:
                break
        else:
            raise Wrong(f"split {split} did not end in {PATIENCE} s")
        found = await self._asked(lambda: self.diamond.split_status(split))
        if found.state == "done":
            self.sure.add(split)

    async def add_for_nothing(self):
        """Have all sources uploaded once before, in a diamond that is canceled: then the host knows their files."""
        await asyncio.sleep(RACY_SECONDS + 0.1)  # what is younger is not remembered
        diamond = await self._asked(lambda: self.datamon.diamonds.initialize(self.repo, options=IMPATIENT))
        for path in self.work.written:
            await (await diamond.add(path)).result()
        await self._asked(lambda: diamond.cancel("it was for nothing"))

    async def add_again(self, split, tree):
        """Add a split again while it runs, from another source."""
        self.sources[split] = {name: {body} for name, body in tree.items()}
        await self._add(split, self._written(f"{split}-again", tree))

    async def commit(self):
        """Commit; where conflicts are forbidden and there are some, once more and keeping them."""
        for mode in (self.work.mode, ConflictMode.KEEP):
            self.commits.append((new_id(), mode))
            try:
                answer = await self._commit(*self.commits[-1])
            except ConflictsForbidden as error:
                self.refused.append(error)
            except _PASSING:
                await self._ended_or_open()
                continue
            except WrongState:  # the one before went through, and its answer was lost
                await self._answer_again()
                return
            else:
                self.answered = answer.bundle
                return

    async def _commit(self, request, mode):
        label = self.work.label or None
        return await self.diamond.commit("tried", mode, self.work.order, label=label, request=request)

    async def _answer_again(self):
        """Whoever lost the answer to a commit gets it by sending the same request again."""
        for request, mode in self.commits:
            with suppress(WrongState, ConflictsForbidden):
                self.answered = (await self._asked(lambda one=request, how=mode: self._commit(one, how))).bundle
                return

    async def _ended_or_open(self):
        """After a lost answer: wait until the commit that may be under way has come to something."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            status = await self._asked(self.diamond.status)
            if status.state.ended or (status.state is DiamondState.INITIALIZED and not status.committing):
                return
            await asyncio.sleep(0.2)

    async def cancel(self):
        self.canceled = True
        with suppress(WrongState):
            await self._asked(lambda: self.diamond.cancel("a mistake"))

    async def live(self):
        """From the first add to the bundle."""
        await self.add()
        await self.commit()

    async def settled(self):
        """The state that Temporal says it ended in."""
        deadline = time.monotonic() + PATIENCE
        while True:
            status = await self._asked(self.diamond.status)
            if status.state.ended:
                return status.state
            if time.monotonic() > deadline:
                raise Wrong(f"the diamond is {status.state} after {PATIENCE} s: {status}")
            if status.state is DiamondState.INITIALIZED and not status.committing:
                if self.canceled:
                    raise Wrong("a cancel that was answered has had no effect")
                await self.commit()
            await asyncio.sleep(0.2)

    async def check(self) -> Verdict:
        """See to it that all is right, and stays so when everything is asked once more."""
        state = await self.settled()
        for worker in self.farm.workers:  # a task that was stopped may still put what it had in its hands
            await self.farm.quiet(worker)
        clashed = any(isinstance(error, ConflictsForbidden) for error in self.refused)
        expected = Expected(
            self.repo,
            self.diamond.id,
            str(state),
            self.sources,
            frozenset(self.sure),
            self.work.label if state is DiamondState.DONE else "",
            self.answered,
            {one.split: (str(one.state), one.generation) for one in await self._asked(self.diamond.splits)},
            frozenset({str(self.work.mode), str(ConflictMode.KEEP)} if clashed else {str(self.work.mode)}),
            str(self.work.order),
            clashed,
        )
        store = await asyncio.to_thread(self.farm.read)
        verdict = check(store, expected)
        if verdict.state != ("canceled" if self.canceled else "done"):
            raise Wrong(f"the diamond ended as {verdict.state}, and was {'' if self.canceled else 'not '}canceled")
        await self._ask_once_more()
        if await asyncio.to_thread(self.farm.read) != store:
            raise Wrong("asking once more has changed the store")
        return verdict

    async def _ask_once_more(self):
        again = [
            lambda: self.diamond.commit("once more"),
            lambda: self.diamond.cancel("once more"),
            lambda: self.diamond.add(self.work.written[0], SplitOptions(id=self.splits[0], create=True)),
            lambda: self.datamon.diamonds.initialize(self.repo, self.diamond.id),
            lambda: self.datamon.repos.create(self.repo),
        ]
        for ask in again:
            try:
                await self._asked(ask)
            except (WrongState, AlreadyExists):
                continue
            raise Wrong("what must be refused was taken")

    async def _asked(self, ask):
        """Ask until there is an answer."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return await ask()
            except _PASSING:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.3)

    async def add_from(self, host, split, path):
        """Add one split from a host, and wait for it."""
        there = Datamon(self.datamon.client, replace(self.datamon.settings, host=host))
        diamond = there.diamonds.get(self.repo, self.diamond.id)
        await (await diamond.add(path, SplitOptions(id=split, create=True))).result()
        self.sure.add(split)

    async def is_ahead(self, split, seconds):
        """See to it that the clock which a split was uploaded by really is so far ahead."""
        found = get_split(self.datamon.context, self.repo, self.diamond.id, split)
        ahead = min(entry.timestamp for entry in split_lists(self.datamon.context, found).entries()) - time.time_ns()
        if ahead < 0.9 * seconds * 10**9:
            raise Wrong(f"the clock of {split} was only {ahead / 10**9:.0f} s ahead")

    async def last_added_wins(self):
        """What the bundle has under each name is what the split has that was added last, whatever its clock said."""
        found = {entry.name: entry.hash for entry in await asyncio.to_thread(self._bundle_entries)}
        last = self.work.trees[-1]
        for name, body in last.items():
            if found.get(name) != blake3(body).hexdigest():
                raise Wrong(f"{name!r} is not of the split that was added last")

    def _bundle_entries(self):
        context = self.datamon.context
        bundle = get_bundle(context, self.repo, self.answered)
        return [entry for entry in BundleReader(context, bundle).entries() if not entry.name.startswith(".")]
