"""The merge in a few lines: what it must come to, whatever goes in. Slow, and with everything in memory."""

from datamon.content.entry import Entry


def below(name, folder):
    return name.startswith(f"{folder}/")


def inside(name, deleted_folder):
    return deleted_folder == "/" or name.startswith(deleted_folder)


def is_folder(item):
    return not isinstance(item, Entry) and item.name.endswith("/")


def merged(base, peers, layers, rank=lambda item, peer: item.timestamp, lost=()):
    """What there is, which versions lost, and what is kept of these and of those that `lost` before.

    {name: entry}, {(name, peer, hash)}, {name: hash}
    """
    files, kept = {entry.name: entry for entry in base}, {entry.name: entry.hash for entry in lost}
    winners, conflicts = settled(peers, rank)
    folders = [item for peer in peers.values() for item in peer if is_folder(item)]
    for layer in [folders + winners, *layers]:
        write(files, layer)
        make_room(kept, layer)
    filed = {f".conflicts/{peer}/{name}": content for name, peer, content in conflicts if content}
    make_room(kept, [Entry(name, content, 1, 420, 0, 0) for name, content in filed.items()])
    return files, conflicts, kept | filed


def write(files, items):
    """Somebody writes these at once: deletions, and then files."""
    make_room(files, items)
    files |= {item.name: item for item in items if isinstance(item, Entry)}


def make_room(files, items):
    """What is deleted goes, and what stands in the way of files."""
    for item in items:
        if is_folder(item):
            remove(files, lambda name, item=item: inside(name, item.name))
        else:
            files.pop(item.name, None)
    for entry in items:
        if isinstance(entry, Entry):
            remove(files, lambda name, entry=entry: below(name, entry.name) or below(entry.name, name))


def remove(files, is_gone):
    for name in [name for name in files if is_gone(name)]:
        del files[name]


def settled(peers, rank):
    """What wins among peers, files and deletions, and what conflicts."""
    versions = {}  # by name: (strength, item)
    for peer, items in peers.items():
        for item in items:
            if not is_folder(item):
                versions.setdefault(item.name, []).append(((rank(item, peer), peer), item))
    for name, held in versions.items():
        holders = {strength[1] for strength, _ in held}
        for peer, items in peers.items():
            over = [item for item in items if is_folder(item) and inside(name, item.name)]
            held += [((rank(item, peer), peer), item) for item in over if peer not in holders]
    winners, conflicts = {}, set()
    for name in sorted(versions, key=lambda name: name.split("/")):
        strength, best = max(versions[name], key=lambda pair: pair[0])
        lost = {pair for pair in versions[name] if content(pair[1]) != content(best)}
        if isinstance(best, Entry) and is_overruled(name, strength, winners, versions):
            lost.add((strength, best))
        else:
            winners[name] = best if isinstance(best, Entry) else type(best)(name, best.timestamp)
        conflicts |= {(name, strength[1], content(item)) for strength, item in lost}
    return list(winners.values()), conflicts


def is_overruled(name, strength, winners, versions):
    if any(below(name, above) and isinstance(item, Entry) for above, item in winners.items()):
        return True
    inside = [s for other, held in versions.items() for s, item in held if below(other, name) and is_file(item)]
    return max(inside, default=strength) > strength


def is_file(item):
    return isinstance(item, Entry)


def content(item):
    return item.hash if isinstance(item, Entry) else ""
