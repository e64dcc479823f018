"""Optional libraries, and the error that says how to install one."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def library(name: str, purpose: str, extra: str | None = None) -> Any:
    """Imports a library that an extra of TopicDB installs.

    Arguments:
        name: the library, such as ``"polars"``.
        purpose: what needs it, for the error: ``"Scan.to_polars"``.
        extra: the extra of TopicDB. None: it has the name of the library.

    Returns:
        The module.

    Raises:
        ModuleNotFoundError: the library is not installed; the message says which extra to install.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0]:
            raise  # the library is there, and something that it needs is not
        raise ModuleNotFoundError(
            f'{purpose} needs {error.name}; run: pip install "topicdb[{extra or name}]"',
            name=error.name,
        ) from None
