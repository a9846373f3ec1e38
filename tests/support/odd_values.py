"""Members of enumerations and texts of classes of their own, which go into JSON and into definitions as plain values."""

import enum


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Name(str, enum.Enum):
    A = "a"


class Loud(str):
    def __str__(self):
        return self.upper()
