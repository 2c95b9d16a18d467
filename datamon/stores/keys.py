"""Where every object lives. The only module that spells a key.

    metadata/   store.yaml                                         there is a store, and which one
                repos/{repo}/repo.yaml
                diamonds/{repo}/{diamond}.yaml                     this id is taken, for ever
                bundles/{repo}/{bundle}/bundle.yaml                written last: the bundle exists from then on
                lists/{xx}/{digest}                                a file list, of any number of bundles
    vmetadata/  labels/{repo}/{label}/label.yaml                   where it points now
                labels/{repo}/{label}/history/{id}.yaml            where it pointed before
                diamonds/{repo}/{diamond}/diamond.yaml
                diamonds/{repo}/{diamond}/splits/{split}/split.yaml
                diamonds/{repo}/{diamond}/splits/{split}/bundle-files-{index}.yaml
                diamonds/{repo}/{diamond}/splits/{split}/chunks-{index}.yaml       the chunks of a huge file
                diamonds/{repo}/{diamond}/splits/{split}/skipped-{index}.jsonl     what could not be uploaded, and why
                diamonds/{repo}/{diamond}/splits/{split}/names-{digest}.txt        what `--files` listed
    blob/       packs/{xx}/{blake3}    chunks/{xx}/{blake3}    roots/{xx}/{blake3}

`{index}` sorts as text in name order. It starts with the generation of the split and the digest of the plan
(`g2-5d1c77aa-00017`), so a task of an older run or with an older plan writes other objects and replaces none.
"""

from __future__ import annotations

import re

from blake3 import blake3

from datamon.core.ids import BundleId, DiamondId, LabelName, RepoName, SplitId

STORE = "store.yaml"
PROBE = "conditional-writes"  # an empty object with which writers test whether a server honours conditions
REPOS = "repos/"


def repo(name: RepoName) -> str:
    """Descriptor of a repo."""
    return f"{REPOS}{name}/repo.yaml"


def id_reservation(name: RepoName, diamond: DiamondId) -> str:
    """What makes the id of a diamond unique for ever. It outlives the diamond's other traces."""
    return f"diamonds/{name}/{diamond}.yaml"


def bundles(name: RepoName) -> str:
    """Folder of a repo's bundles."""
    return f"bundles/{name}/"


def bundle(name: RepoName, bundle: BundleId) -> str:
    """Descriptor of a bundle."""
    return f"{bundles(name)}{bundle}/bundle.yaml"


def file_list(digest: str) -> str:
    """A file list of bundles. Bundles that hold the same list share it."""
    return f"lists/{digest[:2]}/{digest}"


def labels(name: RepoName) -> str:
    """Folder of a repo's labels."""
    return f"labels/{name}/"


def label(name: RepoName, label: LabelName) -> str:
    """Where a label points now."""
    return f"{labels(name)}{label}/label.yaml"


def label_history(name: RepoName, label: LabelName) -> str:
    """Folder of the values that a label had."""
    return f"{labels(name)}{label}/history/"


def old_label(name: RepoName, label: LabelName, value: str) -> str:
    """One value that a label had."""
    return f"{label_history(name, label)}{value}.yaml"


def diamonds(name: RepoName) -> str:
    """Folder of a repo's diamonds."""
    return f"diamonds/{name}/"


def diamond_folder(name: RepoName, diamond: DiamondId) -> str:
    """Folder of all that a diamond has in vmetadata."""
    return f"{diamonds(name)}{diamond}/"


def diamond(name: RepoName, diamond: DiamondId) -> str:
    """Descriptor of a diamond."""
    return f"{diamond_folder(name, diamond)}diamond.yaml"


def splits(name: RepoName, diamond: DiamondId) -> str:
    """Folder of a diamond's splits."""
    return f"{diamond_folder(name, diamond)}splits/"


def split_folder(name: RepoName, diamond: DiamondId, split: SplitId) -> str:
    """Folder of a split's descriptor and lists."""
    return f"{splits(name, diamond)}{split}/"


def split(name: RepoName, diamond: DiamondId, split: SplitId) -> str:
    """Descriptor of a split."""
    return f"{split_folder(name, diamond, split)}split.yaml"


def uploaded_list(folder: str, index: str) -> str:
    """One file list of an upload, in the folder of its split."""
    return f"{folder}bundle-files-{index}.yaml"


def upload_run(generation: int, plan: str) -> str:
    """The beginning of the indexes of all lists that one generation of a split writes by one plan."""
    return f"g{generation}-{plan[:8]}-"


def upload_index(generation: int, plan: str, part: int) -> str:
    """Index of the list that one upload task writes."""
    return f"{upload_run(generation, plan)}{part:05d}"


def skipped_of(folder: str, run: str) -> str:
    """The beginning of the keys under which a run of a split records what it left out."""
    return f"{folder}skipped-{run}"


def skipped(folder: str, index: str) -> str:
    """What one upload task left out or, if the index ends in `plan`, the walk before all tasks."""
    return f"{skipped_of(folder, index)}.jsonl"


def uploaded_chunks(folder: str, generation: int, plan: str, state: str) -> str:
    """The record of the chunks of a huge file in some state, which is made before they are stored."""
    file = blake3(state.encode()).hexdigest()[:16]
    return f"{folder}chunks-{upload_run(generation, plan)}{file}.yaml"


def split_names(name: RepoName, diamond: DiamondId, split: SplitId, digest: str) -> str:
    """The names that a user listed for a split."""
    return f"{split_folder(name, diamond, split)}names-{digest[:16]}.txt"


def is_split_names(key: str, name: RepoName, diamond: DiamondId, split: SplitId) -> bool:
    """Whether a key is that of a list of names of this split."""
    match = re.fullmatch(r"(.*/)names-[0-9a-f]{16}\.txt", key)
    return match is not None and match[1] == split_folder(name, diamond, split)


def split_generation(key: str) -> int | None:
    """The generation that what a run of a split wrote belongs to; None for any other key."""
    match = re.search(r"/(?:bundle-files|chunks|skipped)-g(\d+)-[^/]*\.(?:yaml|jsonl)$", key)
    return int(match[1]) if match else None


def pack(digest: str) -> str:
    """Many small files, one after another."""
    return f"packs/{digest[:2]}/{digest}"


def chunk(digest: str) -> str:
    """A piece of a large file."""
    return f"chunks/{digest[:2]}/{digest}"


def root(digest: str) -> str:
    """The list of a large file's chunks."""
    return f"roots/{digest[:2]}/{digest}"
