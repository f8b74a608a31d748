"""Schemas from a Confluent schema registry, for events that others wrote in its framing. Needs the extra `registry`."""

from __future__ import annotations

from schemas.codec import SchemaResolver
from schemas.errors import InvalidInput, LogUnreachable, UndecodableEvent

_SCHEMA_NOT_FOUND = 40403


def confluent_schema_resolver(url: str, *, timeout_s: float = 10.0) -> SchemaResolver:
    """A function that answers the Avro schema, as JSON text, that a Confluent schema registry has under an id.

    `url` may be several, parted by commas, and may hold user and password. Answers are kept: an id never changes.
    The function raises UndecodableEvent for an id that the registry does not know or that is no Avro schema, and
    LogUnreachable when the registry does not answer as one.

    Raises:
        InvalidInput: the extra `registry` is not installed, or `url` is none.
    """
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
        from confluent_kafka.schema_registry.error import SchemaRegistryError
    except ImportError as error:
        raise InvalidInput(
            f"a schema registry needs a package that is not installed: {error.name}",
            hint="pip install 'slotlog[registry]'",
        ) from error
    try:
        client = SchemaRegistryClient({"url": url, "timeout": timeout_s, "max.retries": 1, "retries.wait.ms": 200})
    except ValueError as error:
        raise InvalidInput(f"{url!r} is no URL of a schema registry: {error}") from error

    def resolve(schema_id: int) -> str:
        try:
            schema = client.get_schema(schema_id)
        except SchemaRegistryError as error:
            if error.error_code == _SCHEMA_NOT_FOUND:
                raise UndecodableEvent(f"the schema registry {url} knows no schema {schema_id}") from error
            raise LogUnreachable(f"the schema registry {url} refuses: {error}") from error
        except Exception as error:  # which HTTP library is underneath, and so its errors, changes between versions
            raise LogUnreachable(f"the schema registry {url} does not answer: {error}") from error
        if schema.schema_type != "AVRO" or schema.references or schema.schema_str is None:
            raise UndecodableEvent(f"schema {schema_id} of {url} is no Avro schema that stands alone")
        return str(schema.schema_str)

    return resolve
