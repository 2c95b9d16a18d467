"""The blocking client has the shape of the async one: the same classes, methods, parameters and words."""

import inspect

import pytest

from datamon.starter import blocking, client

PAIRS = [
    (getattr(blocking, name), getattr(client, name))
    for name in ("Repos", "Diamonds", "Bundles", "Labels", "Housekeeping", "Diamond", "Split")
]
OF_A_LOOP = {"handle", "explained", "require_same_store", "split_status", "split_queries"}  # of no use without one


def methods(kind):
    return {
        name: member
        for name, member in vars(kind).items()
        if inspect.isfunction(member) and not name.startswith("_") and name not in OF_A_LOOP
    }


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=lambda kind: kind.__name__)
def test_every_method_is_there_with_the_same_parameters_and_words(ours, theirs):
    assert set(methods(ours)) == set(methods(theirs))
    for name, method in methods(theirs).items():
        mine = methods(ours)[name]
        assert inspect.signature(mine) == inspect.signature(method), name
        assert inspect.getdoc(mine) == inspect.getdoc(method), name
        assert not inspect.iscoroutinefunction(mine), name
    assert inspect.getdoc(ours) == inspect.getdoc(theirs)


def test_a_connection_has_the_same_parts(tmp_path):
    theirs = {name for name, member in vars(client).items() if inspect.isclass(member)} & set(client.__all__)
    assert {pair[1].__name__ for pair in PAIRS} | {"Datamon", "SplitOptions"} == theirs
    settings = client.Settings.load({"DATAMON_HOME": str(tmp_path)})
    parts = {name for name, value in vars(client.Datamon(None, settings)).items() if type(value).__name__ in theirs}
    assert parts == {"repos", "diamonds", "bundles", "labels", "housekeeping"}
    dm = blocking.Datamon(client.Datamon(None, settings), None)
    assert {name for name, value in vars(dm).items() if type(value).__module__ == blocking.__name__} == parts
