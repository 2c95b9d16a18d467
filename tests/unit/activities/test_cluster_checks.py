"""What is said where the machines of a Spark cluster do not share what they must."""

import pytest

from datamon.activities.cluster_checks import check_written, same_files, same_store
from datamon.core.errors import NotFound, SourceChanged, SourceMissing, SourceUnreadable, StoreRefused
from datamon.stores.directory import DirectoryStore


def test_a_source_that_only_the_driver_sees():
    said = "cannot read '/data': the machines of the Spark cluster do not see it"
    with pytest.raises(SourceUnreadable, match=said), same_files(on_cluster=True):
        raise SourceMissing("/data")
    with pytest.raises(SourceUnreadable, match="see other files there, or it has changed"), same_files(on_cluster=True):
        raise SourceChanged("/data")
    with pytest.raises(SourceMissing), same_files(on_cluster=False):
        raise SourceMissing("/data")


def test_lists_that_only_the_driver_sees(tmp_path):
    store = DirectoryStore(tmp_path)
    with pytest.raises(StoreRefused, match="have another directory there"), same_store(store, on_cluster=True):
        raise NotFound("object", "diamonds/r/d/splits/s/bundle-files-1.yaml")
    for kind, on_cluster in (("object", False), ("bundle", True)):
        with pytest.raises(NotFound), same_store(store, on_cluster=on_cluster):
            raise NotFound(kind, "it")


def test_lists_that_are_not_in_our_store(tmp_path):
    store = DirectoryStore(tmp_path)
    store.create("there", b"")
    check_written(store, ["there"], on_cluster=True)
    check_written(store, ["elsewhere"], on_cluster=False)
    with pytest.raises(StoreRefused, match="have another directory there; use S3"):
        check_written(store, ["there", "elsewhere"], on_cluster=True)
