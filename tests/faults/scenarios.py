"""The faults. Each takes a diamond that is open, lives its life, and breaks something on the way.

Whatever a scenario does, it leaves a farm that is whole. What must hold afterwards is the same for all: `Life.check`.
"""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path

from datamon.merge.modes import Order
from tests.faults.checker import Wrong
from tests.faults.fetching import killed_downloads
from tests.faults.s3 import LOST_ANSWERS, Hold
from tests.faults.work import PATIENCE, Life, Work

SKEW_SECONDS = 3600
LARGE = 100 << 20  # seven chunks, of which four are read ahead


@dataclass(frozen=True)
class Moment:
    """A step of a diamond's life: the request to the store that it shows by."""

    method: str
    pattern: str
    words: bytes = b""

    def hold(self, *, done):
        return Hold(self.method, self.pattern, self.words, done=done)


# In the order in which they come
MOMENTS = {
    "the plan": Moment("GET", r"[?&]prefix=[^&]*source-"),
    "an upload": Moment("PUT", "/blob/(packs|chunks)/"),
    "the lists of a split": Moment("PUT", "/splits/[^/]+/bundle-files-"),
    "split.yaml with its lists": Moment("PUT", r"/split\.yaml", b"lists: [\n"),
    "split.yaml: done": Moment("PUT", r"/split\.yaml", b"state: done"),
    "diamond.yaml: committing": Moment("PUT", r"/diamond\.yaml", b"state: committing"),
    "the merge": Moment("PUT", "/metadata/lists/"),
    "bundle.yaml": Moment("PUT", r"/bundle\.yaml"),
    "the label": Moment("PUT", r"/label\.yaml"),
    "diamond.yaml: done": Moment("PUT", r"/diamond\.yaml", b"state: done"),
}
CANCEL_MOMENTS = {
    "diamond.yaml: canceling": Moment("PUT", r"/diamond\.yaml", b"state: canceling"),
    "split.yaml: failed": Moment("PUT", r"/split\.yaml", b"state: failed"),
    "diamond.yaml: canceled": Moment("PUT", r"/diamond\.yaml", b"state: canceled"),
}
OUTAGE_MOMENTS = ("an upload", "the lists of a split", "split.yaml: done", "the merge", "bundle.yaml")
ZOMBIE_MOMENTS = (
    "an upload",
    "the lists of a split",
    "split.yaml with its lists",
    "split.yaml: done",
    "the merge",
    "bundle.yaml",
    "the label",
    "diamond.yaml: done",
)
SPLIT_MOMENTS = ("the lists of a split", "split.yaml with its lists", "split.yaml: done")


def kill_at(moment, *, done):
    """Kill -9 of the worker that is at this moment, before or after its request is carried out."""

    async def scenario(life: Life, chance: random.Random):
        living = asyncio.ensure_future(life.live())
        await _killed_at(life.farm, MOMENTS[moment], chance, done=done, while_=living, look=_look_at(life, moment))
        await living

    return scenario


def kill_at_all(moments=tuple(MOMENTS)):
    """One life in which a worker is killed at each of these moments."""

    async def scenario(life: Life, chance: random.Random):
        farm = life.farm
        holds = _holds(farm, MOMENTS[moments[0]], done=chance.random() < 0.5)
        living = asyncio.ensure_future(life.live())
        for name, following in zip(moments, [*moments[1:], None], strict=True):
            index = await _first_reached(holds, living)
            await _look_at(life, name)()
            await asyncio.to_thread(farm.workers[index].kill, whole=chance.random() < 0.5)
            passed, holds = holds, _holds(farm, MOMENTS[following], done=chance.random() < 0.5) if following else []
            _end(farm, passed, killed=index)  # only now, so that the next moment cannot be missed
            await asyncio.to_thread(farm.workers[index].start)
        await living

    return scenario


