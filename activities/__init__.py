"""What datamon does: side effects, each of which may run twice at the same time and leaves the same bytes.

Imports `datamon`, nothing of `workflows`, `worker` or `starter`. What workflows need to know of activities is in
`contracts`. The modules beside it hold the implementations: classes that `registry` finds by itself.
"""
