"""Refs: what names a bundle. A bundle id, or a label."""

from __future__ import annotations

from contextlib import suppress

from datamon.bundles.catalog import get_bundle
from datamon.bundles.labels import get_label
from datamon.bundles.model import Bundle
from datamon.core.errors import NotFound
from datamon.core.ids import RepoName, bundle_id, label_name
from datamon.stores.context import Context


def resolve(context: Context, repo: RepoName, ref: str) -> Bundle:
    """The bundle with this id, or else the one that this label points to."""
    try:
        return get_bundle(context, repo, bundle_id(ref))
    except NotFound as missing:
        if missing.kind != "bundle" or missing.deleted:
            raise
        with suppress(NotFound):
            return get_bundle(context, repo, get_label(context, repo, label_name(ref)).bundle)
    raise NotFound("bundle or label", ref)