def kill_in_cancel(moment, *, done):
    """The same, while a diamond is canceled whose splits are uploading."""

    async def scenario(life: Life, chance: random.Random):
        with ExitStack() as holds:
            uploads = [holds.enter_context(_held(worker, MOMENTS["an upload"])) for worker in life.farm.workers]
            adding = asyncio.ensure_future(life.add())
            await _first_reached(uploads, adding)
            canceling = asyncio.ensure_future(life.cancel())
            await _killed_at(life.farm, CANCEL_MOMENTS[moment], chance, done=done, while_=canceling)
        await canceling
        await adding

    return scenario


async def kill_temporal(life: Life, chance: random.Random):
    """Kill -9 of the Temporal server, once while splits upload and once in the commit; it comes back on its file."""
    for work, moment in ((life.add, "an upload"), (life.commit, "the merge")):
        holds = _holds(life.farm, MOMENTS[moment], done=chance.random() < 0.5)
        living = asyncio.ensure_future(work())
        await _first_reached(holds, living)
        await asyncio.to_thread(life.farm.temporal.kill)
        _end(life.farm, holds, killed=None)
        await asyncio.sleep(chance.uniform(0, 3))
        await asyncio.to_thread(life.farm.temporal.start)
        await living


def cut_temporal(seconds):
    """For so long, connections of both workers to Temporal are slow, and break again and again."""

    async def scenario(life: Life, chance: random.Random):
        with ExitStack() as storms:
            for worker in life.farm.workers:
                storms.enter_context(worker.temporal.storm(chance.random()))
            hit = hits(life.farm)
            living = asyncio.ensure_future(life.live())
            await asyncio.wait([living], timeout=seconds)
            _need_hits(life.farm, hit)
        await living

    return scenario


def storm(share, kinds=None):
    """Of all requests of the workers to the store, this share fails, in all the ways there are."""

    async def scenario(life: Life, chance: random.Random):
        with ExitStack() as storms:
            for worker in life.farm.workers:
                more = (kinds,) if kinds else ()
                storms.enter_context(worker.s3.storm(chance.random(), share, *more))
            hit = hits(life.farm)
            await life.live()
            _need_hits(life.farm, hit)

    return scenario


def outage(seconds):
    """The store cannot be reached for so long, from some moment on."""

    async def scenario(life: Life, chance: random.Random):
        hit = hits(life.farm)
        holds = _holds(life.farm, MOMENTS[chance.choice(OUTAGE_MOMENTS)], done=chance.random() < 0.5)
        living = asyncio.ensure_future(life.live())
        await _first_reached(holds, living)
        for worker in life.farm.workers:
            worker.s3.down.set()
        _end(life.farm, holds, killed=None)
        await asyncio.sleep(seconds)
        for worker in life.farm.workers:
            worker.s3.down.clear()
        await living
        _need_hits(life.farm, hit)

    return scenario


def zombie(moment):
    """A worker loses Temporal in the middle of an activity. Another one does it again; then the first comes back.

    What it held back goes to the store, late, and must not change anything.
    """

    async def scenario(life: Life, chance: random.Random):
        holds = _holds(life.farm, MOMENTS[moment], done=False)
        living = asyncio.ensure_future(life.live())
        async with _partitioned(life.farm, holds, living) as (_, changed):
            await living
        if changed:
            raise Wrong(f"a worker that came back has changed {changed}")

    return scenario


def overtaken(moment):
    """The same, in the middle of a split that is added again meanwhile, with other files.

    What comes late is of the run before: lists, perhaps, that nothing names.
    """

    async def scenario(life: Life, chance: random.Random):
        holds = _holds(life.farm, MOMENTS[moment], done=False)
        adding = asyncio.ensure_future(life.add())
        async with _partitioned(life.farm, holds, adding) as (held, changed):
            split = next(split for split in life.splits if f"/{split}/" in held.path)
            await life.add_again(split, {"x": b"newer", "only/newer": chance.randbytes(1000)})
            await adding
        if not all(f"/{split}/bundle-files-g1-" in key for key in changed):
            raise Wrong(f"a worker that came back has changed {changed}")
        await life.commit()

    return scenario


