"""A real store, used in any order by two openers at once, against the reference that reads the same log."""

from __future__ import annotations

from store_machine import Store
from strategies import examples


class BusyStore(Store):
    """The same, with the shortcut for busy slots taken for all."""

    busy = True


TestStore = Store.TestCase
TestStore.settings = examples(20, steps=25)
TestBusyStore = BusyStore.TestCase
TestBusyStore.settings = examples(20, steps=25)
