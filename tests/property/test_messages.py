"""Whatever is said to a diamond: it is taken or refused, and what is remembered can be carried on."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from datamon.core.contributors import Contributor
from datamon.core.errors import DatamonError
from datamon.sources.source import Source
from datamon.workflows.common.message_checks import check_values, checked_message, storable_text, summary_text
from datamon.workflows.diamonds.details import describe
from datamon.workflows.diamonds.messages import AddSplit, CancelRequest, CommitRequest, SplitReport, as_typed
from datamon.workflows.diamonds.record import DiamondRecord

NOW = "2026-01-01T00:00:00.000000000Z"

text = st.text(st.characters(), max_size=20) | st.sampled_from(
    ["x" * 5_000, "\ud800", "a\nb", "../x", "datamon@h", "s3://b/p"]
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
)


def like(kind):
    """Messages with the right names of fields, more or less."""
    fields = [*kind.__dataclass_fields__, "from_a_newer_version"]
    if kind is AddSplit:  # as a person types it: what belongs to the source may stand beside the rest
        fields += Source.__dataclass_fields__
    return st.dictionaries(st.sampled_from(fields), anything | text, max_size=6)


def understood(kind, message):
    """A message as it was understood; what was not is refused in one line that can be shown."""
    try:
        return checked_message(kind, message)
    except DatamonError as error:
        shown = str(error).encode()
    assert b"\n" not in shown
    return None


@given(
    st.lists(anything | like(AddSplit), max_size=5),
    like(CommitRequest) | anything,
    like(SplitReport),
    like(CancelRequest),
)
def test_whatever_is_said(adds, commit, report, cancel):
    record = DiamondRecord("r", "d", Contributor("Ada"))
    record.revision = 1
    for message in adds:
        add = understood(AddSplit, as_typed(message))
        if add is not None:
            record.add(record.completed(add, lambda: "new"), NOW)
    request = understood(CommitRequest, commit)
    if request is not None:
        try:
            record.check_commit(request)
        except DatamonError as error:
            record.refuse_commit(request, error)
        else:
            record.accept_commit(request)
    ended = understood(SplitReport, report)
    if ended is not None:
        record.report(ended, NOW)
    record.cancel = understood(CancelRequest, cancel)
    describe(record).encode()
    msgspec.json.encode([record.split(split) for split in record.splits])
    packed = record.pack()
    again = DiamondRecord(record.repo, record.diamond, record.contributor, packed=packed.packed)
    assert again.splits == record.splits


@given(text)
def test_text_that_can_be_carried(words):
    assert len(storable_text(words).encode()) <= 4_096
    assert len(summary_text(words).encode()) <= 400
    check_values(CancelRequest(reason=storable_text(words)))
