"""Messages in plain words for arguments of a wrong type.

The extension checks the types of its arguments, but its messages quote C++ signatures. ``guard``
wraps its functions: their TypeErrors name the argument, what is accepted, and what was given.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from topicdb import _core

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from topicdb.types import ArrowArray, ArrowStream

_MARKS = ("incompatible function arguments", "incompatible constructor arguments")
_KEPT = ("__init__", "__getitem__")  # the special methods that users call with arguments
# The names of the extension's arguments, and the names under which users give them.
_NAMES = {
    "rows": "messages",
    "filters": "filter",
    "rows_max": "rows",
    "with_serials": "serials",
    "classes": "retention",
    "before_us": "older_than",
    "memory_bytes_max": "memory_bytes",
}
_WORDS = {
    "typing.SupportsInt": "int",
    "typing.SupportsIndex": "int",
    "typing.SupportsFloat": "float",
    "collections.abc.Iterable": "an iterable",
    "collections.abc.Callable": "a function",
}
_INT_MIN, _INT_END = -(1 << 63), 1 << 64


def guard(module: ModuleType) -> None:
    """Makes the functions and classes of an extension raise TypeErrors in plain words."""
    for name, found in list(vars(module).items()):
        if isinstance(found, type) and not issubclass(found, BaseException):
            _guard_class(found)
        elif inspect.isbuiltin(found):
            setattr(module, name, _guarded(found))


def _guard_class(kind: type) -> None:
    for name, found in list(vars(kind).items()):
        if name.startswith("_") and name not in _KEPT:
            continue
        function = getattr(kind, name)
        if isinstance(found, staticmethod):
            setattr(kind, name, staticmethod(_guarded(function)))
        elif type(found).__name__ == "instancemethod":
            setattr(kind, name, _guarded(function))
        elif isinstance(found, property) and found.fset is not None:
            # The signature of a setter names no arguments.
            doc = (found.fset.__doc__ or "").replace("arg0:", "self:").replace("arg1:", f"{name}:")
            setattr(kind, name, property(found.fget, _guarded(found.fset, doc)))


def _guarded(function: Callable[..., Any], doc: str | None = None) -> Callable[..., Any]:
    """Wraps ``function``. ``doc`` begins with its signature; None: its own docstring does."""
    signature = (function.__doc__ or "") if doc is None else doc

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        try:
            return function(*args, **named)
        except TypeError as error:
            if not any(mark in str(error) for mark in _MARKS):
                raise
        raise TypeError(explanation(signature, args, named)) from None

    return call


def wrong_type(what: str, accepted: str, value: object) -> TypeError:
    """Returns an error which says that ``what`` must be ``accepted``, and what it is."""
    return TypeError(f"{what}: expected {accepted}, got {type(value).__name__}")


def iterators_of(given: _core.Iterator | Sequence[_core.Iterator]) -> list[_core.Iterator]:
    """Returns iterators that a user gave alone or as a list; raises TypeError for anything else."""
    iterators = [given] if isinstance(given, _core.Iterator) else given
    if isinstance(iterators, (str, bytes)) or not isinstance(iterators, Sequence):
        raise wrong_type("given", "an Iterator or a list of them", given)
    for one in iterators:
        if not isinstance(one, _core.Iterator):
            raise wrong_type("given", "a list of Iterator", one)
    return list(iterators)


def check_id(id: object) -> None:
    """Raises TypeError if ``id`` cannot be the ``id`` of an append."""
    if not isinstance(id, str):
        raise wrong_type("id", "str", id)


def has_arrow(messages: object) -> TypeIs[ArrowStream | ArrowArray]:
    """Returns whether messages come as Arrow data.

    It does not use isinstance: for a protocol that costs more than a small append.
    """
    return hasattr(messages, "__arrow_c_stream__") or hasattr(messages, "__arrow_c_array__")


def explanation(doc: str, args: Sequence[Any], named: Mapping[str, Any]) -> str:
    """Says what is wrong with the arguments; the first line of ``doc`` is the signature."""
    parameters = _parameters(doc)
    given = dict(zip(parameters, args, strict=False)) | dict(named)
    given.pop("self", None)
    for name, value in given.items():
        kind = parameters.get(name, "object")
        if not _fits(kind, value):
            return f"{_NAMES.get(name, name)}: expected {_words(kind)}, got {_name_of(value)}"
    for name, value in given.items():
        if isinstance(value, int) and (value < 0 or value >= 1 << 31):
            return f"{_NAMES.get(name, name)}: {value} is out of range"
    missing = [_NAMES.get(name, name) for name in parameters if name not in given | {"self": None}]
    return f"wrong arguments; what is not given: {', '.join(missing) or 'nothing'}"


def _parameters(doc: str) -> dict[str, str]:
    """Returns the name and type of each parameter of a signature."""
    line = doc.partition("\n")[0]
    inside = line[line.find("(") + 1 : line.rfind(") ->")]
    found: dict[str, str] = {}
    for part in _split(inside, ","):
        name, colon, kind = part.partition(":")
        if colon:
            found[name.strip()] = _split(kind, "=")[0].strip()
    return found


def _split(text: str, mark: str) -> list[str]:
    """Splits text at each mark that is outside brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[(") - (letter in "])")
        if letter == mark and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _inner(kind: str) -> list[str]:
    return _split(kind[kind.index("[") + 1 : -1], ",")


