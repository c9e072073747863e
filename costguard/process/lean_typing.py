"""What processes that stay take from `typing`, without the rest of it, which costs each of them 0.7 MB for good.

`install` puts it in the place of that module; whatever is asked for that is not here comes from the real one, which takes its
place again then. Types mean nothing in a process that runs, but for the fields of named tuples (`costguard.process.wire`).
"""

import sys
from collections import namedtuple
from types import GenericAlias, ModuleType, UnionType

_NAME = "typing"
_LAST = (3, 14)
"""The Python from which on annotations are worked out when somebody asks for them: there the real module is used."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any as Whatever


class _Bare:
    """What stands in an annotation, and may be given parameters."""

    __class_getitem__ = classmethod(GenericAlias)  # type: ignore[var-annotated]  # it takes whatever it is given


class Any(_Bare):
    """See `typing`, as for all of these."""


class Generic(_Bare):
    """Base of classes."""


class Literal(_Bare):
    """The parameters are the values."""


class Protocol(_Bare):
    """Base of classes."""


class Self(_Bare):
    """In annotations alone."""


class TypeGuard(_Bare):
    """In annotations alone."""


class TypeVar:
    """In annotations, and as a parameter of bases."""

    def __init__(self, name: str, *_constraints: object, **_bound: object) -> None:
        self.__name__ = name

    def __or__(self, _other: object) -> "TypeVar":
        return self

    __ror__ = __or__


def cast(_kind: object, value: object) -> object:
    """The value."""
    return value


def get_args(kind: object) -> "tuple[object, ...]":
    """The parameters of a type."""
    return getattr(kind, "__args__", ())


def get_origin(kind: object) -> object:
    """The type that was given parameters."""
    return UnionType if isinstance(kind, UnionType) else getattr(kind, "__origin__", None)


class _Fields(type):
    """Makes a class with annotations a named tuple."""

    def __new__(mcs, name: str, bases: "tuple[type, ...]", body: "dict[str, Whatever]") -> type:
        annotations = body.get("__annotations__", {})
        defaults = [body[field] for field in annotations if field in body]
        make: Whatever = namedtuple  # noqa: PYI024 - the other one is made here
        made = make(name, annotations, defaults=defaults, module=body["__module__"])
        if others := [base for base in bases if base is not _TUPLE]:
            made = type(name, (made, *others), {"__slots__": (), "__module__": body["__module__"]})
        made.__annotations__ = annotations
        for key, value in body.items():
            if key not in annotations and key not in _OWN:
                setattr(made, key, value)
        found: type = made
        return found


_OWN = frozenset(("__module__", "__annotations__", "__classcell__"))
"""What a class has for itself."""

_TUPLE = type.__new__(_Fields, "NamedTuple", (), {})


class _NamedTuple:
    """A base that is replaced while the class is made."""

    def __mro_entries__(self, _bases: "tuple[object, ...]") -> "tuple[type]":
        return (_TUPLE,)


NamedTuple = _NamedTuple()


def install() -> None:
    """Stand in for `typing` from now on, unless it is there already."""
    if _NAME not in sys.modules and sys.version_info < _LAST:
        sys.modules[_NAME] = sys.modules[__name__]


def __getattr__(name: str) -> object:
    """What is not here is in the real module."""
    if name.startswith("__") and name != "__all__":
        raise AttributeError(name)
    return getattr(_real(), name)


def _real() -> ModuleType:
    if sys.modules.get(_NAME) is sys.modules[__name__]:
        del sys.modules[_NAME]
    import typing

    return typing
