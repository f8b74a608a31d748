"""The commits of the code: which one an event is pinned to, and which one a view looks at."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schemas.events import Code
    from streams.repository import Repository

_FULL = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


def commit_of(rev: str, option: str) -> str:
    """The full id of the commit that `rev` names in the repository of the working directory. Outside of one a full id
    is taken at its word.

    Raises:
        InvalidInput: it names none.
    """
    from schemas.errors import InvalidInput
    from streams.repository import Repository

    repository = Repository.find()
    if repository is not None:
        return repository.resolve(rev)
    if _FULL.fullmatch(rev.lower()):
        return rev.lower()
    raise InvalidInput(
        f"{option} {rev!r} names no commit: the working directory is in no git repository",
        hint="outside of one a commit is named by its full id, 40 or 64 hexadecimal digits",
    )


def head() -> str:
    """The commit that is checked out.

    Raises:
        InvalidInput: there is none.
    """
    from schemas.errors import InvalidInput
    from streams.repository import Repository

    repository = Repository.find()
    if repository is None:
        raise InvalidInput("--isolate looks at HEAD, and the working directory is in no git repository", hint=_NOT_SO)
    found = repository.head()
    if found is None:
        raise InvalidInput("--isolate looks at HEAD, and there is no commit yet", hint=_NOT_SO)
    return found


_NOT_SO = "--no-isolate looks whatever the commit, --at-sha COMMIT at another one"


def is_in_repository() -> bool:
    """Whether a view can ask the repository of the working directory."""
    from streams.repository import Repository

    return Repository.find() is not None


def named_code(rev: str) -> Code:
    """The commit that an event is pinned to because somebody says so.

    Raises:
        InvalidInput: it names none.
    """
    from schemas.errors import InvalidInput
    from streams.repository import Repository

    repository = Repository.find()
    if repository is None:
        raise InvalidInput(
            f"--sha {rev!r}: the working directory is in no git repository, so it has no name either",
            hint='to say both: slotlog append, with "code": {"repo": …, "sha": …}',
        )
    return _code(repository, repository.resolve(rev))


def head_code() -> Code | None:
    """The commit that is checked out where the command runs; None outside of a work tree, before the first commit and
    without git. Where git won't tell, that is told, and the event is written all the same."""
    from schemas.errors import SlotlogError

    if not _is_in_work_tree():
        return None
    from streams.repository import Repository

    try:
        repository = Repository.find()
        found = None if repository is None else repository.head()
        return None if repository is None or found is None else _code(repository, found)
    except SlotlogError as error:
        from projectors.surfaces.output import note, printable

        note(f"no commit is kept with it: {printable(str(error))}")
        if error.hint is not None:
            note(f"hint: {printable(error.hint)}; --no-code says that none is wanted")
        return None


def _code(repository: Repository, sha: str) -> Code:
    from schemas.events import Code

    return Code(repo=repository.name, sha=sha)


def _is_in_work_tree() -> bool:
    """Whether it looks so. It costs a few looks at the disk, where asking git costs a process."""
    try:
        here = Path(os.getcwd())
    except FileNotFoundError:  # the working directory was removed
        return False
    return any(os.path.lexists(os.path.join(folder, ".git")) for folder in (here, *here.parents))
