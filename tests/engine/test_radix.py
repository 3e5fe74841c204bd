"""The prefix tree against a naive model: a plain set of all the prefixes that are kept."""

from __future__ import annotations

from typing import TypeAlias

import attrs
import hypothesis.strategies as st
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.actors.engine.radix import Node, Radix, Way, common

Tokens: TypeAlias = tuple[int, ...]

TOKEN_BYTES = 3
MARK_BYTES = 5

# Few tokens, so that paths meet and part often.
sequences = st.lists(st.integers(0, 2), min_size=1, max_size=9).map(tuple)


@attrs.frozen
class Kept:
    """A piece that knows which tokens it is for."""

    tokens: Tokens

    @property
    def nbytes(self) -> int:
        return TOKEN_BYTES * len(self.tokens)

    def split(self, at: int) -> tuple[Kept, Kept]:
        return Kept(self.tokens[:at]), Kept(self.tokens[at:])


@attrs.frozen
class Mark:
    tokens: Tokens
    nbytes: int = MARK_BYTES


def prefixes(tokens: Tokens) -> set[Tokens]:
    return {tokens[: n + 1] for n in range(len(tokens))}


class Histories(RuleBasedStateMachine):
    """Rows insert, look up, hold and release; bytes are freed at any moment."""

    def __init__(self) -> None:
        super().__init__()
        # Every prefix that is kept.
        self.kept: set[Tokens] = set()
        self.marked: set[Tokens] = set()
        self.held: list[tuple[Node[Kept, Mark], Tokens]] = []

    @initialize(max_bytes=st.sampled_from([0, 10, 40, 100, 1000]))
    def begin(self, max_bytes: int) -> None:
        self.tree: Radix[Kept, Mark] = Radix(max_bytes)

    def known(self, tokens: Tokens) -> int:
        """How much of the beginning is kept."""
        return max(map(len, prefixes(tokens) & self.kept), default=0)

    @rule(tokens=sequences, marked=st.booleans())
    def insert(self, tokens: Tokens, marked: bool) -> None:
        path = self.tree.find(tokens)
        assert path.length == self.known(tokens)
        if path.length < len(tokens):
            new = tokens[path.length :]
            if not self.tree.make_room(TOKEN_BYTES * len(new), path):
                self.forget()
                return
            path = self.tree.add(path, new, Kept(new))
        path = self.tree.cut(path)
        assert path.length == path.end.length == len(tokens)
        self.kept |= prefixes(tokens)
        if marked and self.tree.make_room(MARK_BYTES, path):
            self.tree.set_mark(path.end, Mark(tokens))
            self.marked.add(tokens)
        self.forget()

    @rule(tokens=sequences)
    def look_up(self, tokens: Tokens) -> None:
        path = self.tree.find(tokens)
        assert path.length == self.known(tokens)
        assert whole(path)[: path.length] == tokens[: path.length]
        marked = path.marked(len(tokens))
        longest = max(map(len, prefixes(tokens) & self.marked), default=0)
        assert (0 if marked is None else marked.length) == longest

    @rule(tokens=sequences)
    def hold(self, tokens: Tokens) -> None:
        path = self.tree.find(tokens)
        self.held.append((self.tree.hold(path), tokens[: path.length]))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.held) - 1))
        node, _ = self.held.pop(index)
        self.tree.release(node)

    @rule(nbytes=st.integers(0, 60))
    def free(self, nbytes: int) -> None:
        before = self.tree.nbytes
        freed = self.tree.free(nbytes)
        assert freed == before - self.tree.nbytes
        if freed < nbytes:
            # Only what is held, or leads to it, is left.
            leaves = [node for node in self.nodes() if not node.children]
            assert all(node.holds for node in leaves)
        self.forget()

    def forget(self) -> None:
        """Let the naive model forget what the tree has dropped."""
        self.kept &= self.every_end()
        self.marked &= self.kept

    def every_end(self) -> set[Tokens]:
        return {end for node, tokens in self.ways() for end in self.ends(node, tokens)}

    @staticmethod
    def ends(node: Node[Kept, Mark], tokens: Tokens) -> list[Tokens]:
        return [tokens[: len(tokens) - n] for n in range(len(node.tokens))]

    def ways(self) -> list[tuple[Node[Kept, Mark], Tokens]]:
        """All nodes but the root, each with the tokens that lead to its end."""
        found = list[tuple[Node[Kept, Mark], Tokens]]()
        todo: list[tuple[Node[Kept, Mark], Tokens]] = [(self.tree.find(()).end, ())]
        while todo:
            node, tokens = todo.pop()
            for child in node.children.values():
                found.append((child, (*tokens, *child.tokens)))
                todo.append(found[-1])
        return found

    def nodes(self) -> list[Node[Kept, Mark]]:
        return [node for node, _ in self.ways()]

    @invariant()
    def what_is_held_is_there(self) -> None:
        if hasattr(self, "tree"):
            for _, tokens in self.held:
                assert self.tree.find(tokens).length == len(tokens)

    @invariant()
    def the_tree_is_sound(self) -> None:
        if not hasattr(self, "tree"):
            return
        ways = self.ways()
        assert self.tree.entries == len(ways)
        assert self.tree.nbytes == sum(node.nbytes for node, _ in ways) <= self.tree.max_bytes
        for node, tokens in ways:
            assert node.piece is not None
            assert node.piece.tokens == node.tokens
            assert node.length == len(tokens)
            assert node.mark is None or node.mark.tokens == tokens
        assert self.every_end() == self.kept


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=25, stateful_step_count=25)


