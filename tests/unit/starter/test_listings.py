"""Listings are complete, however many there are: a page of S3 ends at 1,000 keys."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from datamon.bundles.repos import create_repo
from datamon.core.contributors import Contributor
from datamon.core.ids import DiamondId, RepoName, SplitId
from datamon.diamonds.model import Diamond, DiamondState, Split, SplitState
from datamon.stores import descriptors, keys
from datamon.stores.context import open_context
from tests.conftest import Command

R, D, ADA = RepoName("r"), DiamondId("d0000"), Contributor("Ada")
MANY = 1_010
AT = "2026-01-01T00:00:00.000000000Z"


def diamond(number):
    return Diamond(
        id=DiamondId(f"d{number:04d}"),
        repo=R,
        state=DiamondState.CANCELED if number % 2 else DiamondState.INITIALIZED,
        contributor=ADA,
        created=AT,
        updated=AT,
        revision=1,
    )


def split(number):
    return Split(
        id=SplitId(f"s{number:04d}"),
        diamond=D,
        repo=R,
        state=SplitState.FAILED,
        generation=1,
        revision=2,
        tag=f"node-{number}",
        contributor=ADA,
        host="h",
        source="/data",
        created=AT,
        started=AT,
        ended=AT.replace("00:00:00.", "00:00:02."),
        position=MANY - number,
        attempts=3,
        reason=f"reason {number}",
    )


@pytest.fixture
def store(place):
    """A repo with many diamonds, the first of them with many splits, and the first of these with many lists."""
    context = open_context(place)
    create_repo(context, R, "", ADA, 0)
    objects = {keys.diamond(R, one.id): descriptors.dump(one) for one in map(diamond, range(MANY))}
    objects |= {keys.split(R, D, one.id): descriptors.dump(one) for one in map(split, range(MANY))}
    folder = keys.split_folder(R, D, SplitId("s0000"))
    for number in range(MANY):
        objects[keys.uploaded_list(folder, f"g1-00000000-{number:05d}")] = b""
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda item: context.vmetadata.create(*item), objects.items()))
    return place


def test_more_than_a_page_of_everything_and_without_a_server(store, tmp_path):
    """One diamond with many splits must not hide those behind it, nor one split with many lists."""
    command = Command(tmp_path, {"DATAMON_STORE": store, "TEMPORAL_ADDRESS": "127.0.0.1:1"})
    diamonds = command.json("diamond", "list", "--repo", R)
    assert [one["id"] for one in diamonds] == [f"d{number:04d}" for number in range(MANY)]
    _, *table = command("diamond", "split", "list", "--repo", R, "--diamond", D).splitlines()
    assert [line.split()[0] for line in table] == [f"s{number:04d}" for number in reversed(range(MANY))], "as added"
    for shown in ("s1009", "failed", "node-1009", "2.0 s", " 3 ", "h:/data", "reason 1009"):
        assert shown in table[0]


def test_listings_by_state_and_with_rates(tmp_path):
    context = open_context(str(tmp_path / "store"))
    create_repo(context, R, "", ADA, 0)
    done = replace(split(1), id=SplitId("done"), state=SplitState.DONE, bytes=4 << 20, reason="")
    for one in (split(0), done):
        context.vmetadata.create(keys.split(R, D, one.id), descriptors.dump(one))
    for number in range(4):
        context.vmetadata.create(keys.diamond(R, diamond(number).id), descriptors.dump(diamond(number)))
    command = Command(tmp_path, {"DATAMON_STORE": str(tmp_path / "store"), "TEMPORAL_ADDRESS": "127.0.0.1:1"})
    listed = command.json("diamond", "list", "--repo", R, "--state", "canceled")
    assert [one["id"] for one in listed] == ["d0001", "d0003"]
    [row] = command.json("diamond", "split", "list", "--repo", R, "--diamond", D, "--state", "done")
    assert (row["id"], row["seconds"], row["rate"]) == ("done", 2.0, 2 << 20)
    assert "2.0 MiB/s" in command("diamond", "split", "list", "--repo", R, "--diamond", D)
    wrong = ("diamond", "list", "--repo", R, "--state", "odd")
    assert "is not one of" in command.refused(*wrong, exit_code=2)
