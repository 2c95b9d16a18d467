"""Memory is bounded by packs and chunks in flight, never by the size of a file."""

import subprocess
import sys

from datamon.content.chunking import MIN_CHUNK
from datamon.content.entry import PACK_BYTES
from datamon.content.writing import MAX_WAITING_BYTES

ALLOWED = MAX_WAITING_BYTES + 3 * PACK_BYTES + (150 << 20)  # what is in flight, and Python itself

WAY_THERE = """
import sys
from datamon.sources.plan import make_plan
from datamon.sources.source import Source
from datamon.sources.tree import open_tree
from datamon.sources.upload import Upload, find_chunks, upload_part, upload_slice
from datamon.stores.context import open_context
from tests.bundles import FOLDER

source, context = Source(sys.argv[1]), open_context(sys.argv[2])
plan = make_plan(open_tree(source), 2)
upload = Upload(FOLDER, 1, plan.digest, source, context)
for file in plan.huge:
    for piece in find_chunks(file, upload):
        upload_slice(piece, upload)
for part in plan.parts:
    upload_part(part, upload)
"""

WAY_BACK = """
import sys
from pathlib import Path
from datamon.bundles.download import download
from datamon.bundles.reader import BundleReader
from datamon.lists.reader import read_reference
from datamon.stores import keys
from datamon.stores.context import open_context
from tests.bundles import bundle_of

context = open_context(sys.argv[1])
references = []
for key in context.vmetadata.keys():
    if "bundle-files" in key:
        body = context.vmetadata.get(key)
        references.append(read_reference(key, body))
        context.metadata.create(keys.file_list(references[-1].digest), body)
download(BundleReader(context, bundle_of(references)), Path(sys.argv[2]))
"""


TELL = """
with open("/proc/self/status") as status:
    print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""


def peak(script, *args):
    """The most memory that a script ever had, in bytes."""
    command = [sys.executable, "-c", script + TELL, *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout) << 10


def test_a_file_larger_than_memory_allows_goes_there_and_back(tmp_path):
    size = 800 << 20
    with (tmp_path / "huge").open("wb") as file:
        for start in range(0, size, MIN_CHUNK):  # no two chunks are equal, so every one is put
            file.seek(start)
            file.write(b"%d" % start)
        file.truncate(size)
    assert size > ALLOWED
    assert peak(WAY_THERE, tmp_path / "huge", tmp_path / "store") < ALLOWED
    assert peak(WAY_BACK, tmp_path / "store", tmp_path / "out") < ALLOWED
    assert (tmp_path / "out" / "huge").stat().st_size == size
