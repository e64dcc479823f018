"""A file system in memory that knows what a loss of power may leave of it.

It applies operations one after the other. Beside the content that a process sees, each file has its
*stable* content and the changes since; each directory has its stable entries, and the file system
has the changes of names since.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from crash.trace import Kind, Operation


class Names(Enum):
    """How changes of names (create, rename, link, unlink, mkdir) become stable."""

    JOURNAL = "journal"
    """In the order in which they were made: one journal for all, as ext4 and xfs have. An fsync of
    anything makes all changes of names before it stable."""

    DIRECTORY = "directory"
    """All that POSIX promises: only an fsync of a directory makes changes in it stable. Those of
    one directory are kept in their order, those of different ones in any."""


@dataclass(slots=True)
class Change:
    """A change of a file's content since its last fsync."""

    kind: Kind
    offset: int
    data: bytes
    size: int  # how much is written or zeroed; for a truncation, the new size of the file
    names_before: int  # how many changes of names were made before it


@dataclass(eq=False, slots=True)
class Node:
    """A file, a directory, which has ``entries``, or a symbolic link, which has ``link``."""

    entries: dict[str, Node] | None = None
    link: str | None = None  # the name beside it to which it leads
    stable_entries: dict[str, Node] = field(default_factory=dict)
    content: bytearray = field(default_factory=bytearray)
    stable: bytes = b""
    changes: list[Change] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class NameChange:
    """One operation on names, which is atomic: it sets entries, or removes them (None)."""

    number: int
    directory: Node  # an fsync of it makes the change stable
    entries: list[tuple[Node, str, Node | None]]
    source: Node | None = None  # the old directory, if a rename goes to another one


class FileSystem:
    """Everything below one root. ``names`` says how changes of names become stable."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.root = Node(entries={})
        self.pending: list[NameChange] = []
        self.name_changes = 0
        self._dirty: set[Node] = set()
        self._open: dict[int, Node] = {}

    @property
    def is_clean(self) -> bool:
        """Whether a loss of power would lose nothing."""
        return not self.pending and not self._dirty

    def apply(self, operation: Operation) -> None:
        """Changes the file system as the operation did."""
        _APPLY[operation.kind](self, operation)

    def find(self, path: str) -> Node | None:
        """Returns the file or directory of that name, or None. Symbolic links are followed."""
        node: Node | None = self.root
        for level in path.split("/") if path else ():
            entries = {} if node is None or node.entries is None else node.entries
            node = entries.get(level)
            if node is not None and node.link is not None:
                node = entries.get(node.link)
        return node

    def node_of(self, handle: int) -> Node:
        """Returns the file or directory that a handle was opened for."""
        return self._open[handle]

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yields path and content of all files as a process sees them."""
        for path, node in walk(self.root, lambda node: node.entries or {}):
            if node.entries is None and node.link is None:
                yield path, bytes(node.content)

    # How each kind of operation changes the file system.

    def _do_open(self, operation: Operation) -> None:
        node = self.find(operation.name)
        if node is None:
            node = Node()
            parent, name = self._place(operation.name)
            self._change_names(parent, [(parent, name, node)])
        elif operation.first & os.O_TRUNC and node.content:
            self._change(node, Change(Kind.TRUNCATE, 0, b"", 0, self.name_changes))
        self._open[operation.handle] = node

    def _do_write(self, operation: Operation) -> None:
        data = operation.data
        change = Change(Kind.WRITE, operation.first, data, len(data), self.name_changes)
        self._change(self._open[operation.handle], change)

    def _do_truncate(self, operation: Operation) -> None:
        change = Change(Kind.TRUNCATE, 0, b"", operation.first, self.name_changes)
        self._change(self._open[operation.handle], change)

    def _do_zero(self, operation: Operation) -> None:
        change = Change(Kind.ZERO, operation.first, b"", operation.second, self.name_changes)
        self._change(self._open[operation.handle], change)

    def _do_rename(self, operation: Operation) -> None:
        source, old_name = self._place(operation.name)
        target, new_name = self._place(operation.new_name)
        assert source.entries is not None and target.entries is not None
        node, replaced = source.entries[old_name], target.entries.get(new_name)
        if replaced is node:
            return  # a rename between two names of one file does nothing
        entries: list[tuple[Node, str, Node | None]]
        other = replaced if operation.first else None
        entries = [(source, old_name, other), (target, new_name, node)]
        self._change_names(target, entries, source if source is not target else None)

    def _do_link(self, operation: Operation) -> None:
        parent, name = self._place(operation.new_name)
        self._change_names(parent, [(parent, name, self.find(operation.name))])

    def _do_symlink(self, operation: Operation) -> None:
        parent, name = self._place(operation.name)
        self._change_names(parent, [(parent, name, Node(link=operation.new_name))])

    def _do_remove(self, operation: Operation) -> None:
        parent, name = self._place(operation.name)
        self._change_names(parent, [(parent, name, None)])

    def _do_make_directory(self, operation: Operation) -> None:
        parent, name = self._place(operation.name)
        self._change_names(parent, [(parent, name, Node(entries={}))])

    def _do_sync(self, operation: Operation) -> None:
        node = self._open[operation.handle]
        grew = len(node.stable) != len(node.content)
        self._sync_content(node)
        if self.names == Names.DIRECTORY:
            if node.entries is not None:
                self._settle(self._with_sources({node: self.name_changes}))
            return
        is_named = any(entry[2] is node for one in self.pending for entry in one.entries)
        # An fdatasync that changes no metadata of the file does not touch the journal.
        if not operation.second or grew or is_named:
            self._settle(dict.fromkeys(self._directories(), self.name_changes))

    def _do_sync_all(self, _operation: Operation) -> None:
        for node in list(self._dirty):
            self._sync_content(node)
        self._settle(dict.fromkeys(self._directories(), self.name_changes))

    def _do_nothing(self, _operation: Operation) -> None:
        pass

    # How changes become stable.

    def kept(self, until: dict[Node, int]) -> list[NameChange]:
        """Returns the pending changes up to the number that ``until`` gives for their directory."""
        return [one for one in self.pending if one.number <= until.get(one.directory, -1)]

    def _with_sources(self, until: dict[Node, int]) -> dict[Node, int]:
        """Extends ``until``: a kept rename also keeps the changes before it in its old directory.

        Returns ``until``.
        """
        for one in reversed(self.pending):
            if one.source is not None and one.number <= until.get(one.directory, -1):
                until[one.source] = max(until.get(one.source, -1), one.number)
        return until

    def cuts(self, choose: Callable[[int, int], int]) -> dict[Node, int]:
        """Returns up to which number each directory keeps its changes.

        ``choose(a, b)`` picks a number from a to b: one for all with JOURNAL, else one for each.
        """
        first = self.pending[0].number - 1 if self.pending else self.name_changes
        if self.names == Names.JOURNAL:
            return dict.fromkeys(self._directories(), choose(first, self.name_changes))
        directories = dict.fromkeys(self._directories())
        return self._with_sources({one: choose(first, self.name_changes) for one in directories})

    def _directories(self) -> list[Node]:
        return [one.directory for one in self.pending]

    def _settle(self, until: dict[Node, int]) -> None:
        kept = self.kept(until)
        for one in kept:
            for directory, name, node in one.entries:
                set_entry(directory.stable_entries, name, node)
        if kept:
            gone = set(kept)
            self.pending = [one for one in self.pending if one not in gone]

    def _sync_content(self, node: Node) -> None:
        if node.changes:
            node.stable = bytes(node.content)
            node.changes = []
        self._dirty.discard(node)

    def _change(self, node: Node, change: Change) -> None:
        apply_change(node.content, change)
        node.changes.append(change)
        self._dirty.add(node)

    def _change_names(
        self,
        directory: Node,
        entries: list[tuple[Node, str, Node | None]],
        source: Node | None = None,
    ) -> None:
        self.name_changes += 1
        self.pending.append(NameChange(self.name_changes, directory, entries, source))
        for parent, name, node in entries:
            assert parent.entries is not None
            set_entry(parent.entries, name, node)

    def _place(self, path: str) -> tuple[Node, str]:
        parent_path, _, name = path.rpartition("/")
        parent = self.find(parent_path)
        assert parent is not None and parent.entries is not None, f"no directory for {path}"
        return parent, name


