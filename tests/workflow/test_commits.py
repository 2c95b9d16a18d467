"""What a commit makes: modes, labels, versions over time, and what it would make."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from datamon.bundles.catalog import GIVEN_UP, list_bundles, newest_bundle
from datamon.bundles.download import download
from datamon.bundles.reader import BundleReader, Selection
from datamon.core.contributors import Contributor
from datamon.core.errors import BadUsage, ConflictsForbidden, CorruptObject, NothingToCommit, StoreRefused, WrongState
from datamon.core.ids import RepoName
from datamon.diamonds.model import DiamondState, SplitState
from datamon.merge.modes import ConflictMode, Order
from datamon.sources.source import Source
from datamon.starter.client import Datamon, SplitOptions
from datamon.stores import keys
from datamon.worker.service import build_workers
from datamon.workflows.diamonds.diamond import DiamondWorkflow
from datamon.workflows.diamonds.messages import AddSplit
from tests.conftest import Command, tree
from tests.workflow.helpers import add_started, bundles, published, splits, until
from tests.workflow.server import private_server


@pytest.fixture
async def diamond(datamon, repo):
    return await datamon.diamonds.initialize(repo)


async def add(diamond, path, split=None):
    added = await diamond.add(path, SplitOptions(id=split, create=split is not None))
    await added.result()
    return added.id


def fetched(datamon, diamond, destination):
    """The bundle of a diamond, downloaded."""
    [made] = [bundle for bundle in bundles(datamon, diamond) if bundle.origin.diamond == diamond.id]
    download(BundleReader(datamon.context, made), Path(destination), Selection())
    return tree(destination)


CLASH = {"file": "folder", "same": "s", "x/y": "second", "x/z": "second"}


@pytest.mark.parametrize(
    ("mode", "folder"), [(ConflictMode.KEEP, ".conflicts"), (ConflictMode.CHECKPOINTS, ".checkpoints")]
)
async def test_versions_that_lost_are_kept_under_their_own_split(datamon, diamond, files, tmp_path, mode, folder):
    """A file against a file, and a file against a folder; after a refusal, in the same diamond."""
    first = await add(diamond, files("1", {"file": "first", "same": "s", "x": "a file"}))
    second = await add(diamond, files("2", CLASH))
    with pytest.raises(ConflictsForbidden) as refused:
        await diamond.commit("m", ConflictMode.FORBID)
    assert refused.value.count == 2
    assert f"'file' (splits {', '.join(sorted([first, second]))})" in str(refused.value)
    assert f"'x' (split {first}, against a file or folder in its place of {second})" in str(refused.value)

    answer = await diamond.commit("m", mode)
    assert answer.conflicts == 2
    assert fetched(datamon, diamond, tmp_path / "out") == {
        **CLASH,
        f"{folder}/{first}/file": "first",
        f"{folder}/{first}/x": "a file",
    }
    again = await datamon.diamonds.initialize(diamond.repo)
    added = await again.add(tmp_path / "out")
    assert sorted((await added.result()).reserved) == sorted([".datamon", folder])
    assert (await again.commit("again", ConflictMode.FORBID)).files == len(CLASH)


async def test_versions_that_lost_can_be_dropped(datamon, diamond, files, tmp_path):
    await add(diamond, files("1", {"file": "first", "same": "s", "x": "a file"}))
    await add(diamond, files("2", CLASH))
    seen = await diamond.preview(ConflictMode.IGNORE)
    assert [contest.name for contest in seen.contested] == ["file", "x"]
    answer = await diamond.commit("m", ConflictMode.IGNORE)
    assert (answer.files, answer.bytes, answer.conflicts) == (len(CLASH), seen.bytes, 0)
    assert (seen.files, seen.conflicts) == (len(CLASH), 0)
    assert fetched(datamon, diamond, tmp_path / "out") == CLASH


async def test_the_later_side_wins_also_when_it_is_the_file(datamon, diamond, files, tmp_path):
    folder = await add(diamond, files("1", {"x/y": "below", "z": "z"}))
    await add(diamond, files("2", {"x": "a file"}))
    await diamond.commit("m")
    expected = {"x": "a file", "z": "z", f".conflicts/{folder}/x/y": "below"}
    assert fetched(datamon, diamond, tmp_path / "out") == expected


async def test_the_order_of_adding_is_not_that_of_uploading(tmp_path, files, spark):
    """`slow` is added first, and uploaded when a worker of its host comes at last."""
    slow, quick = files("1", {"f": "slow"}), files("2", {"f": "quick"})
    async with private_server(tmp_path, spark) as datamon:
        for order, winner in ((Order.UPLOADED, "slow"), (Order.ADDED, "quick")):
            diamond = await datamon.diamonds.initialize("r")
            added = AddSplit("slow", "1", Source(slow), "datamon@late", "late", Contributor("Ada"))
            await diamond.handle.signal(DiamondWorkflow.add, [added])
            await add(diamond, quick, "quick")
            with ThreadPoolExecutor() as pool:
                [late] = build_workers(datamon.client, datamon.settings, spark.context, ["datamon@late"], pool)
                async with late:
                    await diamond.split("slow").result()
            await diamond.commit("m", ConflictMode.IGNORE, order)
            assert fetched(datamon, diamond, tmp_path / order) == {"f": winner}


async def test_incremental_uploads_by_one_client(datamon, diamond, files, tmp_path):
    made = [await add(diamond, files(f"v{n}", {"model": f"v{n}", "log": "same"})) for n in (1, 2, 3)]
    answer = await diamond.commit("m", ConflictMode.CHECKPOINTS)
    assert (answer.files, answer.conflicts) == (4, 2)
    assert fetched(datamon, diamond, tmp_path / "out") == {
        "model": "v3",
        "log": "same",
        f".checkpoints/{made[0]}/model": "v1",
        f".checkpoints/{made[1]}/model": "v2",
    }


async def test_incremental_uploads_by_many_nodes(datamon, diamond, files, tmp_path):
    async def node(name):
        steps = [{f"{name}/state": f"{name} {step}", f"{name}/step-{step}": "x"} for step in (1, 2)]
        return [await add(diamond, files(f"{name}{step}", held)) for step, held in enumerate(steps, 1)]

    first = {name: splits[0] for name, splits in zip("abc", await asyncio.gather(*map(node, "abc")), strict=True)}
    await diamond.commit("m", ConflictMode.CHECKPOINTS)
    found = fetched(datamon, diamond, tmp_path / "out")
    for name, split in first.items():
        assert found[f"{name}/state"] == f"{name} 2"
        assert found[f".checkpoints/{split}/{name}/state"] == f"{name} 1"
    assert len(found) == 3 * 4


async def test_a_retry_as_a_new_split_is_no_conflict(datamon, diamond, files):
    path = files("p", {"a": "1", "b/c": "2"})
    first, retried = await add(diamond, path), await add(diamond, path)
    assert first != retried
    answer = await diamond.commit("m", ConflictMode.FORBID)
    assert (answer.files, answer.conflicts) == (2, 0)
    assert len(bundles(datamon, diamond)[0].origin.splits) == 2


async def test_a_split_that_runs_again_leaves_no_trace_of_its_first_run(datamon, diamond, files):
    split = await add_started(diamond)
    folder = keys.split_folder(diamond.repo, diamond.id, split)
    old = keys.uploaded_list(folder, keys.upload_index(1, "0" * 64, 0))
    datamon.context.vmetadata.create(old, b"a list of the first run")
    again = await diamond.add(files("p", {"a": "1"}), SplitOptions(id=split))
    await again.result()
    names = sorted(key.removeprefix(folder) for key in datamon.context.vmetadata.keys(folder))
    assert len(names) == 2
    assert names[0].startswith("bundle-files-g2-")


async def test_empty_splits_make_a_legal_empty_bundle(datamon, diamond, files, tmp_path):
    for name in ("1", "2"):
        await add(diamond, files(name, {}))
    assert (await diamond.commit("nothing")).files == 0
    assert fetched(datamon, diamond, tmp_path / "out") == {}


async def test_contributors_are_merged_without_repeats_and_tags_are_kept(stack, datamon, diamond, files):
    environment = {**stack.environment, "DATAMON_CONTRIBUTOR": "Grace <grace@example.org>"}
    grace = Datamon(datamon.client, Command(stack.home, environment).settings())
    await add(grace.diamonds.get(diamond.repo, diamond.id), files("1", {"a": "1"}))
    for number in (2, 3):
        tagged = await diamond.add(files(f"{number}", {f"{number}": "x"}), SplitOptions(tag=f"node-{number}"))
        await tagged.result()
    await diamond.commit("m")
    [made] = bundles(datamon, diamond)
    assert made.contributors == [Contributor("Grace", "grace@example.org"), Contributor("Ada Test", "ada@example.org")]
    assert {split.tag for split in splits(datamon, diamond).values()} == {datamon.settings.host, "node-2", "node-3"}


async def test_a_commit_that_fails_leaves_its_reason_and_nothing_else(datamon, diamond, files):
    """A list of a split is damaged; then it is repaired, and the next commit works."""
    split = await add(diamond, files("p", {"a": "1"}))
    [reference] = splits(datamon, diamond)[split].lists
    folder = keys.split_folder(diamond.repo, diamond.id, split)
    path = Path(datamon.context.vmetadata.root) / keys.uploaded_list(folder, reference.index)
    right = path.read_bytes()
    path.write_bytes(right.replace(b'"a"', b'"b"'))
    with pytest.raises(CorruptObject, match="do not match the digest"):
        await diamond.commit("m", label="latest")
    found = published(datamon, diamond)
    assert (found.state, found.making, found.bundle) == (DiamondState.INITIALIZED, None, None)
    assert "do not match the digest" in found.reason
    assert bundles(datamon, diamond) == []
    assert await datamon.labels.list(diamond.repo) == []
    [given_up] = datamon.context.metadata.keys(keys.bundles(diamond.repo))
    assert datamon.context.metadata.get(given_up) == GIVEN_UP
    assert newest_bundle(datamon.context, RepoName(diamond.repo)) is None

    path.write_bytes(right)
    bundle = await diamond.commit("m")
    assert [made.id for made in bundles(datamon, diamond)] == [bundle.bundle]
    assert published(datamon, diamond).reason == ""


async def test_a_store_that_refuses_is_told_at_once_and_the_diamond_goes_on_when_it_lets_us(datamon, diamond, files):
    await add(diamond, files("p", {"a": "1"}))
    folder = datamon.context.metadata.root / keys.bundles(diamond.repo)
    folder.mkdir(parents=True)
    folder.chmod(0o555)
    try:
        with pytest.raises(StoreRefused, match="permission denied"):
            await diamond.commit("m")
        assert "permission denied" in (await diamond.status()).reason
        with pytest.raises(WrongState, match="is committing"):
            await diamond.commit("too early")
    finally:
        folder.chmod(0o755)
    await until(lambda: is_open(diamond))
    assert (await diamond.commit("m")).files == 1
    assert len(bundles(datamon, diamond)) == 1


async def test_a_store_that_refuses_the_first_step_of_a_commit(datamon, diamond, files):
    await add(diamond, files("p", {"a": "1"}))
    folder = datamon.context.vmetadata.root / keys.diamond_folder(diamond.repo, diamond.id)
    folder.chmod(0o555)
    try:
        with pytest.raises(StoreRefused, match="permission denied"):
            await diamond.commit("m")
        assert (await diamond.status()).state is DiamondState.INITIALIZED
    finally:
        folder.chmod(0o755)
    assert (await diamond.commit("m")).files == 1


async def is_open(diamond):
    return (await diamond.status()).state is DiamondState.INITIALIZED


async def test_a_label_is_set_with_the_commit_and_keeps_its_history(datamon, repo, files):
    made = []
    for number in (1, 2):
        diamond = await datamon.diamonds.initialize(repo)
        await add(diamond, files(f"{number}", {"f": f"{number}"}))
        made.append((await diamond.commit(f"{number}", label="latest")).bundle)
    assert (await datamon.labels.get(repo, "latest")).bundle == made[1]
    values = await datamon.labels.history(repo, "latest")
    assert [value.bundle for value in values] == made[::-1]
    assert {value.contributor for value in values} == {datamon.settings.contributor}


async def test_a_label_by_signal_is_checked_too(datamon, diamond, files):
    await add(diamond, files("p", {"a": "1"}))
    with pytest.raises(BadUsage, match="not a legal label"):
        await diamond.commit("m", label="a/b")
    await diamond.handle.signal("commit", {"request": "1", "message": "m", "label": "../up"})
    outcome = await diamond.handle.query(DiamondWorkflow.commit_outcome, "1")
    assert "not a legal label" in str(outcome.refused.error())
    assert (await diamond.status()).state is DiamondState.INITIALIZED


async def test_a_bundle_without_the_label_that_cannot_be_set_is_a_bundle(datamon, diamond, files):
    await add(diamond, files("p", {"a": "1"}))
    datamon.context.vmetadata.create(keys.label(diamond.repo, "broken"), b"no label")
    answer = await diamond.commit("m", label="broken")
    assert "the bundle exists, but its label could not be set" in answer.unlabeled
    assert [made.id for made in bundles(datamon, diamond)] == [answer.bundle]
    assert published(datamon, diamond).reason == answer.unlabeled


async def test_a_preview_tells_what_the_commit_then_does(datamon, diamond, files):
    first = await add(diamond, files("1", {"file": "first", "same": "s", "x": "a file"}))
    second = await add(diamond, files("2", CLASH))
    slow = await add_started(diamond)
    before = sorted(datamon.context.vmetadata.keys(keys.diamond_folder(diamond.repo, diamond.id)))
    seen = await diamond.preview()
    assert [(contest.name, contest.winner, contest.overruled) for contest in seen.contested] == [
        ("file", second, False),
        ("x", second, True),
    ]
    assert [loser.kept_as for contest in seen.contested for loser in contest.losers] == [
        f".conflicts/{first}/file",
        f".conflicts/{first}/x",
    ]
    assert [(share.id, share.files, share.conflicts) for share in seen.splits] == [(first, 3, 2), (second, 4, 0)]
    assert [(left.id, left.state, left.reason) for left in seen.left_out] == [
        (slow, SplitState.RUNNING, "it is still running")
    ]
    assert sorted(datamon.context.vmetadata.keys(keys.diamond_folder(diamond.repo, diamond.id))) == before
    assert list(datamon.context.metadata.keys(keys.bundles(diamond.repo))) == []
    answer = await diamond.commit("m")
    assert (answer.files, answer.bytes, answer.conflicts) == (seen.files, seen.bytes, seen.conflicts)
    with pytest.raises(WrongState, match="cannot be committed any more"):
        await diamond.preview()


async def test_a_preview_of_too_little_is_refused(datamon, diamond, files):
    with pytest.raises(NothingToCommit, match="no done split"):
        await diamond.preview()
    await add(diamond, files("p", {"a": "1"}))
    with pytest.raises(NothingToCommit, match="fewer than the 2"):
        await diamond.preview(splits=2)


async def test_bundles_of_one_second_are_listed_in_the_order_they_were_made(datamon, repo, files):
    opened = [await datamon.diamonds.initialize(repo) for _ in range(6)]
    await asyncio.gather(*(add(diamond, files("p", {"a": "1"})) for diamond in opened))
    made = [(await diamond.commit("m")).bundle for diamond in opened]
    assert [bundle.id for bundle in bundles(datamon, opened[0])] == made
    assert newest_bundle(datamon.context, RepoName(repo)) == made[-1]


async def test_twenty_diamonds_at_once_do_not_disturb_each_other(datamon, repo, files, tmp_path):
    async def one(number):
        diamond = await datamon.diamonds.initialize(repo)
        await add(diamond, files(f"p{number}", {"same name": f"content {number}", f"own {number}": "x"}))
        return (await diamond.commit(f"{number}", ConflictMode.FORBID)).bundle

    made = await asyncio.gather(*map(one, range(20)))
    found = {bundle.id: bundle for bundle in list_bundles(datamon.context, RepoName(repo))}
    assert set(found) == set(made)
    assert {bundle.files for bundle in found.values()} == {2}
    download(BundleReader(datamon.context, found[made[7]]), tmp_path / "out", Selection())
    assert tree(tmp_path / "out") == {"same name": "content 7", "own 7": "x"}
