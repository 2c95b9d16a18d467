import pickle
from dataclasses import fields

import pytest

from datamon import errors
from datamon.errors import DatamonError, ErrorCode, Failed, rebuild

FAMILY = DatamonError.__subclasses__()
VALUES = {"str": "x", "int": 2, "list[str]": ["'a' (splits s, t)"]}


def example(cls):
    return cls(*(VALUES[field.type] for field in fields(cls)))


@pytest.mark.parametrize("cls", FAMILY)
def test_every_error_survives_pickle_and_the_wire(cls):
    error = example(cls)
    for again in (pickle.loads(pickle.dumps(error)), rebuild(str(error.code), list(error.args))):
        assert type(again) is cls
        assert again.args == error.args
        assert str(again) == str(error)


@pytest.mark.parametrize("cls", FAMILY)
def test_every_error_is_one_sentence(cls):
    text = str(example(cls))
    assert text
    assert "\n" not in text


def test_codes_are_unique():
    assert sorted(cls.code for cls in FAMILY) == sorted(ErrorCode)


def test_an_error_of_a_newer_version_keeps_its_words():
    assert isinstance(rebuild("Unheard", ["of", 1]), Failed)
    assert str(rebuild("NotFound", ["one argument is not enough"])) == "NotFound: one argument is not enough"


def test_caught_returns_what_it_would_raise():
    def fail(item):
        raise errors.SourceChanged(item)

    assert str(errors.caught(fail, "a")) == str(errors.SourceChanged("a"))
    assert errors.caught(str.upper, "a") == "A"