@settings(max_examples=50)
@given(st.lists(st.tuples(sequences, st.booleans()), max_size=12), st.integers(1, 40))
def test_what_was_used_longest_ago_goes_first(
    history: list[tuple[Tokens, bool]], nbytes: int
) -> None:
    tree: Radix[Kept, Mark] = Radix(1 << 30)
    used: dict[Tokens, int] = {}
    for now, (tokens, inserts) in enumerate(history):
        path = tree.find(tokens)
        # Using part of a node uses all of it.
        used |= dict.fromkeys(prefixes(whole(path)), now)
        if inserts and path.length < len(tokens):
            path = tree.add(path, tokens[path.length :], Kept(tokens[path.length :]))
            used |= dict.fromkeys(prefixes(whole(path)), now)
    tree.free(nbytes)
    left = {prefix for prefix in used if _is_kept(tree, prefix)}
    gone = used.keys() - left
    # Of what is left, only what leads to something younger may be older than what went.
    leaves = {p for p in left if not any(q[: len(p)] == p and q != p for q in left)}
    assert not gone or not leaves or max(used[p] for p in gone) <= min(used[p] for p in leaves)


def whole(path: Way[Kept, Mark]) -> Tokens:
    return tuple(token for node in path.nodes for token in node.tokens)


def _is_kept(tree: Radix[Kept, Mark], tokens: Tokens) -> bool:
    return tree.find(tokens).length == len(tokens)


def test_more_than_is_allowed_is_never_kept() -> None:
    tree: Radix[Kept, Mark] = Radix(10)
    path = tree.find((1, 2, 3, 4))
    assert not tree.make_room(4 * TOKEN_BYTES, path)
    assert tree.make_room(3 * TOKEN_BYTES, path)


def test_room_is_not_made_at_the_cost_of_the_path_it_is_for() -> None:
    tree: Radix[Kept, Mark] = Radix(4 * TOKEN_BYTES)
    tree.add(tree.find((1, 2)), (1, 2), Kept((1, 2)))
    path = tree.find((1, 2, 3, 4, 5))
    assert not tree.make_room(3 * TOKEN_BYTES, path)
    assert tree.make_room(2 * TOKEN_BYTES, path)
    assert tree.find((1, 2)).length == 2


@given(sequences, sequences)
def test_what_two_sequences_have_in_common(one: Tokens, other: Tokens) -> None:
    length = common(one, other)
    assert one[:length] == other[:length]
    assert length == min(len(one), len(other)) or one[length] != other[length]
