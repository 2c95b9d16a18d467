"""File lists: entries in name order, as YAML that a machine reads without a YAML parser, and in parts.

Imports `datamon.core`, `datamon.stores` and `datamon.content`.

    version: 1
    index: [
     {"first":"a/b.csv","count":2,"bytes":734004012,"entries":261,"places":187,"identity":"0b…","digest":"7c…"},
     ]
    blocks:
    - entries: [
     {"name":"a/b.csv","hash":"9f…","size":812,"mode":420},
     {"name":"a/c.bin","hash":"0c…","size":734003200,"mode":420},
     ]
      places: [
     {"mtime":…,"timestamp":…,"at":["5d1c…",0]},
     {"mtime":…,"timestamp":…,"root":"aa…"},
     ]

Each entry has a line, which is a JSON object, and in the same order a second line that says where its content lies.
JSON escapes line breaks, so a line feed is always the end of a line. A line means the same in any list, so a merge
moves lines about and decodes only what it needs of them.

Everything up to `blocks:` is the *head*. Its BLAKE3 is the digest of the list: the head holds the digests of every
block, so it vouches for every byte. Whoever needs a few names reads the head and a block or two, and still knows that
they are what was written. The digests of the entries, without the places, make up the *identity* of the list: it says
which content the list holds under which names, and does not depend on when or where that was uploaded.

A block begins at a name whose hash says so, one name in 256, and a list at one name in 16,384; see `cutting`. So where
lists are cut depends on the names in them alone. Equal content makes lists with equal identities whatever its history.
A change rewrites only the lists it falls into, and copies every other block of them undecoded.

A list may hold *deletions*, of a name or, where the name ends in `/`, of everything below a folder. Only lists that
have yet to be merged hold them; those of a bundle do not.
"""
