"""A TCP proxy in front of a server: it delays, resets, falls silent, or refuses, when it is told to or by a seed."""

from __future__ import annotations

import asyncio
import random
import threading
from contextlib import contextmanager, suppress


class FaultyTcp:
    """Where the proxy listens, and what it does wrong just now."""

    def __init__(self, upstream):
        self.host, port = upstream.split(":")
        self.upstream_port = int(port)
        self.address = ""
        self.resets = 0
        self._loop = asyncio.new_event_loop()
        self._links: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._passes = asyncio.Event()
        self._passes.set()
        self._storm = None

    @contextmanager
    def silence(self):
        """While the block runs, nothing gets through, and nobody is told: as when a cable is pulled."""
        self._call(self._passes.clear)
        try:
            yield
        finally:
            self._call(self._passes.set)

    def reset(self):
        """Reset all connections there are."""
        self._call(self._reset)

    @contextmanager
    def storm(self, seed, seconds=2.0):
        """While the block runs, hold back bytes for moments, and reset connections after a while of theirs."""
        self._storm = random.Random(seed)
        self._longest = seconds
        self.reset()  # only new connections know of it
        try:
            yield
        finally:
            self._storm = None
            self.reset()

    def _call(self, work):
        done = threading.Event()

        def do():
            work()
            done.set()

        self._loop.call_soon_threadsafe(do)
        done.wait()

    def _reset(self):
        for link in self._links:
            self.resets += 1
            link.transport.abort()

    async def _close(self, server):
        server.close()
        self._passes.set()
        self._reset()
        await asyncio.gather(*self._serving)

    async def _serve(self, reader, writer):
        task = asyncio.current_task()
        self._serving.add(task)
        try:
            await self._link(reader, writer)
        finally:
            self._serving.discard(task)

    async def _link(self, reader, writer):
        try:
            far_reader, far_writer = await asyncio.open_connection(self.host, self.upstream_port)
        except OSError:
            writer.transport.abort()
            return
        links = {writer, far_writer}
        self._links |= links
        chance = random.Random(self._storm.random()) if self._storm is not None else None
        ways = [self._pass_on(reader, far_writer, chance), self._pass_on(far_reader, writer, chance)]
        if chance is not None:
            ways.append(self._break_off(chance))
        tasks = [asyncio.ensure_future(way) for way in ways]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._links -= links
        for link in links:
            link.transport.abort()

    async def _pass_on(self, reader, writer, chance):
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                await self._passes.wait()
                if chance is not None and chance.random() < 0.1:
                    await asyncio.sleep(chance.uniform(0, self._longest / 4))
                writer.write(data)
                await writer.drain()

    async def _break_off(self, chance):
        await asyncio.sleep(chance.uniform(0.2, self._longest))
        self.resets += 1


@contextmanager
def faulty_tcp(upstream):
    """Run the proxy as long as the block does."""
    proxy = FaultyTcp(upstream)
    loop = proxy._loop

    async def listen():
        server = await asyncio.start_server(proxy._serve, "127.0.0.1", 0)
        proxy.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return server

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(listen(), loop).result()
    try:
        yield proxy
    finally:
        asyncio.run_coroutine_threadsafe(proxy._close(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
