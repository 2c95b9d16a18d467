"""Memory is bounded by packs and chunks in flight, never by the size of a file."""

import subprocess
import sys

from datamon.content import CHUNK_BYTES, PACK_BYTES
from datamon.upload import AT_ONCE

ALLOWED = (AT_ONCE + 3) * PACK_BYTES + (150 << 20)  # what is in flight, and Python itself

WAY_THERE = """
import sys
from datamon.plan import make_plan
from datamon.sources import Source, open_tree
from datamon.stores import open_context
from datamon.upload import Upload, upload_part, upload_slice

source, context = Source(sys.argv[1]), open_context(sys.argv[2])
plan = make_plan(open_tree(source), 2)
upload = Upload("r", "d", "s", 1, plan.digest, source, context)
for piece in plan.slices:
    upload_slice(piece, upload)
for part in plan.parts:
    upload_part(part, upload)
"""

WAY_BACK = """
import sys
from pathlib import Path
from datamon.download import download
from datamon.filelist import read_info
from datamon import keys
from datamon.stores import open_context
from tests.bundles import bundle_of

context = open_context(sys.argv[1])
infos = []
for key in context.vmetadata.keys():
    if "bundle-files" in key:
        body = context.vmetadata.get(key)
        infos.append(read_info(key, body, "00000-000"))
        context.metadata.create(keys.bundle_files("r", "b", "00000-000"), body)
download(context, bundle_of(infos), Path(sys.argv[2]))
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
        for start in range(0, size, CHUNK_BYTES):  # no two chunks are equal, so every one is put
            file.seek(start)
            file.write(b"%d" % start)
        file.truncate(size)
    assert size > ALLOWED
    assert peak(WAY_THERE, tmp_path / "huge", tmp_path / "store") < ALLOWED
    assert peak(WAY_BACK, tmp_path / "store", tmp_path / "out") < ALLOWED
    assert (tmp_path / "out" / "huge").stat().st_size == size
