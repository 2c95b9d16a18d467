"""How tasks report their progress to the activity that runs them.

Each task sends small datagrams with what it has done so far; the newest counts. If some are lost, or the network lets
none through, only the display of progress suffers.

On the same machine, the system says whether anybody still receives them. If not, the job was canceled, and the task
ends: Spark itself would let it run to its end.
"""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import msgspec

INTERVAL = 0.5  # seconds between two messages of a task

ReportProgress = Callable[[int, int, int], None]
"""Called with (files, bytes, bytes newly stored) as they are done."""

_Message = tuple[str, int, bool, int, int, int]  # token, task, ended, files, bytes, stored
_decode = msgspec.json.Decoder(_Message).decode


def ignore_progress(files: int, bytes: int, stored: int) -> None:
    """A ReportProgress that does nothing."""


class NobodyWaits(Exception):
    """The job of a task was canceled."""


@dataclass(frozen=True, slots=True)
class ProgressAddress:
    """Where tasks send their messages. The token tells the tasks of one job from strangers."""

    host: str
    port: int
    token: str
    is_here: bool = False  # on the machine of all tasks


class ProgressSender:
    """Reports for one task: call it with what was done since the last call, from any thread."""

    def __init__(self, address: ProgressAddress | None, task: int) -> None:
        self._address, self._task = address, task
        self._socket = _connected(address) if address else None
        self._lock = threading.Lock()
        self._files = self._bytes = self._stored = 0
        self._next = 0.0

    def __call__(self, files: int, bytes: int, stored: int) -> None:
        """Add to what is done, and send it if the last message is old enough. Raises NobodyWaits."""
        with self._lock:
            self._files += files
            self._bytes += bytes
            self._stored += stored
            if time.monotonic() < self._next:
                return
            self._next = time.monotonic() + INTERVAL
        self._send(ended=False)

    def end(self) -> None:
        """Report that the task has ended."""
        with suppress(NobodyWaits):
            self._send(ended=True)
        if self._socket is not None:
            self._socket.close()

    def _send(self, *, ended: bool) -> None:
        if self._address is None or self._socket is None:
            return
        message: _Message = (self._address.token, self._task, ended, self._files, self._bytes, self._stored)
        try:
            self._socket.send(msgspec.json.encode(message))
        except OSError as error:
            if self._address.is_here and isinstance(error, ConnectionRefusedError):
                raise NobodyWaits from None
            self._address = None  # nothing gets through from here


def _connected(address: ProgressAddress) -> socket.socket | None:
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sender.connect((address.host, address.port))
    except OSError:
        sender.close()
        return None
    return sender


class ProgressReceiver:
    """Receives the reports of one job's tasks."""

    def __init__(self, host: str, *, is_here: bool = False) -> None:
        self._token = secrets.token_hex(8)
        self._tasks: dict[int, tuple[bool, int, int, int]] = {}
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((host, 0))
        self._socket.settimeout(0.0)
        self.address = ProgressAddress(host, self._socket.getsockname()[1], self._token, is_here)

    def totals(self) -> tuple[int, int, int, int]:
        """Tasks that ended, files, bytes, and bytes newly stored, as far as they were reported."""
        self._receive()
        tasks = list(self._tasks.values())
        return (
            sum(task[0] for task in tasks),
            sum(task[1] for task in tasks),
            sum(task[2] for task in tasks),
            sum(task[3] for task in tasks),
        )

    def close(self) -> None:
        """Stop receiving."""
        self._socket.close()

    def _receive(self) -> None:
        while True:
            try:
                datagram = self._socket.recv(1024)
            except OSError:  # nothing is waiting
                return
            with suppress(msgspec.DecodeError):
                token, task, ended, files, size, stored = _decode(datagram)
                if token == self._token:
                    self._tasks[task] = ended, files, size, stored
