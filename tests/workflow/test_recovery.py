"""Diamonds whose workflow is gone: terminated, or lost with the whole Temporal database."""

import asyncio

import pytest
from blake3 import blake3

from datamon.bundles.catalog import GIVEN_UP, publish_bundle
from datamon.core.errors import Failed, SplitFailed, StaleWrite, WrongState
from datamon.core.ids import BundleId, RepoName
from datamon.diamonds.model import DiamondState, SplitState
from datamon.starter.advice import sentence
from datamon.starter.client import SplitOptions
from datamon.stores import descriptors, keys
from tests.workflow.helpers import add_started, bundles, published, splits, until
from tests.workflow.server import private_server

RUNNING = "it was running when the diamond was recovered"


async def test_the_database_is_lost_and_the_diamond_goes_on(tmp_path, files, spark):
    """Done splits count, running ones are failed, and it commits; on a server that has never heard of any of it."""
    async with private_server(tmp_path, spark) as datamon:
        diamond = await datamon.diamonds.initialize("r", "lost", tag="nightly")
        for number in (1, 2):
            added = await diamond.add(files(f"p{number}", {"same": "s", "clash": f"{number}"}))
            await added.result()
        failed = await diamond.add("/no/such/path", SplitOptions(id="failed", create=True))
        with pytest.raises(SplitFailed):
            await failed.result()
        await add_started(diamond, "slow")
        before = published(datamon, diamond)

    async with private_server(tmp_path, spark) as datamon:
        lost = datamon.diamonds.get("r", "lost")
        with pytest.raises(Failed, match="has no workflow for it") as refused:
            await lost.commit("m")
        assert "if this is the right server, recover it with `datamon diamond recover`" in sentence(refused.value)
        with pytest.raises(
            WrongState, match="opened on another Temporal server or namespace, and may still be running there"
        ):
            await datamon.diamonds.recover("r", "lost")
        diamond = await datamon.diamonds.recover("r", "lost", server_lost=True)
        status = await diamond.status()
        assert (status.state, status.files, status.created) == ("initialized", 4, before.created)
        assert status.splits == {"done": 2, "failed": 2, "running": 0}
        found = splits(datamon, diamond)
        assert (found["slow"].state, found["slow"].reason) == (SplitState.FAILED, RUNNING)
        assert "does not exist" in found["failed"].reason
        assert published(datamon, diamond).tag == "nightly"
        assert published(datamon, diamond).server not in ("", before.server)

        again = await diamond.add(files("p3", {"new": "n"}), SplitOptions(id="slow"))
        assert (await again.result()).generation == 2
        bundle = await diamond.commit("m")
        assert (bundle.files, bundle.conflicts) == (4, 1)
        [made] = bundles(datamon, diamond)
        assert [split.position for split in made.origin.splits] == [1, 2, 5], "those of before, then the new one"
        assert [(left.id, left.state) for left in made.origin.left_out] == [("failed", SplitState.FAILED)]
        with pytest.raises(WrongState, match="there is nothing to recover"):
            await datamon.diamonds.recover("r", "lost")


async def test_a_terminated_diamond_is_taken_up_and_what_still_ran_is_stopped(datamon, repo, files):
    diamond = await datamon.diamonds.initialize(repo)
    await (await diamond.add(files("p", {"a": "1"}))).result()
    slow = await add_started(diamond)
    with pytest.raises(WrongState, match="its workflow exists"):
        await datamon.diamonds.recover(repo, diamond.id)
    await diamond.handle.terminate("by mistake")
    await datamon.diamonds.recover(repo, diamond.id)
    handle = datamon.client.get_workflow_handle(f"split/{repo}/{diamond.id}/{slow}")
    with pytest.raises(Exception, match="Workflow execution failed"):
        await asyncio.wait_for(handle.result(), 30)
    assert splits(datamon, diamond)[slow].reason == RUNNING
    bundle = await diamond.commit("m")
    assert (bundle.files, [left.id for left in bundle.left_out]) == (1, [slow])


async def lose(datamon, diamond, **changes):
    """Terminate a diamond, with diamond.yaml as it would be if that had happened at another moment."""
    await diamond.handle.terminate()
    store, key = datamon.context.vmetadata, keys.diamond(diamond.repo, diamond.id)
    seen = store.get_versioned(key)
    now = descriptors.load(type(published(datamon, diamond)), key, seen.body)
    fields = {name: getattr(now, name) for name in now.__slots__} | changes
    store.replace(key, descriptors.dump(type(now)(**fields)), seen.version)


