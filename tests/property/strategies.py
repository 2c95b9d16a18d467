"""What legal names, entries and splits look like."""

from hypothesis import strategies as st

from datamon.model import Entry
from datamon.names import flaw, order

components = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=8)
awkward = st.sampled_from(
    ["x", "y", "x-1", "é", "\x7f", "\u2028", "\x85", "\ufeff", "\uffff", "😀", '"', "\\", "- ", "\n", " "]
)
names = st.lists(components | awkward, min_size=1, max_size=4).map("/".join).filter(lambda name: flaw(name) is None)
hashes = st.text("0123456789abcdef", min_size=64, max_size=64)
numbers = st.integers(0, 2**63 - 1)


@st.composite
def entries(draw, name=names):
    where = draw(st.sampled_from(["pack", "root", "empty"]))
    return Entry(
        name=draw(name),
        hash=draw(hashes),
        size=draw(numbers),
        mode=draw(st.integers(0, 0o7777)),
        mtime=draw(numbers),
        timestamp=draw(numbers),
        at=(draw(hashes), draw(numbers)) if where == "pack" else None,
        root=draw(hashes) if where == "root" else None,
    )


def in_order_without_clashes(found):
    """As one file system could hold them: sorted, each name once, nothing below a file."""
    kept = []
    for entry in sorted(found, key=lambda entry: order(entry.name)):
        if kept and (entry.name == kept[-1].name or order(entry.name).startswith(order(kept[-1].name) + "\0")):
            continue
        kept.append(entry)
    return kept


listings = st.lists(entries(), min_size=1, max_size=30).map(in_order_without_clashes)
