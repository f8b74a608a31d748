"""`slotlog.toml`: the settings of a folder and all below it, up to the top of its git repository or the home folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

FILE_NAME = "slotlog.toml"

_KINDS = {bool: "true or false", str: "text"}


class FileSettings(NamedTuple):
    """What a file says; None for what it leaves out. `store` means the same wherever it is asked from."""

    store: str | None = None
    actor: str | None = None
    branch: str | None = None
    branch_isolation: bool | None = None


_TYPES: dict[str, type] = {"store": str, "actor": str, "branch": str, "branch_isolation": bool}


def found() -> FileSettings:
    """The settings of the working directory; empty ones where there is no file.

    Raises:
        InvalidInput: the file is no TOML, has a setting that there is not, or one of the wrong type.
    """
    try:
        path = nearest(os.getcwd())
    except FileNotFoundError:  # the working directory was removed
        path = None
    return FileSettings() if path is None else read(path)


def nearest(folder: str) -> str | None:
    """The first file from `folder` upward. The top of the git repository is the last folder looked at, outside of one
    the home folder, and elsewhere `folder` itself: whoever may write above it must not choose where memory goes."""
    upward = [folder, *map(str, Path(folder).parents)]
    tops = [place for place, one in enumerate(upward) if os.path.exists(os.path.join(one, ".git"))]
    home = os.path.expanduser("~")
    last = tops[0] if tops else upward.index(home) if home in upward else 0
    files = (os.path.join(one, FILE_NAME) for one in upward[: last + 1])
    return next((file for file in files if os.path.isfile(file)), None)


def read(path: str) -> FileSettings:
    """The settings of one file.

    Raises:
        InvalidInput: as `found`.
    """
    import tomllib

    from schemas.errors import InvalidInput

    with open(path, "rb") as file:
        try:
            given = tomllib.load(file)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidInput(
                f"{path} is no TOML: {error}", hint='a setting is written like store = "memory"'
            ) from error
    for key, value in given.items():
        _check(path, key, value)
    store = given.pop("store", None)
    return FileSettings(None if store is None else _from_there(store, os.path.dirname(path)), **given)


def _check(path: str, key: str, value: Any) -> None:
    from difflib import get_close_matches

    from schemas.errors import InvalidInput

    wanted = _TYPES.get(key)
    if wanted is None:
        near = get_close_matches(key, _TYPES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_TYPES)}"
        raise InvalidInput(f"{path}: there is no setting {key!r}", hint=hint)
    if type(value) is not wanted:
        raise InvalidInput(f"{path}: {key} must be {_KINDS[wanted]}, not {value!r}")
    if value == "":
        raise InvalidInput(f"{path}: {key} is empty", hint="leave it out")


def _from_there(store: str, folder: str) -> str:
    """The store's name, with a relative folder in it taken from where the file is."""
    if store.startswith("kafka://"):
        from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

        parts = urlsplit(store)
        given = parse_qsl(parts.query, keep_blank_values=True)
        moved = [(name, _beside(value, folder) if name == "state" else value) for name, value in given]
        return store if moved == given else urlunsplit(parts._replace(query=urlencode(moved)))
    return store if "://" in store else _beside(store, folder)


def _beside(path: str, folder: str) -> str:
    return os.path.normpath(os.path.join(folder, os.path.expanduser(path)))
