"""Diamonds and splits for clients: what can be sent to their workflows, and asked of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blake3 import blake3
from temporalio.client import (
    WithStartWorkflowOperation,
    WorkflowHandle,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from datamon.activities.failures import from_failure
from datamon.bundles.catalog import get_bundle
from datamon.bundles.metadata import check_metadata
from datamon.bundles.repos import get_repo
from datamon.core.errors import (
    AlreadyExists,
    BadUsage,
    DatamonError,
    Failed,
    NotFound,
    NoWorker,
    Remedy,
    SplitFailed,
    WrongState,
)
from datamon.core.globs import globs
from datamon.core.ids import (
    DiamondId,
    RepoName,
    SplitId,
    checked_text,
    diamond_id,
    id_of,
    label_name,
    new_id,
    repo_name,
    split_id,
)
from datamon.diamonds.catalog import diamond_exists, get_diamond, get_split
from datamon.diamonds.model import Diamond as StoredDiamond
from datamon.diamonds.model import DiamondState, SplitState, ended
from datamon.diamonds.selection import check_enough, left_out_splits, taken_splits
from datamon.merge.modes import ConflictMode, Order
from datamon.sources.source import Links, Source, is_s3_url, name_pattern, sorted_names
from datamon.starter.attempts import Attempt, pending_attempts
from datamon.starter.split_queries import SplitQueries
from datamon.starter.splits import Split
from datamon.stores import keys
from datamon.stores.protocol import create_same, s3_location
from datamon.worker.connection.client import server_id
from datamon.worker.connection.failures import is_gone, retry_while_busy, unreachable
from datamon.worker.connection.queues import require_worker
from datamon.workflows.common.long_lived import ASK_AGAIN
from datamon.workflows.common.message_checks import MAX_ID, MAX_SECONDS, summary_text
from datamon.workflows.common.names import (
    TASK_QUEUE,
    attributes,
    diamond_workflow,
    upload_queue,
)
from datamon.workflows.common.options import Options
from datamon.workflows.diamonds.diamond import PAGE, DiamondWorkflow
from datamon.workflows.diamonds.messages import (
    AddSplit,
    CancelRequest,
    CommitAnswer,
    CommitRequest,
    DiamondStatus,
    SplitStatus,
)
from datamon.workflows.diamonds.record import ADDED_AGAIN, DiamondRecord

if TYPE_CHECKING:
    from datamon.diamonds.dry_run import Preview
    from datamon.starter.client import Datamon

_LET_GO = frozenset({ASK_AGAIN, "AcceptedUpdateCompletedWorkflow"})


class Diamonds:
    """The diamonds of a store."""

    def __init__(self, datamon: Datamon) -> None:
        self._datamon = datamon

    async def initialize(
        self,
        repo: str,
        diamond: str | None = None,
        tag: str = "",
        options: Options | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
        request: str | None = None,
    ) -> Diamond:
        """Open a diamond. An id of your own must never have been used. The same request gives the same diamond."""
        datamon, opening = self._datamon, checked_request(request)
        record = DiamondRecord(
            repo=repo_name(repo),
            diamond=diamond_id(diamond or (id_of(repo, opening) if opening else new_id())),
            contributor=datamon.settings.contributor,
            tag=checked_text("tag", tag),
            options=options or Options(),
            server=await server_id(datamon.client),
            opening=opening,
            metadata=check_metadata(metadata or {}),
        )
        await asyncio.to_thread(get_repo, datamon.context, record.repo)
        try:
            opened = await self._start(record, diamond_exists(record.diamond))
        except AlreadyExists:
            if not opening:
                raise
            return await self._opened_before(record)
        await opened.require_same_store()
        return opened

    async def _opened_before(self, record: DiamondRecord) -> Diamond:
        """The diamond that the same request opened, or AlreadyExists."""
        opened = Diamond(self._datamon, record.repo, record.diamond)
        with suppress(RPCError, WorkflowUpdateFailedError):  # it may have ended, and is described in the store
            _: Any = await opened.handle.execute_update(DiamondWorkflow.initialized)
        if (await opened.described()).opening != record.opening:
            raise diamond_exists(record.diamond)
        return opened

    async def recover(
        self, repo: str, diamond: str, options: Options | None = None, *, server_lost: bool = False
    ) -> Diamond:
        """Recover a diamond whose workflow is gone, from the store: done splits count, all others are failed.

        On a server other than the one it was opened on, this needs `server_lost`: that server is lost for good.
        """
        stored = await self.get(repo, diamond).described()
        if stored.state.ended:
            raise WrongState("diamond", stored.id, stored.state, "there is nothing to recover")
        server = await server_id(self._datamon.client)
        if stored.server not in ("", server) and not server_lost:
            elsewhere = "it was opened on another Temporal server or namespace, and may still be running there"
            raise WrongState("diamond", stored.id, stored.state, elsewhere, Remedy.DECLARE_SERVER_LOST)
        alive = WrongState("diamond", stored.id, stored.state, "its workflow exists, so there is nothing to recover")
        record = DiamondRecord(
            stored.repo, stored.id, stored.contributor, stored.tag, options or Options(), recovering=True, server=server
        )
        return await self._start(record, alive)

    async def _start(self, record: DiamondRecord, taken: DatamonError) -> Diamond:
        """Start the workflow of a diamond, and wait until it is open; `taken` is what to say if there is one."""
        datamon = self._datamon
        await require_worker(datamon.client, TASK_QUEUE)
        start = WithStartWorkflowOperation(
            DiamondWorkflow.run,
            record,
            id=diamond_workflow(record.repo, record.diamond),
            task_queue=TASK_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
            search_attributes=attributes(record.repo, "diamond", DiamondState.INITIALIZED),
            static_summary=summary_text(f"diamond {record.tag or record.diamond} of {record.repo}"),
            static_details=f"Makes one bundle in repo {record.repo} out of many uploads.",
        )
        try:
            _: Any = await datamon.client.execute_update_with_start_workflow(
                DiamondWorkflow.initialized, start_workflow_operation=start
            )
        except WorkflowAlreadyStartedError:
            raise taken from None
        except WorkflowUpdateFailedError as error:
            raise from_failure(error) from error
        except RPCError as error:
            raise unreachable(datamon.client, error) from error
        finally:
            await asyncio.gather(start.workflow_handle(), return_exceptions=True)
        return Diamond(datamon, record.repo, record.diamond)

    def get(self, repo: str, diamond: str) -> Diamond:
        """A diamond that was opened before."""
        return Diamond(self._datamon, repo_name(repo), diamond_id(diamond))


@dataclass(frozen=True)
class SplitOptions:
    """How to add a split. An `id` must be that of an existing split, unless `create` allows a new one.

    `files` is a list of names below the path, one on each line; `name_filter` a regular expression; `include` and
    `exclude` are globs with the rules of .gitignore. A file is uploaded if all of them let it through. By default, a
    selection that leaves nothing to upload is refused. Symbolic links and empty folders are kept if that is asked for,
    and files that have not changed are read again only with `reread`. The same `request` counts once, and gives the
    same split again.
    """

    id: str | None = None
    create: bool = False
    tag: str | None = None
    skip_on_error: bool = False
    files: bytes | None = None
    name_filter: str = ""
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    allow_empty: bool | None = None
    links: Links = Links.FOLLOW
    empty_folders: bool = False
    reread: bool = False
    request: str | None = None


class Diamond:
    """A diamond, as a client sees it."""

    def __init__(self, datamon: Datamon, repo: RepoName, diamond: DiamondId) -> None:
        self._datamon, self.repo, self.id = datamon, repo, diamond
        self.split_queries = SplitQueries(self._look_up)

    @property
    def handle(self) -> WorkflowHandle[DiamondWorkflow, Any]:
        """The workflow, whichever run of it is the current one."""
        return self._datamon.client.get_workflow_handle_for(DiamondWorkflow.run, diamond_workflow(self.repo, self.id))

    async def require_same_store(self) -> None:
        """The worker takes its store from its own environment. If it is another one, cancel the diamond and say so."""
        try:
            await self.described()
        except NotFound:
            await self.cancel("its client uses another store")
            where = f"the worker does not use the store {self._datamon.settings.store}"
            raise Failed(
                f"{where}; set DATAMON_STORE or TEMPORAL_ADDRESS to the same value as for the worker"
            ) from None

    async def described(self) -> StoredDiamond:
        """The diamond as published in the store."""
        return await asyncio.to_thread(get_diamond, self._datamon.context, self.repo, self.id)

    async def status(self) -> DiamondStatus:
        """The diamond in numbers, from the workflow itself."""
        try:
            return await retry_while_busy(lambda: self.handle.query(DiamondWorkflow.status))
        except RPCError as error:
            raise await self.explained(error) from error

    async def add(self, path: str | Path, options: SplitOptions | None = None) -> Split:
        """Add what is at a path of this machine or at an s3:// URL.

        Returns once the diamond has accepted it; the upload goes on.
        """
        [split] = await self.add_all([path], options)
        return split

    async def add_all(self, paths: Sequence[str | Path], options: SplitOptions | None = None) -> list[Split]:
        """Add many paths with few messages, each as a split of its own."""
        options = options or SplitOptions()
        if options.id is not None and len(paths) > 1:
            raise BadUsage("one split id cannot stand for several paths")
        if options.request is not None and len(paths) > 1:
            raise BadUsage("one request cannot stand for several paths")
        if options.name_filter:
            name_pattern(options.name_filter)
        globs(options.include)
        globs(options.exclude)
        ids = [split_id(self._new_split(options)) for _ in paths]
        adds = [await self._add_message(split, path, options) for split, path in zip(ids, paths, strict=True)]
        await require_worker(self._datamon.client, TASK_QUEUE, *{add.queue for add in adds} - self._datamon.serves)
        try:
            batches = [adds[start : start + PAGE] for start in range(0, len(adds), PAGE)]
            for batch in batches:
                await self.handle.signal(DiamondWorkflow.add, batch)
            return [split for batch in batches for split in await self._accepted(batch)]
        except RPCError as error:
            added = await self._added_before(adds[0]) if options.request and is_gone(error) else None
            if added is not None:
                return [added]
            raise await self.explained(error, "no split can be added any more") from error

    def _new_split(self, options: SplitOptions) -> str:
        if options.id is not None:
            return options.id
        return id_of(self.repo, self.id, options.request) if options.request else new_id()

    async def _added_before(self, add: AddSplit) -> Split | None:
        """The split that the same request added, before the diamond ended."""
        with suppress(NotFound):
            stored = await asyncio.to_thread(get_split, self._datamon.context, self.repo, self.id, add.split)
            if stored.request == add.request:
                return Split(self._datamon, self, add.split, add.request)
        return None

    async def _add_message(self, split: SplitId, path: str | Path, options: SplitOptions) -> AddSplit:
        settings = self._datamon.settings
        source = Source(
            path=_location(path),
            skip_on_error=options.skip_on_error,
            files=await self._stored_names(split, options.files),
            name_filter=checked_text("name filter", options.name_filter),
            include=[checked_text("glob", one) for one in options.include],
            exclude=[checked_text("glob", one) for one in options.exclude],
            allow_empty=options.allow_empty,
            links=options.links,
            empty_folders=options.empty_folders,
            reread=options.reread,
        )
        return AddSplit(
            split=split,
            request=checked_request(options.request) or new_id(),
            source=source,
            queue=upload_queue(source, settings.host),
            host=settings.host,
            contributor=settings.contributor,
            tag=checked_text("tag", options.tag or ""),
            must_exist=options.id is not None and not options.create,
        )

    async def _stored_names(self, split: SplitId, names: bytes | None) -> str:
        """A list of names may be long, so it goes by the store, and only its key to the workflow."""
        if names is None:
            return ""
        body = sorted_names(names)
        key = keys.split_names(self.repo, self.id, split, blake3(body).hexdigest())
        await self.described()
        await asyncio.to_thread(create_same, self._datamon.context.vmetadata, key, body)
        return key

    async def _accepted(self, adds: Sequence[AddSplit]) -> list[Split]:
        """A signal cannot refuse, so ask whether the diamond took them."""
        statuses = await self._look_up([add.split for add in adds])
        return [self._taken(add, status) for add, status in zip(adds, statuses, strict=True)]

    def _taken(self, add: AddSplit, status: SplitStatus) -> Split:
        if status.request == add.request:
            return Split(self._datamon, self, add.split, add.request)
        if status.refused is not None:  # of this add, or of one after it, when this one was refused as well
            raise status.refused.error()
        if status.known:  # another add under its id came after this one, and was taken
            raise SplitFailed(add.split, ADDED_AGAIN)
        raise Failed(f"diamond {self.id} did not take split {add.split}; add it again")

    def split(self, split: str) -> Split:
        """A split that was added before."""
        return Split(self._datamon, self, split_id(split))

    async def split_status(self, split: SplitId) -> SplitStatus:
        """One split as the diamond sees it."""
        return await self.split_queries.get(split)

    async def _look_up(self, splits: list[SplitId]) -> list[SplitStatus]:
        return await retry_while_busy(lambda: self.handle.query(DiamondWorkflow.look_up, splits))

    async def commit(
        self,
        message: str,
        mode: ConflictMode = ConflictMode.KEEP,
        order: Order = Order.UPLOADED,
        *,
        wait: bool = False,
        splits: int | None = None,
        timeout_seconds: float | None = None,
        label: str | None = None,
        metadata: Mapping[str, str] | None = None,
        request: str | None = None,
    ) -> CommitAnswer:
        """Make the bundle of all done splits.

        With `wait`, it first waits until no split is running and at least one, or as many as `splits` says, are done.
        After `timeout_seconds` it stops waiting and fails. The workflow sets the label once the bundle exists. The same
        `request` gives the same bundle again.
        """
        if timeout_seconds is not None and not (wait and 0 < timeout_seconds <= MAX_SECONDS):
            raise BadUsage("a timeout must be more than 0 seconds, and needs `wait`")
        words = checked_text("message", message).strip()
        if not words:
            raise BadUsage("the message is empty; say in a sentence what this version is")
        named = label_name(label) if label is not None else ""
        who = self._datamon.settings.contributor
        wanted = CommitRequest(
            request=checked_request(request) or new_id(),
            message=words,
            mode=mode,
            order=order,
            wait=wait,
            splits=splits,
            timeout_seconds=timeout_seconds or 0,
            label=named,
            contributor=who,
            metadata=check_metadata(metadata or {}),
        )
        answer: CommitAnswer = await self._ask(DiamondWorkflow.commit, wanted, "it cannot be committed any more")
        return answer

    async def attempts(self) -> list[Attempt]:
        """What the diamond itself has under way: the merge of a commit, writing its descriptor or a label."""
        return await pending_attempts(self._datamon.client, self.handle)

    async def preview(
        self, mode: ConflictMode = ConflictMode.KEEP, order: Order = Order.UPLOADED, splits: int | None = None
    ) -> Preview:
        """What a commit would do now. It changes nothing."""
        status = await self.status()
        if status.state is not DiamondState.INITIALIZED:
            raise WrongState("diamond", self.id, status.state, "it cannot be committed any more")
        check_enough(self.id, {SplitState(state): count for state, count in status.splits.items()}, splits)
        outcomes = [(split.split, split) for split in await self.splits()]
        taken, left_out = taken_splits(outcomes), left_out_splits(outcomes)
        context = self._datamon.context
        from datamon.diamonds.dry_run import preview

        return await asyncio.to_thread(preview, context, self.repo, self.id, mode, order, taken, left_out)

    async def splits(self) -> list[SplitStatus]:
        """All splits, in the order they were added, as the diamond sees them."""
        splits: list[SplitStatus] = []
        try:
            while len(page := await self._page(len(splits) // PAGE)) == PAGE:
                splits += page
        except RPCError as error:
            raise await self.explained(error) from error
        return splits + page

    async def _page(self, number: int) -> list[SplitStatus]:
        return await retry_while_busy(lambda: self.handle.query(DiamondWorkflow.splits, number))

    async def cancel(self, reason: str = "canceled by the user", *, request: str | None = None) -> None:
        """Stop all splits, wait until they have stopped, and close the diamond without a bundle."""
        wanted = CancelRequest(checked_request(request) or new_id(), checked_text("reason", reason))
        await self._ask(DiamondWorkflow.cancel, wanted, "it cannot be canceled any more")

    async def _ask(self, update: Any, request: CommitRequest | CancelRequest, refused: str) -> Any:
        """Send an update and wait for its answer, again where the workflow has gone on in a new run meanwhile."""
        await require_worker(self._datamon.client, TASK_QUEUE)
        while True:
            try:
                return await self.handle.execute_update(update, request)
            except WorkflowUpdateFailedError as error:
                if not (isinstance(error.cause, ApplicationError) and error.cause.type in _LET_GO):
                    raise from_failure(error) from error
            except WorkflowUpdateRPCTimeoutOrCancelledError:
                if (task := asyncio.current_task()) is not None and task.cancelling():
                    raise asyncio.CancelledError from None
            except RPCError as error:
                stored = await self.described() if is_gone(error) else None
                if stored is not None and _is_what_came_of(request, stored):
                    return await self._answer_of(stored)
                raise await self.explained(error, refused) from error
            request = replace(request, again=True)  # what it came to meanwhile, be it a failure, is the answer

    async def _answer_of(self, ended: StoredDiamond) -> CommitAnswer | None:
        """What a request came to before, as the store tells. A cancel has come to nothing more than that."""
        if ended.bundle is None:
            return None
        bundle = await asyncio.to_thread(get_bundle, self._datamon.context, self.repo, ended.bundle)
        return CommitAnswer(
            request=ended.request,
            bundle=bundle.id,
            files=bundle.files,
            bytes=bundle.bytes,
            conflicts=bundle.conflicts + bundle.checkpoints,
            left_out=bundle.origin.left_out,
            label=ended.label,
            unlabeled=ended.reason,
        )

    async def explained(self, error: RPCError, refused: str = "it has ended") -> DatamonError:
        """Why the workflow did not answer, in the words of the store."""
        if error.status is not RPCStatusCode.NOT_FOUND:
            busy = error.status in (RPCStatusCode.FAILED_PRECONDITION, RPCStatusCode.DEADLINE_EXCEEDED)
            return NoWorker(TASK_QUEUE) if busy else unreachable(self._datamon.client, error)
        diamond = await self.described()
        if diamond.state.ended:
            return ended(self.id, diamond.state, diamond.bundle, refused)
        at = self._datamon.client.service_client.config.target_host
        lost = f"is {diamond.state} in the store, but the Temporal server at {at} has no workflow for it"
        return Failed(f"diamond {self.id} {lost}", Remedy.RECOVER_DIAMOND)


def _is_what_came_of(request: CommitRequest | CancelRequest, diamond: StoredDiamond) -> bool:
    """Whether a diamond has ended by this very request."""
    state = DiamondState.DONE if isinstance(request, CommitRequest) else DiamondState.CANCELED
    return (diamond.state, diamond.request) == (state, request.request)


def checked_request(request: str | None) -> str:
    """A request that a client names, so that it counts once however often it is sent; none is empty."""
    if request is None:
        return ""
    if not request.strip():
        raise BadUsage("the request is empty; give an id of your own, or leave it out")
    return checked_text("request", request, MAX_ID)


def _location(path: str | Path) -> str:
    if is_s3_url(str(path)):
        s3_location(str(path))
        return checked_text("path", str(path))
    return checked_text("path", str(Path(path).absolute()))
