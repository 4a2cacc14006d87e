"""Frozen dataclasses of kvstore behave like those of the standard library."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any

import pytest

from kvstore.process.frozen_dataclass import frozen_dataclass


class _Fields:
    """The methods of both classes below."""

    __slots__ = ()
    name: str
    total: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", len(self.name))


@frozen_dataclass
class Fast(_Fields):
    """A record."""

    name: str
    size: int = 3
    tags: list[str] = field(default_factory=list)
    note: str = field(default="", compare=False, repr=False)
    total: int = field(init=False)


@dataclass(frozen=True, slots=True)
class Standard(_Fields):
    """A record."""

    name: str
    size: int = 3
    tags: list[str] = field(default_factory=list)
    note: str = field(default="", compare=False, repr=False)
    total: int = field(init=False)


@frozen_dataclass
class Single:
    """A record with one field that can be hashed."""

    name: str


@pytest.mark.parametrize("cls", [Fast, Standard])
def test_fields_are_set_compared_and_shown(cls: Any) -> None:
    record = cls("tea", tags=["a"], note="x")
    assert (record.name, record.size, record.tags, record.note, record.total) == ("tea", 3, ["a"], "x", 3)
    assert record == cls("tea", 3, ["a"]) and record != cls("tea", 4, ["a"]) and record != ("tea", 3, ["a"], 3)
    assert repr(record) == f"{cls.__name__}(name='tea', size=3, tags=['a'], total=3)"
    assert cls("tea").tags is not cls("tea").tags
    assert replace(record, name="milk").total == 4 and asdict(record)["tags"] == ["a"]
    assert is_dataclass(record) and [field.name for field in fields(record)] == [
        "name",
        "size",
        "tags",
        "note",
        "total",
    ]
    assert cls.__match_args__ == ("name", "size", "tags", "note")
    assert list(inspect.signature(cls).parameters) == ["name", "size", "tags", "note"]
    assert inspect.signature(cls).parameters["size"].annotation == "int"
    assert not hasattr(record, "__dict__")


@pytest.mark.parametrize("cls", [Fast, Standard])
def test_a_record_is_copied_and_pickled_and_never_changed(cls: Any) -> None:
    record = cls("tea", note="x")
    for copied in (copy.copy(record), copy.deepcopy(record), pickle.loads(pickle.dumps(record))):
        assert copied == record and copied.note == "x" and copied.total == 3
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'name'"):
        record.name = "milk"
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'name'"):
        del record.name
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'name'"):
        cls()


def test_equal_records_have_the_same_hash() -> None:
    assert {Single("a"), Single("a"), Single("b")} == {Single("b"), Single("a")}
    assert Single("a") != Single("b")
    with pytest.raises(TypeError, match="unhashable"):
        hash(Fast("a"))
