"""What legal names, entries and lists look like."""

from hypothesis import strategies as st

from datamon.content.entry import Entry, Place
from datamon.core.names import is_below, name_problem, sort_key
from datamon.lists.format import Deletion

components = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=8)
awkward = st.sampled_from(
    ["x", "y", "x-1", "é", "\x7f", "\u2028", "\x85", "\ufeff", "\uffff", "😀", '"', "\\", "- ", "\n", " "]
)
names = (
    st.lists(components | awkward, min_size=1, max_size=4).map("/".join).filter(lambda name: name_problem(name) is None)
)
short_names = st.lists(st.sampled_from("xyz-"), min_size=1, max_size=3).map("/".join)
odd_names = st.lists(
    st.sampled_from(["x", "y", "x-1", "\x01", '"', "\\", "\n", "é", "😀"]), min_size=1, max_size=3
).map("/".join)
hashes = st.text("0123456789abcdef", min_size=64, max_size=64)
numbers = st.integers(0, 2**63 - 1)
lengths = st.just(0) | st.integers(1, 2**40)
places = st.tuples(hashes, numbers, lengths).flatmap(
    lambda drawn: st.builds(Place, *map(st.just, drawn[:2]), numbers if drawn[2] else st.just(0), st.just(drawn[2]))
)


@st.composite
def entries(draw, name=names):
    where = draw(st.sampled_from(["pack", "root", "empty", "link"]))
    return Entry(
        name=draw(name),
        hash=draw(hashes),
        size=draw(numbers),
        mode=draw(st.integers(0, 0o7777)),
        mtime=draw(numbers),
        timestamp=draw(numbers),
        at=draw(places) if where == "pack" else None,
        root=draw(hashes) if where == "root" else None,
        link=draw(names) if where == "link" else None,
    )


def in_order_without_clashes(items):
    """As one file system could hold them: sorted, each name once, nothing below a file."""
    kept = []
    for item in sorted(items, key=lambda item: sort_key(item.name)):
        key = sort_key(item.name)
        above = any(isinstance(one, Entry) and is_below(key, sort_key(one.name)) for one in kept)
        if not above and not (kept and kept[-1].name == item.name):
            kept.append(item)
    return kept


listings = st.lists(entries(), min_size=1, max_size=30).map(in_order_without_clashes)

contents = st.sampled_from(["1" * 64, "2" * 64, "3" * 64])
times = st.integers(1, 4)
files = st.builds(lambda name, content, time: Entry(name, content, 1, 420, 0, time), short_names, contents, times)
odd_files = st.builds(lambda name, content, time: Entry(name, content, 1, 420, 0, time), odd_names, contents, times)
folders = short_names.map(lambda name: f"{name}/") | st.just("/")
deletions = st.builds(Deletion, short_names | folders, times)

lost_names = st.builds("/".join, st.tuples(st.just(".conflicts"), st.sampled_from("ab"), short_names))
lost_files = st.lists(
    st.builds(lambda name, content: Entry(name, content, 1, 420, 0, 0), lost_names, contents), max_size=6
).map(in_order_without_clashes)
bundles = st.lists(files | odd_files, max_size=12).map(in_order_without_clashes)
splits = st.lists(files | odd_files, min_size=1, max_size=8).map(in_order_without_clashes)
changes = st.lists(files | odd_files | deletions, min_size=1, max_size=8).map(in_order_without_clashes)