def _fits(kind: str, value: Any) -> bool:
    alternatives = _split(kind, "|")
    if len(alternatives) > 1:
        return any(_fits(one, value) for one in alternatives)
    if kind == "None":
        return value is None
    if kind in ("str", "bytes", "bool"):
        return type(value).__name__ == kind or isinstance(
            value, {"str": str, "bytes": bytes, "bool": bool}[kind]
        )
    if kind in ("typing.SupportsInt", "typing.SupportsIndex"):
        is_number = hasattr(value, "__index__")
        return is_number and _INT_MIN <= value.__index__() < _INT_END
    if kind == "typing.SupportsFloat":
        return hasattr(value, "__float__") or hasattr(value, "__index__")
    if kind.startswith("typing.Annotated["):
        return "numpy" in kind or _fits(_inner(kind)[0], value)
    if kind == "collections.abc.Iterable":
        return isinstance(value, Iterable)
    if kind.startswith("collections.abc.Callable"):
        return callable(value)
    return _fits_container(kind, value)


def _fits_container(kind: str, value: Any) -> bool:
    if kind.startswith("collections.abc.Sequence["):
        is_list = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
        return is_list and all(_fits(_inner(kind)[0], item) for item in value)
    if kind.startswith("collections.abc.Mapping["):
        key, item = _inner(kind)
        return isinstance(value, Mapping) and all(
            _fits(key, name) and _fits(item, one) for name, one in value.items()
        )
    if kind.startswith("tuple["):
        kinds = _inner(kind)
        is_like = isinstance(value, (tuple, list)) and len(value) == len(kinds)
        return is_like and all(map(_fits, kinds, value))
    if kind.startswith("topicdb."):
        return any(base.__name__ == kind.rpartition(".")[2] for base in type(value).__mro__)
    return True


def _words(kind: str) -> str:
    """Returns a type in plain words."""
    alternatives = list(dict.fromkeys(_one_word(one) for one in _split(kind, "|")))
    if len(alternatives) == 1:
        return alternatives[0]
    return f"{', '.join(alternatives[:-1])} or {alternatives[-1]}"


def _one_word(kind: str) -> str:
    if kind.startswith("typing.Annotated["):
        return _words(_inner(kind)[0])
    if kind.startswith("collections.abc.Sequence["):
        return f"a sequence of {_words(_inner(kind)[0])}"
    if kind.startswith("collections.abc.Mapping["):
        return "a mapping of {} to {}".format(*map(_words, _inner(kind)))
    if kind.startswith("tuple["):
        return f"a tuple ({', '.join(map(_words, _inner(kind)))})"
    return _WORDS.get(kind, kind.rpartition(".")[2] if kind.startswith("topicdb.") else kind)


def _name_of(value: Any) -> str:
    """Returns the name of a value's type; for a list or tuple, also the types of its items."""
    name = type(value).__name__
    if isinstance(value, (list, tuple)) and value:
        return f"{name} of {', '.join(dict.fromkeys(type(item).__name__ for item in value))}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{name} {value}" if not _INT_MIN <= value < _INT_END else name
    return name
