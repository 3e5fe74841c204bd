"""A radix tree over token ids: which prefixes are kept, and which go first. Pure.

A node stands for the tokens of the edge that leads to it and holds a piece, whatever its owner
keeps for these tokens. It may hold a mark, which stands for the whole way from the root to its
end. Sizes are the owner's, in bytes. What was used longest ago goes first, from the leaves
inwards; a held node stays, and so do all on its way from the root.
"""

from __future__ import annotations

import bisect
from collections import OrderedDict
from typing import Generic, Protocol, Self, TypeVar

import attrs


class Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


class Piece(Sized, Protocol):
    def split(self, at: int) -> tuple[Self, Self]:
        """Two pieces of their own: for the first `at` tokens, and for the others."""


P = TypeVar("P", bound=Piece)
M = TypeVar("M", bound=Sized)


@attrs.define(eq=False)
class Node(Generic[P, M]):
    """`length` counts the tokens from the root to the node's end."""

    tokens: tuple[int, ...]
    length: int
    # None at the root only, as is the piece.
    parent: Node[P, M] | None = None
    piece: P | None = None
    mark: M | None = None
    holds: int = 0
    # By their first tokens.
    children: dict[int, Node[P, M]] = attrs.field(factory=dict)

    @property
    def nbytes(self) -> int:
        piece = 0 if self.piece is None else self.piece.nbytes
        return piece + (0 if self.mark is None else self.mark.nbytes)

    def __repr__(self) -> str:
        return f"<Node at {self.length}, {len(self.children)} children, {self.holds} holds>"


@attrs.frozen
class Way(Generic[P, M]):
    """How far some tokens lead from the root: `length` of them, the last node perhaps in part."""

    nodes: tuple[Node[P, M], ...]
    length: int

    @property
    def end(self) -> Node[P, M]:
        return self.nodes[-1]

    def marked(self, most: int) -> Node[P, M] | None:
        """The last node with a mark, no more than `most` tokens from the root."""
        most = min(most, self.length)
        found = (n for n in reversed(self.nodes) if n.mark is not None and n.length <= most)
        return next(found, None)


class Radix(Generic[P, M]):
    """All prefixes of one owner, of at most `max_bytes`."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.nbytes = 0
        self.evictions = 0
        self._root: Node[P, M] = Node((), 0)
        # Longest unused first; a node comes behind all that are below it.
        self._order: OrderedDict[Node[P, M], None] = OrderedDict()

    @property
    def entries(self) -> int:
        return len(self._order)

    def find(self, tokens: tuple[int, ...]) -> Way[P, M]:
        """The longest way along these tokens; using it is what keeps it."""
        nodes, length = [self._root], 0
        while length == nodes[-1].length and length < len(tokens):
            child = nodes[-1].children.get(tokens[length])
            if child is None:
                break
            nodes.append(child)
            length += common(child.tokens, tokens[length : length + len(child.tokens)])
        self._use(nodes[-1])
        return Way(tuple(nodes), length)

    def hold(self, path: Way[P, M]) -> Node[P, M]:
        """Keep everything on the path until its end is released."""
        path.end.holds += 1
        return path.end

    def release(self, node: Node[P, M]) -> None:
        node.holds -= 1

    def make_room(self, nbytes: int, path: Way[P, M]) -> bool:
        """Whether so many bytes more are allowed, perhaps at the cost of others than `path`."""
        if nbytes > self.max_bytes:
            return False
        held = self.hold(path)
        self.free(self.nbytes + nbytes - self.max_bytes)
        self.release(held)
        return self.nbytes + nbytes <= self.max_bytes

    def add(self, path: Way[P, M], tokens: tuple[int, ...], piece: P) -> Way[P, M]:
        """Lead on from the end of `path`, which `find` has just given for these very tokens."""
        parent = self.cut(path).end
        node: Node[P, M] = Node(tokens, path.length + len(tokens), parent, piece)
        parent.children[node.tokens[0]] = node
        self._order[node] = None
        self.nbytes += piece.nbytes
        self._use(node)
        return Way((*path.nodes[:-1], parent, node), node.length)

    def cut(self, path: Way[P, M]) -> Way[P, M]:
        """The same path, ending where a node ends."""
        node, at = path.end, path.length - path.end.length
        if at == 0:
            return path
        assert node.parent is not None
        assert node.piece is not None
        head, tail = node.piece.split(len(node.tokens) + at)
        self.nbytes += head.nbytes + tail.nbytes - node.piece.nbytes
        upper = Node(node.tokens[:at], path.length, node.parent, head)
        upper.children[node.tokens[at]] = node
        node.parent.children[node.tokens[0]] = upper
        node.parent, node.tokens, node.piece = upper, node.tokens[at:], tail
        self._order[upper] = None
        self._use(upper)
        return Way((*path.nodes[:-1], upper), path.length)

    def set_mark(self, node: Node[P, M], mark: M) -> None:
        self.nbytes += mark.nbytes - (0 if node.mark is None else node.mark.nbytes)
        node.mark = mark

    def free(self, nbytes: int) -> int:
        """Drop what was used longest ago until so many bytes are free; the bytes it came to."""
        before = self.nbytes
        for node in list(self._order) if nbytes > 0 else ():
            if before - self.nbytes >= nbytes:
                break
            if not node.children and not node.holds:
                self._drop(node)
        return before - self.nbytes

    def _drop(self, node: Node[P, M]) -> None:
        assert node.parent is not None
        del node.parent.children[node.tokens[0]]
        del self._order[node]
        self.nbytes -= node.nbytes
        self.evictions += 1

    def _use(self, node: Node[P, M]) -> None:
        while node.parent is not None:
            self._order.move_to_end(node)
            node = node.parent

    def __repr__(self) -> str:
        return f"<Radix {self.entries} entries, {self.nbytes} of {self.max_bytes} bytes>"


def common(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """How many tokens the two begin with alike."""
    most = min(len(one), len(other))
    if one[:most] == other[:most]:
        return most
    # The first length at which they differ; slices compare much faster than tokens one by one.
    differ = bisect.bisect_left(range(most + 1), True, key=lambda n: one[:n] != other[:n])
    return differ - 1
