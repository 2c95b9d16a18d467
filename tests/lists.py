"""File lists, read as a test wants them."""

import msgspec
from blake3 import blake3

from datamon.filelist import FileList, read_info
from datamon.model import ListInfo


def opened(store, key):
    """A list without the descriptor that owns it."""
    return FileList.stored(store, key, read_info(key, store.get(key), "i"))


def in_memory(body, info):
    """A list that is in no store."""
    return FileList("the/key", info, lambda start, length: body[start : None if length is None else start + length])


def old_list(entries, index):
    """A list of version 1 with these entries, and what its descriptor keeps."""
    packs = sorted({entry.at[0] for entry in entries if entry.at})
    lines = []
    for entry in entries:
        fields = msgspec.to_builtins(entry)
        if entry.at:
            fields["at"] = [packs.index(entry.at[0]), entry.at[1]]
        lines.append(b"- %s\n" % msgspec.json.encode(fields))
    head = b"version: 1\npacks: %s\nentries:\n" % msgspec.json.encode(packs)
    body = head + b"".join(lines)
    size = sum(entry.size for entry in entries)
    first, last = entries[0].name, entries[-1].name
    return body, ListInfo(index, len(entries), size, first, last, blake3(body).hexdigest())
