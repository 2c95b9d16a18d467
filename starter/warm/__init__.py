"""Commands that answer at once: where a stack or a worker is up, a process that has everything imported runs them.

    command                           server                          (one for each home, started by the worker)
      |----- argv, environment ----------->| fork: the guard             checks that it may run the command
      |<---- accepted ---------------------|
      |----- open files ------------------>|     fork: the command       takes all that over
      |<---- ready ------------------------|
      |----- go -------------------------->|                             runs
      |----- signals --------------------->|-----> passed on
      |<---- exit code --------------------|

A command that cannot be run like that runs in its own process, as it does without a server. It must not be possible to
tell the two apart, other than by a clock. `DATAMON_NO_FORK=1` switches this off.
"""
