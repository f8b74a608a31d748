"""Memory of a store that this process opens itself: a folder, or a topic whose tables it keeps."""

from __future__ import annotations

from streams.memory_admin import Tending
from streams.memory_reads import Reading
from streams.memory_writes import Writing


class LocalMemory(Writing, Reading, Tending):
    """`Memory` over a log and tables of its own. What each verb means is said in `Memory`."""
