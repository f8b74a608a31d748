"""The commands that tend a store: rebuild, digest, info, quarantine and topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from projectors.surfaces.params import Settings, common, named

if TYPE_CHECKING:
    from streams.stores import KafkaAddress


@click.command(short_help="Fold the whole log again.")
@common
@click.pass_obj
def rebuild(settings: Settings) -> None:
    """Fold the whole log again into fresh tables, and put them in the place of the old ones.

    What the store answers does not change, which `slotlog digest` before and after shows.

    \b
    Example:
      slotlog rebuild
    """
    from projectors.surfaces import output

    with settings.open(create=False) as memory, output.Progress("events folded") as progress:
        memory.rebuild(lambda done, end: progress.update(done, done / end if end else None))
        info = memory.info()
    events = sum(partition.applied for partition in info.partitions)
    if settings.json:
        output.document({"store": info.store, "events": events, "partitions": len(info.partitions)})
    else:
        output.line(f"{events:,} events folded in {output.counted(len(info.partitions), 'partition')}")


@click.command(short_help="A hash over all that is remembered.")
@click.argument("space", callback=named("space"), required=False)
@common
@click.pass_obj
def digest(settings: Settings, space: str | None) -> None:
    """One hash over all that is remembered, and one for each space: equal for equal memory, append times included.

    A copy and an import keep them, events appended again do not. With SPACE only its own.

    \b
    Examples:
      slotlog digest
      test "$(slotlog digest acme/support)" = "$(slotlog --store ./copy digest acme/support)"
    """
    from projectors.surfaces import output

    with settings.open(create=False) as memory:
        whole, spaces = memory.digest()
    if space is not None:
        if space not in spaces:
            if settings.json:
                output.document(None)
            else:
                output.note(f"nothing is in space {output.word(space)}")
            raise click.exceptions.Exit(1)
        if settings.json:
            output.document({"space": space, "digest": spaces[space]})
        else:
            output.line(f"{spaces[space]}  {output.word(space)}")
    elif settings.json:
        output.document({"digest": whole, "spaces": spaces})
    else:
        for name, of_space in spaces.items():
            output.line(f"{of_space}  {output.word(name)}")
        output.line(f"{whole}  {output.counted(len(spaces), 'space')} in all")


@click.command(short_help="Partitions, spaces, events.")
@common
@click.pass_obj
def info(settings: Settings) -> None:
    """What the store holds: partitions, spaces, events, and how many records are quarantined.

    \b
    Examples:
      slotlog info
      slotlog info --json | jq '[.partitions[].quarantined] | add'
    """
    from projectors.surfaces import output

    with settings.open(create=False) as memory:
        found = memory.info()
    if settings.json:
        output.document(found)
        return
    applied = sum(one.applied for one in found.partitions)
    duplicates = sum(one.duplicates for one in found.partitions)
    quarantined = sum(one.quarantined for one in found.partitions)
    output.line(f"store        {output.printable(found.store)}")
    output.line(f"log          {found.log_identity}")
    output.line(f"events       {applied:,} in {output.counted(len(found.spaces), 'space')}")
    output.line(f"quarantined  {quarantined:,}" + (", which slotlog quarantine lists" if quarantined else ""))
    output.line(f"duplicates   {duplicates:,}")
    output.line()
    heads = ("PARTITION", "FIRST", "NEXT", "EVENTS", "DUPLICATES", "QUARANTINED")
    output.table(
        heads,
        [
            (
                *map(str, (one.partition, one.first, one.next)),
                *(f"{count:,}" for count in (one.applied, one.duplicates, one.quarantined)),
            )
            for one in found.partitions
        ],
    )
    if found.spaces:
        output.line()
        rows = [(output.word(one.name), f"{one.events:,}", str(one.first), str(one.last)) for one in found.spaces]
        output.table(("SPACE", "EVENTS", "FIRST", "LAST"), rows)


@click.command(short_help="List what does not count, and why.")
@common
@click.pass_obj
def quarantine(settings: Settings) -> None:
    """The records of the log that do not count, with the reason. None is how it should be, and no error.

    \b
    Examples:
      slotlog quarantine
      slotlog quarantine --json | jq -r '.[].reason'
    """
    from projectors.surfaces import output

    with settings.open(create=False) as memory:
        found = memory.quarantined()
    if settings.json:
        output.document(found)
    elif not found:
        output.line("nothing is quarantined")
    else:
        rows = [
            (
                str(one.position),
                output.seconds(one.append_time),
                one.code,
                "" if one.space is None else output.word(one.space),
                output.printable(one.reason),
            )
            for one in found
        ]
        output.table(("POSITION", "APPENDED", "CODE", "SPACE", "REASON"), rows)


@click.group(short_help="Make or check a Kafka topic.", invoke_without_command=True)
@common
@click.pass_context
def topic(context: click.Context) -> None:
    """Make or check the Kafka topic that a store's name means."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@topic.command(short_help="Make the topic.")
@click.option("--partitions", type=click.IntRange(1), default=6, metavar="N", help="Fixed for ever. Default: 6.")
@click.option("--replication-factor", type=click.IntRange(1), default=1, metavar="N", help="Default: 1.")
@common
@click.pass_obj
def create(settings: Settings, partitions: int, replication_factor: int) -> None:
    """Make the topic with the settings that a log needs.

    The number of partitions can't be changed afterwards: the events of a space are in order because they are in one.

    \b
    Example:
      slotlog --store kafka://127.0.0.1:9092/slotlog.memory topic create --partitions 6 --replication-factor 3
    """
    from projectors.surfaces import output
    from streams.kafka_log import create_topic

    address = _kafka(settings)
    create_topic(
        address.bootstrap,
        address.topic,
        partitions=partitions,
        replication_factor=replication_factor,
        config=address.config,
        timeout_s=settings.timeout,
    )
    if settings.json:
        made = {"topic": address.topic, "partitions": partitions, "replication_factor": replication_factor}
        output.document(made)
    else:
        copies = f"replication factor {replication_factor}"
        output.line(f"{output.word(address.topic)} made: {output.counted(partitions, 'partition')}, {copies}")


@topic.command(short_help="Check the topic's settings.")
@common
@click.pass_obj
def check(settings: Settings) -> None:
    """Compare the topic's settings with what a log needs. Code 1 when one is wrong, or the topic is missing.

    \b
    Example:
      slotlog --store kafka://127.0.0.1:9092/slotlog.memory topic check
    """
    from projectors.surfaces import output
    from streams.kafka_log import check_topic

    address = _kafka(settings)
    findings = check_topic(address.bootstrap, address.topic, config=address.config, timeout_s=settings.timeout)
    if settings.json:
        output.document([one._asdict() for one in findings])
    else:
        rows = [(one.setting, one.found, one.expected, "ok" if one.ok else f"wrong: {one.advice}") for one in findings]
        output.table(("SETTING", "FOUND", "EXPECTED", ""), rows)
    if not all(one.ok for one in findings):
        raise click.exceptions.Exit(1)


def _kafka(settings: Settings) -> KafkaAddress:
    from schemas.errors import InvalidInput
    from streams.stores import kafka_address

    if not settings.store_name.startswith("kafka://"):
        raise InvalidInput(
            f"the store {settings.store_name} has no topic",
            hint="name one with --store kafka://HOST:PORT/TOPIC or SLOTLOG_STORE",
        )
    return kafka_address(settings.store_name)
