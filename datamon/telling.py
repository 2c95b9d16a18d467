"""How tasks tell the activity that runs them how far they are, while they run.

Each task sends small datagrams with what it has done so far; the newest counts. One that is lost, or a network
that lets none through, costs a look at the progress and nothing else.
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

Tell = Callable[[int, int, int], None]
"""Called with (files, bytes, bytes newly stored) as they are done."""

_Told = tuple[str, int, bool, int, int, int]  # token, task, ended, files, bytes, stored
_decode = msgspec.json.Decoder(_Told).decode


def untold(files: int, bytes: int, stored: int) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True)
class Ear:
    """Where to tell it."""

    host: str
    port: int
    token: str


class Teller:
    """One task's voice: call it with what was done since the last call, from any thread."""

    def __init__(self, ear: Ear | None, task: int) -> None:
        self._ear, self._task = ear, task
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM) if ear else None
        self._lock = threading.Lock()
        self._files = self._bytes = self._stored = 0
        self._next = 0.0

    def __call__(self, files: int, bytes: int, stored: int) -> None:
        """Some more is done."""
        with self._lock:
            self._files += files
            self._bytes += bytes
            self._stored += stored
            if time.monotonic() < self._next:
                return
            self._next = time.monotonic() + INTERVAL
        self._send(ended=False)

    def end(self) -> None:
        """The task is done."""
        self._send(ended=True)
        if self._socket is not None:
            self._socket.close()

    def _send(self, *, ended: bool) -> None:
        if self._ear is None or self._socket is None:
            return
        told: _Told = (self._ear.token, self._task, ended, self._files, self._bytes, self._stored)
        try:
            self._socket.sendto(msgspec.json.encode(told), (self._ear.host, self._ear.port))
        except OSError:
            self._ear = None  # nobody can hear us here


class Listener:
    """Hears the tasks of one job. `totals` is what they have told so far."""

    def __init__(self, host: str) -> None:
        self._token = secrets.token_hex(8)
        self._tasks: dict[int, tuple[bool, int, int, int]] = {}
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((host, 0))
        self._socket.settimeout(0.0)
        self.ear = Ear(host, self._socket.getsockname()[1], self._token)

    def totals(self) -> tuple[int, int, int, int]:
        """Tasks that ended, files, bytes, bytes newly stored."""
        self._hear()
        tasks = list(self._tasks.values())
        return (
            sum(task[0] for task in tasks),
            sum(task[1] for task in tasks),
            sum(task[2] for task in tasks),
            sum(task[3] for task in tasks),
        )

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()

    def _hear(self) -> None:
        while True:
            try:
                message = self._socket.recv(1024)
            except OSError:  # all is heard
                return
            with suppress(msgspec.DecodeError):
                token, task, ended, files, size, stored = _decode(message)
                if token == self._token:
                    self._tasks[task] = ended, files, size, stored
