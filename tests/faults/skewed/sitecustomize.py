"""Put on PYTHONPATH, this makes a Python, and all it starts, read a clock that is SKEW_SECONDS ahead."""

import os
import time

_ahead = int(os.environ.get("SKEW_SECONDS", "0"))
_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() + _ahead
time.time_ns = lambda: _time_ns() + _ahead * 10**9
