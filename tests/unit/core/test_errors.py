import ast
import importlib
import pickle
import re
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from datamon.core import errors
from datamon.core.errors import AlreadyExists, DatamonError, ErrorCode, Failed, NotFound, Remedy, WrongState, rebuild
from datamon.starter.advice import sentence

FAMILY = DatamonError.__subclasses__()
VALUES = {"str": "x", "int": 2, "float": 2.0, "list[str]": ["'a' (splits s, t)"], "list[Any]": ["'a' (splits s, t)"]}
REMEDIES = [remedy for remedy in Remedy if remedy is not Remedy.NONE]
FLAG_OR_COMMAND = re.compile(r"(?<![\w-])--[a-z]|`datamon\b|\bdatamon [a-z]+ --")
KNOW_NO_COMMAND = ("core", "stores", "content", "lists", "merge", "bundles", "sources", "diamonds", "activities")


def example(cls):
    return cls(*(VALUES[field.type] for field in fields(cls)))


def examples(cls):
    """Errors of a class with every kind of value: as short as can be, and with other numbers and words."""
    needed = [field for field in fields(cls) if field.default is MISSING and field.default_factory is MISSING]
    yield cls(*(VALUES[field.type] for field in needed))
    for number in (0, 1, 7):
        values = VALUES | {
            "int": number,
            "list[str]": [f"name {count}" for count in range(number)],
            "list[Any]": [f"name {count}" for count in range(number)],
        }
        yield cls(*(values[field.type] for field in fields(cls)))


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


def test_an_error_as_a_value_is_returned_not_raised():
    def fail(item):
        raise errors.SourceChanged(item)

    assert str(errors.error_as_value(fail, "a")) == str(errors.SourceChanged("a"))
    assert errors.error_as_value(str.upper, "a") == "A"


@pytest.mark.parametrize("remedy", REMEDIES)
def test_every_remedy_has_words_for_somebody_at_a_terminal(remedy):
    for error in (NotFound("thing", "x", remedy, "r"), AlreadyExists("thing", "x", remedy)):
        happened, _, advice = sentence(error).partition("; ")
        assert happened == str(error)
        assert FLAG_OR_COMMAND.search(advice), "it says what to type"
        assert not re.search(r"[{}\n]", advice)
    stopped = WrongState("thing", "x", "odd", "no", remedy)
    assert sentence(stopped) == f"{stopped}; {sentence(AlreadyExists('thing', 'x', remedy)).partition('; ')[2]}"


def test_remedies_name_what_the_error_is_about():
    assert sentence(NotFound("repo", "weather", Remedy.CREATE_REPO)).endswith("`datamon repo create --repo weather`")
    missing = NotFound("diamond", "d", Remedy.INITIALIZE_DIAMOND, "weather")
    assert sentence(missing).endswith("`datamon diamond initialize --repo weather`")


def test_an_error_without_a_remedy_is_said_as_it_is():
    assert sentence(NotFound("thing", "x")) == "there is no thing 'x'"


def test_a_remedy_survives_the_wire():
    error = NotFound("repo", "weather", Remedy.CREATE_REPO)
    assert sentence(rebuild(str(error.code), [str(arg) for arg in error.args])) == sentence(error)


@pytest.mark.parametrize("cls", FAMILY)
def test_no_errors_own_sentence_mentions_a_flag_or_a_command(cls):
    for error in examples(cls):
        assert not FLAG_OR_COMMAND.search(str(error))
        assert not re.search(r"\bDATAMON_|\bTEMPORAL_", str(error))


@pytest.mark.parametrize("package", KNOW_NO_COMMAND)
def test_what_is_below_the_command_has_no_words_for_flags_and_commands(package):
    """Errors are also given sentences and reasons where they are raised."""
    for path in Path(importlib.import_module(f"datamon.{package}").__file__).parent.rglob("*.py"):
        module = ast.parse(path.read_text())
        spoken = [text for text in texts(module) if FLAG_OR_COMMAND.search(text)]
        assert spoken == [], path


def texts(module):
    """The texts in a module, without those that stand alone: docstrings."""
    alone = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
    constants = (node for node in ast.walk(module) if isinstance(node, ast.Constant) and id(node) not in alone)
    return [node.value for node in constants if isinstance(node.value, str)]