def set_entry(entries: dict[str, Node], name: str, node: Node | None) -> None:
    """Sets an entry of a directory, or removes it."""
    if node is None:
        entries.pop(name, None)
    else:
        entries[name] = node


def apply_change(content: bytearray, change: Change) -> None:
    """Applies a change to a file's content."""
    if change.kind == Kind.TRUNCATE:
        if change.size < len(content):
            del content[change.size :]
        else:
            content.extend(bytes(change.size - len(content)))
        return
    end = change.offset + change.size
    if end > len(content):
        content.extend(bytes(end - len(content)))
    if change.kind == Kind.WRITE:
        content[change.offset : end] = change.data


def walk(root: Node, entries: Callable[[Node], dict[str, Node]]) -> Iterator[tuple[str, Node]]:
    """Yields everything below a directory, by name; a directory comes before its entries."""
    for name, node in sorted(entries(root).items()):
        yield name, node
        if node.entries is not None:
            for path, below in walk(node, entries):
                yield f"{name}/{path}", below


def write_tree(
    target: Path,
    root: Node,
    entries: Callable[[Node], dict[str, Node]],
    content: Callable[[Node], bytes | bytearray],
) -> None:
    """Writes a tree of files to ``target``. Several names of a file stay names of one file."""
    made: dict[Node, str] = {}
    base = os.fspath(target)
    for path, node in walk(root, entries):
        place = f"{base}/{path}"
        if node.entries is not None:
            os.mkdir(place)
        elif node.link is not None:
            os.symlink(node.link, place)
        elif node in made:
            os.link(made[node], place)
        else:
            made[node] = place
            fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            try:
                os.write(fd, content(node))
            finally:
                os.close(fd)


_APPLY: dict[Kind, Callable[[FileSystem, Operation], None]] = {
    Kind.OPEN: FileSystem._do_open,
    Kind.WRITE: FileSystem._do_write,
    Kind.TRUNCATE: FileSystem._do_truncate,
    Kind.ZERO: FileSystem._do_zero,
    Kind.RENAME: FileSystem._do_rename,
    Kind.UNLINK: FileSystem._do_remove,
    Kind.LINK: FileSystem._do_link,
    Kind.MAKE_DIRECTORY: FileSystem._do_make_directory,
    Kind.REMOVE_DIRECTORY: FileSystem._do_remove,
    Kind.SYNC: FileSystem._do_sync,
    Kind.SYNC_ALL: FileSystem._do_sync_all,
    Kind.MARK: FileSystem._do_nothing,
    Kind.SYMLINK: FileSystem._do_symlink,
}
