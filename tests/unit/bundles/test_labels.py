"""Labels: moved by those who have seen where they are, with nothing lost."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from datamon.bundles import labels
from datamon.bundles.model import Label
from datamon.bundles.repos import create_repo
from datamon.core.contributors import Contributor
from datamon.core.errors import NotFound, WrongState
from datamon.core.ids import BundleId, LabelName, RepoName
from datamon.stores import keys
from datamon.stores.context import open_context

R, L, ADA = RepoName("r"), LabelName("latest"), Contributor("Ada")


@pytest.fixture(params=["directory", "s3"])
def context(request, tmp_path):
    place = str(tmp_path) if request.param == "directory" else request.getfixturevalue("place")
    context = open_context(place)
    create_repo(context, R, "", ADA, 0)
    return context


def value(number, bundle=None):
    at = f"2026-01-01T00:00:{number % 60:02d}Z"
    return Label(name=L, repo=R, bundle=BundleId(bundle or f"b{number}"), contributor=ADA, set=at, id=f"id{number:03d}")


def bundles(context):
    return [label.bundle for label in labels.history(context, R, L)]


def test_a_label_moves_and_remembers(context):
    with pytest.raises(NotFound, match="no label 'latest'"):
        labels.get_label(context, R, L)
    for number in (1, 2, 3):
        labels.set_label(context, value(number))
    assert labels.get_label(context, R, L) == value(3)
    assert bundles(context) == ["b3", "b2", "b1"]
    assert [label.name for label in labels.list_labels(context, R)] == ["latest"]


def test_an_attempt_that_comes_late_moves_nothing(context):
    """Its answer was lost, and somebody has moved the label since."""
    for number in (1, 2):
        labels.set_label(context, value(number))
    for _ in range(2):
        labels.set_label(context, value(1))
        labels.set_label(context, value(2))
    assert bundles(context) == ["b2", "b1"]


def test_of_many_at_once_all_are_in_the_history(context):
    values = [value(number) for number in range(20)]
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda one: labels.set_label(context, one), values))
    assert sorted(bundles(context)) == sorted(one.bundle for one in values)
    kept = list(context.vmetadata.keys(keys.label_history(R, L)))
    assert len(kept) == 19


def test_a_label_moves_only_from_where_it_is_expected(context):
    with pytest.raises(NotFound):
        labels.set_label(context, value(1), expected=BundleId("b0"))
    labels.set_label(context, value(1))
    with pytest.raises(WrongState, match="label latest is at b1: it was not moved, for b0 was expected"):
        labels.set_label(context, value(2), expected=BundleId("b0"))
    labels.set_label(context, value(2), expected=BundleId("b1"))
    assert bundles(context) == ["b2", "b1"]
