"""File lists, read as a test wants them."""

from datamon.filelist import FileList, read_info


def opened(store, key):
    """A list without the descriptor that owns it."""
    return FileList.stored(store, key, read_info(key, store.get(key), "i"))


def in_memory(body, info):
    """A list that is in no store."""
    return FileList("the/key", info, lambda start, length: body[start : None if length is None else start + length])
