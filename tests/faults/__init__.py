"""Breaking things on purpose: real processes, proxies that fail by a seed, and a checker that trusts nobody.

    s3.py         an HTTP proxy before the S3 server: delays, drops, resets, 500, 503, lost and cut and doubled answers
    tcp.py        a proxy before the Temporal server: delays, resets, silence
    stack.py      Temporal on its file, SeaweedFS, two workers, a Spark cluster: each a process that can be killed
    work.py       a random diamond out of a seed, and its life from the first add to the last question
    checker.py    reads a store with PyYAML and blake3, and asserts what must hold whatever happened
    scenarios.py  the faults, each a few lines
    __main__.py   `make torture`: all of them, again and again, with other seeds; writes docs/internals/reliability.md

`make test` runs every kind of fault once, with one seed.
"""