async def test_a_commit_that_was_lost_with_its_server_never_comes_back(datamon, repo, files):
    diamond = await datamon.diamonds.initialize(repo)
    await (await diamond.add(files("p", {"a": "1"}))).result()
    await lose(datamon, diamond, state=DiamondState.COMMITTING, making=BundleId("half-made"), revision=2)
    context = datamon.context
    written = keys.file_list(blake3(repo.encode()).hexdigest())
    context.metadata.create(written, b"a list of the lost commit")

    await datamon.diamonds.recover(repo, diamond.id)
    found = published(datamon, diamond)
    assert (found.state, found.making, found.reason) == ("initialized", None, "its commit was lost; commit it again")
    bundle = await diamond.commit("m")
    assert [made.id for made in bundles(datamon, diamond)] == [bundle.bundle]
    [made] = bundles(datamon, diamond)
    late = type(made)(**{name: getattr(made, name) for name in made.__slots__} | {"id": BundleId("half-made")})
    with pytest.raises(StaleWrite):
        publish_bundle(context, RepoName(repo), late)
    assert context.metadata.get(keys.bundle(RepoName(repo), BundleId("half-made"))) == GIVEN_UP
    assert context.metadata.get(written) == b"a list of the lost commit", "another bundle may have found it"


async def test_a_commit_that_had_made_its_bundle_is_done(datamon, repo, files):
    diamond = await datamon.diamonds.initialize(repo)
    await (await diamond.add(files("p", {"a": "1"}))).result()
    made = await diamond.commit("m")
    await diamond.handle.result()
    other = await datamon.diamonds.initialize(repo)
    await lose(datamon, other, state=DiamondState.COMMITTING, making=made.bundle, label="latest")
    await datamon.diamonds.recover(repo, other.id)
    result = await other.handle.result()
    assert (result.state, result.answer.bundle, result.answer.files) == (DiamondState.DONE, made.bundle, 1)
    assert (published(datamon, other).state, published(datamon, other).bundle) == (DiamondState.DONE, made.bundle)
    assert (await datamon.labels.get(repo, "latest")).bundle == made.bundle, "the label that it was to have"

    newer = await datamon.diamonds.initialize(repo)
    await (await newer.add(files("q", {"b": "2"}))).result()
    newest = (await newer.commit("m", label="latest")).bundle
    again = await datamon.diamonds.initialize(repo)
    await lose(datamon, again, state=DiamondState.COMMITTING, making=made.bundle, label="latest")
    await datamon.diamonds.recover(repo, again.id)
    await again.handle.result()
    assert (await datamon.labels.get(repo, "latest")).bundle == newest, "it was moved on since"


async def test_a_cancel_that_was_lost_is_carried_out(datamon, repo):
    diamond = await datamon.diamonds.initialize(repo)
    slow = await add_started(diamond)
    await lose(datamon, diamond, state=DiamondState.CANCELING)
    await datamon.diamonds.recover(repo, diamond.id)
    assert (await diamond.handle.result()).state is DiamondState.CANCELED
    assert published(datamon, diamond).state is DiamondState.CANCELED
    assert splits(datamon, diamond)[slow].state is SplitState.FAILED


async def test_whoever_went_before_is_shut_out(datamon, repo, files):
    """Somebody else has taken the diamond up, on a server that this one does not know of."""
    diamond = await datamon.diamonds.initialize(repo)
    await (await diamond.add(files("p", {"a": "1"}))).result()
    store, key = datamon.context.vmetadata, keys.diamond(repo, diamond.id)
    seen, now = store.get_versioned(key), published(datamon, diamond)
    fields = {name: getattr(now, name) for name in now.__slots__} | {"revision": now.revision + 1, "epoch": "theirs"}
    store.replace(key, descriptors.dump(type(now)(**fields)), seen.version)
    late = await diamond.add(files("q", {"b": "2"}))
    with pytest.raises(SplitFailed, match="has moved on; this write came too late"):
        await late.result()
    assert late.id not in splits(datamon, diamond)
    with pytest.raises(Failed, match="has no workflow for it") as refused:
        await diamond.commit("m")
    assert "recover it with" in sentence(refused.value)
    assert bundles(datamon, diamond) == []

    async def ended():
        return (await diamond.handle.describe()).close_time

    await until(ended)
