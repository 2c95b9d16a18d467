"""Bundles made without a commit."""

from datamon.bundles.model import Bundle, DiamondOrigin
from datamon.bundles.reader import BundleReader
from datamon.core.ids import BundleId, DiamondId, RepoName
from datamon.lists.format import rows_of
from datamon.lists.reader import FileList
from datamon.lists.writer import ListWriter
from datamon.merge.modes import ConflictMode, Order
from datamon.sources.plan import make_plan
from datamon.sources.source import Source
from datamon.sources.tree import open_tree
from datamon.sources.upload import Upload, upload_part
from datamon.stores import keys
from datamon.stores.protocol import create_same

R, D, B = RepoName("r"), DiamondId("d"), BundleId("b")
FOLDER = keys.split_folder(R, D, "s")


def bundle_of(lists, files=0, **fields):
    origin = DiamondOrigin(diamond=D, mode=ConflictMode.KEEP, order=Order.UPLOADED, splits=[], left_out=[])
    defaults = {"id": B, "message": "", "created": "", "contributors": [], "conflicts": 0, "checkpoints": 0, "bytes": 0}
    return Bundle(origin=origin, files=files, lists=lists, **defaults | fields)


def put_lists(context, entries, cutting=None):
    """The lists of a bundle that holds these entries."""
    options = {"cutting": cutting} if cutting is not None else {}

    def store(body, reference):
        create_same(context.metadata, keys.file_list(reference.digest), body)

    def open_list(reference):
        return FileList.stored(context.metadata, keys.file_list(reference.digest), reference)

    writer = ListWriter(store, open_list, **options)
    writer.move(rows_of(entries))
    return writer.finish()


def uploaded(context, folder):
    """A bundle of the files in a folder."""
    source = Source(str(folder))
    plan = make_plan(open_tree(source), 2)
    upload = Upload(FOLDER, 1, plan.digest, source, context)
    references = [upload_part(part, upload).listed for part in plan.parts]
    for reference in references:
        body = context.vmetadata.get(keys.uploaded_list(FOLDER, reference.index))
        create_same(context.metadata, keys.file_list(reference.digest), body)
    return bundle_of(references, plan.files)


def reader_of(context, folder):
    """A reader of such a bundle."""
    return BundleReader(context, uploaded(context, folder))
