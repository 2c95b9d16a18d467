"""File lists, read as a test wants them."""

from datamon.lists.reader import FileList, read_reference


def opened(store, key):
    """A list without the descriptor that refers to it."""
    return FileList.stored(store, key, read_reference(key, store.get(key)))


def in_memory(body, reference):
    """A list that is in no store."""
    return FileList.in_memory("the/key", reference, body)
