import os
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from datamon.core.names import sort_key
from datamon.sources.plan import LARGE_PART, MAX_FILES, PIECE_COST, SMALL_PART, cut, gather, make_plan
from datamon.sources.source import Source
from datamon.sources.tree import SourceFile, open_tree
from tests.property.strategies import names

sizes = st.integers(0, 1 << 12) | st.integers(0, 64 << 20)


@st.composite
def sources(draw):
    named = draw(st.lists(st.tuples(names, sizes), max_size=60, unique_by=lambda pair: pair[0]))
    repeat = draw(st.integers(1, 30))  # long runs, without drawing each file
    files = [
        SourceFile(f"{name}/{number}", size, 420, number, path="") for name, size in named for number in range(repeat)
    ]
    return sorted(files, key=lambda file: sort_key(file.name))


@given(sources(), st.integers(1, 16))
def test_parts_hold_every_file_once_and_are_balanced(files, slots):
    parts = cut(gather(files), slots)
    held = [[file for file in files if part.names.holds(sort_key(file.name))] for part in parts]
    assert [file for part in held for file in part] == files
    assert [(part.files, part.bytes) for part in parts] == [(len(h), sum(f.size for f in h)) for h in held]
    assert [part.fingerprint for part in parts] == [sum(f.fingerprint for f in h) % (1 << 128) for h in held]
    assert all(0 < part.files <= MAX_FILES for part in parts)
    costs = [sum(piece.cost for piece in gather(h)) for h in held]
    largest_file = max((piece.cost for piece in gather(files)), default=0)
    share = max(sum(costs) / max(len(parts), 1), SMALL_PART)
    assert max(costs, default=0) <= share + max(PIECE_COST, largest_file)
    assert max(costs, default=0) <= 2 * LARGE_PART + max(PIECE_COST, largest_file)


@given(sources())
def test_a_small_source_is_one_part(files):
    if sum(piece.cost for piece in gather(files)) < SMALL_PART:
        assert len(cut(gather(files), 16)) == min(1, len(files))


@settings(max_examples=50)
@given(st.lists(st.lists(st.sampled_from(["a", "b", "a-1", "é", "z.txt"]), min_size=1, max_size=3), max_size=12))
def test_a_walk_is_in_name_order_and_any_cut_of_it_gives_the_same(paths):
    with tempfile.TemporaryDirectory() as folder:
        for parts in paths:
            path = Path(folder, *parts)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("/".join(parts))
            except OSError:  # a file is in the way of a folder, or the other way round
                continue
        source = open_tree(Source(folder))
        everything = list(source.walk())
        assert [f.name for f in everything] == sorted((f.name for f in everything), key=sort_key)
        on_disk = [os.path.relpath(os.path.join(d, f), folder) for d, _, fs in os.walk(folder) for f in fs]
        assert sorted(f.name for f in everything) == sorted(on_disk)
        plan = make_plan(source, 2)
        assert [f for part in plan.parts for f in source.walk(part.names)] == everything
        assert plan == make_plan(source, 2)
