"""The commands that say whether a store is what it was: verify and doctor."""

from __future__ import annotations

import click

from projectors.surfaces.params import Settings, common

_STORE_TROUBLE = 4
_OUTCOME_CELLS = 7


@click.command(short_help="Compare the log with what was folded.")
@common
@click.pass_obj
def verify(settings: Settings) -> None:
    """Read the whole log again and compare it, and the tables, with what was folded, byte for byte.

    Finds an edit, a gap, a change of order, an insertion and a cut, and tables altered by hand. Each difference is one
    line; code 4 when there is any. The hash chain that the log is held to is kept with the tables: records that nobody
    had folded into them before have nothing to be compared with, which is said; from then on they have. `slotlog
    rebuild` takes all of them as they are.

    \b
    Examples:
      slotlog verify
      slotlog verify --json | jq -r '.[].what'
    """
    from projectors.surfaces import output

    with settings.open(create=False, hold=True) as memory:
        vouched, offsets = memory.vouched()
        found = memory.verify()
        partitions = memory.info().partitions if not found else ()
    if settings.json:
        output.document(found)
    elif not found:
        records = sum(one.applied + one.duplicates + one.quarantined for one in partitions)
        output.line(
            f"no difference: {output.counted(records, 'record')} in {output.counted(len(partitions), 'partition')}"
        )
        if vouched < offsets:
            output.note(
                f"the last {offsets - vouched:,} were folded only now, so an earlier edit of them would not show"
            )
    for problem in () if settings.json else found:
        place = "" if problem.position is None else f"{problem.position}  "
        output.line(f"{'tables' if problem.in_tables else 'log':<6}  {place}{output.printable(problem.what)}")
    if not found:
        return
    if not settings.json:
        mended = all(problem.in_tables for problem in found)
        hint = (
            "slotlog rebuild mends tables" if mended else "the log is history: bring it back from a copy or an archive"
        )
        output.note(f"hint: {hint}")
    raise click.exceptions.Exit(_STORE_TROUBLE)


@click.command(short_help="Look at everything, and mend what may be.")
@click.option("--repair/--no-repair", default=True, help="Mend what is derived from the log. Default: do.")
@common
@click.pass_obj
def doctor(settings: Settings, repair: bool) -> None:
    """Look at everything that can be wrong with the store, one line a check, as each is done.

    \b
    well     as it should be
    noticed  needs somebody's eye, and is no fault of the store
    mended   was wrong, and is no longer: tables folded again, leftovers removed
    wrong    is at fault; code 4

    The log itself is never touched.

    \b
    Examples:
      slotlog doctor
      slotlog doctor --no-repair --json | jq -r '.[] | select(.outcome == "wrong") | .detail'
    """
    from projectors.surfaces import output
    from schemas.errors import InvalidInput, SlotlogError
    from streams.doctor import doctor as checks

    try:
        settings.open(create=False).close()
    except InvalidInput:  # there is no store of that name to look at
        raise
    except SlotlogError:
        pass  # which is what the checks tell
    found = []
    for check in checks(settings.store_name, repair=repair, busy_timeout_s=settings.timeout):
        found.append(check)
        if not settings.json:
            output.line(f"{check.outcome:<{_OUTCOME_CELLS}}  {check.name}: {output.printable(check.detail)}")
            output.flush()
    if settings.json:
        output.document(found)
    if any(check.outcome == "wrong" for check in found):
        raise click.exceptions.Exit(_STORE_TROUBLE)
