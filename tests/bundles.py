"""Bundles made without a commit."""

from datamon import keys
from datamon.ids import BundleId, DiamondId, RepoName, SplitId
from datamon.model import Bundle, ConflictMode, Order, Origin
from datamon.plan import make_plan
from datamon.sources import Source, open_tree
from datamon.upload import Upload, upload_part

R, D, B = RepoName("r"), DiamondId("d"), BundleId("b")


def bundle_of(lists, files=0):
    origin = Origin(id=D, mode=ConflictMode.KEEP, order=Order.UPLOADED, splits=[], left_out=[])
    return Bundle(
        id=B,
        repo=R,
        message="",
        created="",
        contributors=[],
        parents=[],
        diamond=origin,
        files=files,
        bytes=0,
        conflicts=0,
        checkpoints=0,
        lists=lists,
    )


def uploaded(context, folder):
    """A bundle of the files in a folder."""
    source = Source(str(folder))
    plan = make_plan(open_tree(source), 2)
    infos = []
    for part in plan.parts:
        info = upload_part(part, Upload(R, D, SplitId("s"), 1, plan.digest, source, context)).info
        body = context.vmetadata.get(keys.split_files(R, D, SplitId("s"), info.index))
        context.metadata.create(keys.bundle_files(R, B, info.index), body)
        infos.append(info)
    return bundle_of(infos, plan.files)
