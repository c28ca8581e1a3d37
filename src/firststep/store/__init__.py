"""Results on disk: one SQLite file, whatever happens to it.

``record`` is one result with its key and checksum, ``database`` the open file, ``pages`` reads the
pages of a file that SQLite cannot read any more, and ``rescue`` makes a new store of them.
"""

from firststep.store.database import APPLICATION, SCHEMA, Store
from firststep.store.record import DONE, LOST, REFUSED, Record, canonical, clean, key_of
from firststep.store.rescue import Rescue, repair

__all__ = [
    "APPLICATION",
    "DONE",
    "LOST",
    "REFUSED",
    "SCHEMA",
    "Record",
    "Rescue",
    "Store",
    "canonical",
    "clean",
    "key_of",
    "repair",
]