@asynccontextmanager
async def _partitioned(farm, holds, while_):
    """While the block runs, the worker that came to its hold first has lost Temporal; then what it held goes out.

    Gives that hold, and a list that has, in the end, the keys of what has changed in the store by that.
    """
    index = await _first_reached(holds, while_)
    lost, other = farm.workers[index], farm.workers[1 - index]
    changed: list[str] = []
    with lost.temporal.silence():
        other.s3.end_hold(holds[1 - index], carry_on=True)
        yield holds[index], changed
        before = await asyncio.to_thread(farm.read)
        lost.s3.end_hold(holds[index], carry_on=True)
        await farm.quiet(lost)
    await farm.quiet(lost)
    if holds[index].late == 0:
        raise Wrong("nothing of what was held back went out late")
    after = await asyncio.to_thread(farm.read)
    changed += sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))


def change_source(how):
    """A file is changed, or vanishes, while its upload is under way: the split fails naming it, or has it as it was."""

    async def scenario(life: Life, chance: random.Random):
        split, path = life.splits[0], Path(life.work.written[0])
        victim = path / "large"
        with ExitStack() as stack:
            holds = [stack.enter_context(_held(worker, Moment("PUT", "/blob/chunks/"))) for worker in life.farm.workers]
            adding = asyncio.ensure_future(life.add())
            await _first_reached(holds, adding)
            if how == "changes":
                _rewrite(victim, chance)
            else:
                victim.unlink()
            for hold in holds:
                hold.end(carry_on=True)
            await adding
        await _told_of(life, split, "large")
        await life.commit()

    return scenario


def _rewrite(victim, chance):
    with victim.open("r+b") as file:
        file.seek(victim.stat().st_size - 1000)
        file.write(chance.randbytes(2000))


async def _told_of(life, split, name):
    """Either the split failed, and says which file; or an attempt that came later found all of it at rest."""
    found = await life.diamond.split_status(split)
    if found.state == "failed":
        if name not in found.reason:
            raise Wrong(f"a split whose file {name!r} was changed failed with {found.reason!r}")
        return
    left = Path(life.work.written[0]) / name
    life.sources[split][name].add(left.read_bytes() if left.exists() else None)


async def spoilt_caches(life: Life, chance: random.Random):
    """The host knows all files. A worker is killed while it lists them, and what the host knows is wrong or gone."""
    farm = life.farm
    for cache in farm.caches():  # of a store that was here before
        cache.unlink()
    await life.add_for_nothing()
    if not sum(known_files(cache) for cache in farm.caches()):
        raise Wrong("nothing was remembered, so nothing was shown")
    if chance.random() < 0.5:
        farm.lose("blob/packs")
    adding = asyncio.ensure_future(life.add())
    await _killed_at(farm, MOMENTS["the lists of a split"], chance, done=chance.random() < 0.5, while_=adding)
    for cache in farm.caches():
        _spoil(cache, chance)
    await adding
    await life.commit()


