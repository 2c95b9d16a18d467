"""How the bytes of files lie in the store: packs, chunks and roots; writing them, not twice, and reading them back.

Imports only `datamon.core` and `datamon.stores`.

    small files   packs/{xx}/{blake3}    file || file || file …       about PACK_BYTES, in name order
    large files   chunks/{xx}/{blake3}   CHUNK_BYTES, the last one shorter
                  roots/{xx}/{blake3}    YAML: the file's chunks in order
    empty files   nothing

Every object is named by the BLAKE3 of its bytes, so putting it twice stores it once.
"""