def _spoil(cache, chance):
    match chance.choice(("deleted", "damaged", "cut short")):
        case "deleted":
            cache.unlink()
        case "damaged":
            with cache.open("r+b") as file:
                file.seek(chance.randrange(cache.stat().st_size))
                file.write(chance.randbytes(4096))
        case "cut short":
            os.truncate(cache, cache.stat().st_size // 2)


def known_files(cache):
    """How many files a cache knows."""
    with closing(sqlite3.connect(cache)) as database:
        return database.execute("SELECT count(*) FROM files").fetchone()[0]


async def skewed_clocks(life: Life, chance: random.Random):
    """Two hosts whose clocks are an hour apart: with `--order added`, what was added last wins all the same."""
    farm, shim = life.farm, str(Path(__file__).parent / "skewed")
    first, *rest = zip(life.splits, life.work.written, strict=True)
    ahead = farm.extra_worker("ahead", {"DATAMON_HOST": "ahead", "PYTHONPATH": shim, "SKEW_SECONDS": str(SKEW_SECONDS)})
    ahead.start()
    try:
        await life.add_from("ahead", *first)
        await life.is_ahead(first[0], SKEW_SECONDS)
    finally:
        ahead.stop()
    for split, path in rest:
        await life.add_from(farm.settings.host, split, path)
    await life.commit()
    await life.last_added_wins()


async def lose_executors(life: Life, chance: random.Random):
    """All executors of the Spark cluster are killed in the middle of uploads, and again in the middle of the merge."""
    living = asyncio.ensure_future(life.live())
    for name in ("an upload", "the merge"):
        with ExitStack() as stack:
            holds = [stack.enter_context(_held(worker, MOMENTS[name])) for worker in life.farm.workers]
            await _first_reached(holds, living)
            if life.farm.cluster.kill_executors() == 0:
                raise Wrong("there was no executor to kill")
    await living


async def give_up(life: Life, chance: random.Random):
    """Nothing goes wrong, and somebody cancels all the same."""
    adding = asyncio.ensure_future(life.add())
    await asyncio.sleep(chance.uniform(0, 1))
    await life.cancel()
    await adding


def hits(farm):
    """How many requests and connections were failed on purpose so far."""
    return sum(sum(worker.s3.faults.values()) + worker.temporal.resets for worker in farm.workers)


def _need_hits(farm, before):
    if hits(farm) == before:
        raise Wrong("nothing was hit, so nothing was shown")


async def nothing(life: Life, chance: random.Random):
    """Nothing at all goes wrong."""
    await life.live()


def _held(worker, moment, *, done=False):
    return worker.s3.hold(moment.method, moment.pattern, moment.words, done=done)


def _look_at(life, moment):
    """What people see in the middle of a commit: that it is one, and which bundle it makes."""

    async def look():
        if moment in ("the merge", "bundle.yaml"):
            seen = await life.diamond.described()
            if seen.state != "committing" or not seen.making or seen.bundle:
                raise Wrong(f"in the middle of a commit, diamond.yaml says {seen}")

    return look


async def _nobody_looks():
    pass


async def _killed_at(farm, moment, chance, *, done, while_, look=_nobody_looks):
    """Wait until a worker is there, look, kill it, and start another in its place."""
    holds, index = _holds(farm, moment, done=done), None
    try:
        index = await _first_reached(holds, while_)
        await look()
        await asyncio.to_thread(farm.workers[index].kill, whole=chance.random() < 0.5)
    finally:
        _end(farm, holds, killed=index)
    await asyncio.to_thread(farm.workers[index].start)


def _holds(farm, moment, *, done):
    return [worker.s3.start_hold(moment.hold(done=done)) for worker in farm.workers]


def _end(farm, holds, killed):
    """Let go what is held. What the killed worker asked for is lost with it."""
    for number, (worker, hold) in enumerate(zip(farm.workers, holds, strict=True)):
        worker.s3.end_hold(hold, carry_on=number != killed)


async def _first_reached(holds, while_):
    """Which of the holds somebody came to first."""
    deadline = time.monotonic() + PATIENCE
    while True:
        for index, hold in enumerate(holds):
            if hold.reached.is_set():
                return index
        if while_.done():
            await while_
            raise Wrong("the moment never came")
        if time.monotonic() > deadline:
            raise Wrong("the moment did not come in time")
        await asyncio.sleep(0.02)


@dataclass(frozen=True)
class Scenario:
    """A fault, and what a life must have for it."""

    name: str
    run: Callable[[Life, random.Random], Awaitable[None]]
    remote: bool | None = None  # sources in S3, or on a disk; None: as the seed says
    label: bool = False
    large: bool = False
    order: Order | None = None
    canceled: bool | None = False  # how it must end; None: either way
    may_fail: int = 0  # how many splits may fail, from the first on

    def work(self, seed) -> Work:
        work = Work.of(f"{self.name} {seed}", remote=self.remote)
        if self.label:
            work.label = "latest"
        work.order = self.order or work.order
        if self.large:  # and no other is, so that the moment is one of its own
            for tree in work.trees:
                tree.pop("large", None)
            work.trees[0]["large"] = random.Random(seed).randbytes(LARGE)
        return work


def _needs(moment):
    return {"remote": True if moment == "the plan" else None, "label": moment == "the label"}


def _kills():
    for moment in MOMENTS:
        for done in (False, True) if MOMENTS[moment].method == "PUT" else (False,):
            when = "after" if done else "before"
            yield Scenario(f"kill -9 of a worker {when} {moment}", kill_at(moment, done=done), **_needs(moment))
    for moment in CANCEL_MOMENTS:
        for done, when in ((False, "before"), (True, "after")):
            name = f"kill -9 of a worker in a cancel, {when} {moment}"
            yield Scenario(name, kill_in_cancel(moment, done=done), canceled=True)


def scenarios(outage_seconds) -> list[Scenario]:
    """All that a farm of its own Spark is put through."""
    return [
        Scenario("nothing", nothing),
        *_kills(),
        Scenario("kill -9 of a worker at every moment of one life", kill_at_all(), remote=True, label=True),
        Scenario("kill -9 of Temporal, twice, and a restart on its file", kill_temporal),
        Scenario("connections to Temporal are slow and break, for a minute", cut_temporal(60)),
        Scenario("12 % of requests to the store fail, in twelve ways", storm(0.12)),
        Scenario("30 % of requests succeed, and the client sees an error", storm(0.3, LOST_ANSWERS)),
        Scenario(f"the store unreachable for {outage_seconds} s", outage(outage_seconds)),
        *(
            Scenario(f"a partitioned worker comes back late with {moment}", zombie(moment), **_needs(moment))
            for moment in ZOMBIE_MOMENTS
        ),
        *(
            Scenario(f"a partitioned worker, its split added again meanwhile, comes back late with {moment}", run)
            for moment, run in ((moment, overtaken(moment)) for moment in SPLIT_MOMENTS)
        ),
        Scenario(
            "a source file changes while it is read", change_source("changes"), remote=False, large=True, may_fail=1
        ),
        Scenario(
            "a source file vanishes while it is read", change_source("vanishes"), remote=False, large=True, may_fail=1
        ),
        Scenario("downloads killed again and again, over a line that fails", killed_downloads, large=True),
        Scenario("kill -9 of a worker whose cache is spoilt or out of date", spoilt_caches, remote=False),
        Scenario("two hosts with clocks an hour apart, --order added", skewed_clocks, remote=False, order=Order.ADDED),
    ]


def cluster_scenarios() -> list[Scenario]:
    """What a farm with a Spark cluster is put through."""
    return [Scenario("all executors of a Spark cluster lost, in uploads and in the merge", lose_executors, remote=True)]


async def one_run(farm, datamon, scenario, seed):
    """One diamond through one fault, seen to be right. Gives the verdict, and what was refused on the way."""
    life = Life(farm, datamon, scenario.work(seed), seed)
    await life.open()
    await asyncio.wait_for(scenario.run(life, random.Random(f"fault {scenario.name} {seed}")), 2 * PATIENCE)
    verdict = await life.check()
    if scenario.canceled is not None and life.canceled is not scenario.canceled:
        raise Wrong(f"it was {'' if life.canceled else 'not '}canceled")
    lost = set(life.splits[scenario.may_fail :]) - life.sure
    if lost and not life.canceled:
        raise Wrong(f"splits {sorted(lost)} were not uploaded: {[str(error) for error in life.refused]}")
    await asyncio.to_thread(farm.clear)
    return verdict, life.refused
