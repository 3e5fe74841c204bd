"""What an engine keeps of the sequences it computes, for rows that begin like them.

Rows hand in what they compute as they go, and their answers when they leave; whoever comes, or is
still waiting, begins behind the longest prefix that is kept. What a row uses is copied once, when
it is about to compute: until then it only holds its place in the tree.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx

from headrace.actors.engine import forward, kv
from headrace.actors.engine.disk import DiskTier
from headrace.actors.engine.kv import Cache
from headrace.actors.engine.radix import Radix, Way, common
from headrace.actors.engine.rows import Row
from headrace.actors.engine.segments import (
    Segment,
    State,
    can_be_cut,
    leaves,
    restored,
    segment_of,
    state_of,
)
from headrace.runtime.ports import CacheUse

# Copying a prefix costs some hundredth of computing it; less gain than this is none.
_GAIN = 1 / 64
# Tokens between two states of one sequence. A state may be as large as a thousand tokens.
_STATE_TOKENS = 512
# Where two rows part sooner, remembering where is not worth a state.
_LEAST_COMMON = 16
# Tokens for which a file is written, and read.
_LEAST_SAVED, _LEAST_RECALLED = 64, 32
# Files that may be waiting to be written.
_MOST_WORK = 8
# The largest difference that rounding may make, as a share of that between two contexts.
_TOLERANCE = 0.03


class Prefixes:
    """One engine's. Nothing is kept before `limit`, nor where trying shows that it would not do.

    `grain` is "token" where a prefix may end anywhere, "state" where only a stored state can be
    gone on from, and None where nothing is kept.
    """

    def __init__(self, model: Any, vocab_size: int) -> None:
        self._model = model
        self._vocab_size = vocab_size
        self._tree: Radix[Segment, State] = Radix(0)
        self._cut_everywhere = all(map(can_be_cut, leaves(kv.fresh(model))))
        self._token_bytes = 0
        self._tried: bool | None = None
        self._hits = 0
        self._misses = 0
        self._tokens_reused = 0
        self._disk: DiskTier | None = None
        self._work: list[Callable[[], str | None]] = []

    def limit(self, max_bytes: int) -> None:
        """Keep no more than so many bytes, from now on; 0: nothing."""
        if max_bytes and self._tried is None:
            self._tried = self._try()
        self._tree.max_bytes = max_bytes if self._tried else 0
        self.free(self._tree.nbytes - self._tree.max_bytes)

    @property
    def grain(self) -> str | None:
        if not self._tree.max_bytes:
            return None
        return "token" if self._cut_everywhere else "state"

    def keep_on_disk(self, folder: Path, fingerprint: str, max_bytes: int) -> None:
        """Keep what answers leave on disk too, and look for it there. Only where prefixes can be
        cut anywhere. Raises `OSError` where the folder cannot be used."""
        if self.grain == "token" and max_bytes:
            self._disk = DiskTier(folder, fingerprint, max_bytes)

    def work(self) -> list[Callable[[], str | None]]:
        """What is to be done for the disk on another thread, since the last call; each answers
        what went wrong."""
        if self._disk is None:
            return []
        work, self._work = self._work, []
        troubles, self._disk.troubles = self._disk.troubles, []
        return work + [partial(str, trouble) for trouble in troubles]

    def close(self) -> None:
        self._tree, self._model, self._disk, self._work = Radix(0), None, None, []

    def free(self, nbytes: int) -> int:
        """Give up so many bytes, or all that no row is about to use. Answers how many it were."""
        return self._tree.free(nbytes)

    def use(self) -> CacheUse:
        return CacheUse(
            entries=self._tree.entries,
            bytes=self._tree.nbytes,
            max_bytes=self._tree.max_bytes,
            hits=self._hits,
            misses=self._misses,
            evictions=self._tree.evictions,
            tokens_reused=self._tokens_reused,
        )

    # ---- for rows that begin ---------------------------------------------------------

    def meet(self, row: Row, waiting: list[Row]) -> None:
        """Note where a new row parts from the kept and the waiting ones: there a state is due."""
        if self.grain != "state":
            return
        self._note_parting(row, self._tree.find(row.spec.tokens).length)
        for other in waiting:
            length = common(row.spec.tokens, other.spec.tokens)
            self._note_parting(row, length)
            self._note_parting(other, length)

    def recall(self, row: Row) -> None:
        """Bring the beginning of a row's prompt back from disk, where that is more than is kept
        in memory."""
        if self._disk is None or self.grain is None or row.anew:
            return
        tokens = row.spec.tokens
        path = self._tree.find(tokens)
        for entry, end in self._disk.cover(tokens):
            if end - path.length < _LEAST_RECALLED:
                continue
            room = (end - path.length) * self._token_bytes
            if entry.start > path.length or not self._tree.make_room(room, path):
                return
            piece = self._disk.read(entry, path.length, end)
            if piece is None:
                return
            path = self._tree.add(path, tokens[path.length : end], piece)

    def _note_parting(self, row: Row, length: int) -> None:
        if _LEAST_COMMON <= length <= row.prompt_length:
            row.stops.add(length)

    def look(self, row: Row) -> None:
        """Let a row begin behind the longest prefix that is kept, if it has not come as far."""
        if self.grain is None or row.anew:
            return
        path = self._tree.find(row.spec.tokens)
        length = self._usable(path, row.prompt_length)
        if length - row.reach > length * _GAIN or row.reach < length == row.prompt_length:
            self.let_go(row)
            row.found, row.hold = length, self._tree.hold(path)

    def take(self, row: Row) -> None:
        """Give a row what it has found, so that it computes only what is left."""
        if row.found > row.computed:
            path = self._tree.find(row.spec.tokens)
            # Where there is no memory for a copy, the row goes on as if it had found nothing.
            with contextlib.suppress(RuntimeError):
                row.cache = self._restored(path, row.found)
                row.reused += row.found - row.computed
                self._tokens_reused += row.found - row.computed
                row.computed = row.found
        self.let_go(row)

    def let_go(self, row: Row) -> None:
        if row.hold is not None:
            self._tree.release(row.hold)
            row.hold, row.found = None, 0

    def count(self, row: Row) -> None:
        """A row's prompt is complete: did it find anything?"""
        if self.grain is None or row.anew or row.spec.resumed:
            return
        if row.prompt_length:
            self._hits += row.reused > 0
            self._misses += row.reused == 0

    def _usable(self, path: Way[Segment, State], most: int) -> int:
        if self._cut_everywhere:
            return min(path.length, most)
        marked = path.marked(most)
        return 0 if marked is None else marked.length

    def _restored(self, path: Way[Segment, State], length: int) -> Cache:
        segments = []
        for node in path.nodes[1:]:
            count = length - (node.length - len(node.tokens))
            if count > 0 and node.piece is not None:
                whole = count >= len(node.tokens)
                segments.append(node.piece if whole else node.piece.first(count))
        marked = None if self._cut_everywhere else path.marked(length)
        return restored(kv.fresh(self._model), segments, None if marked is None else marked.mark)

    # ---- for rows that compute -------------------------------------------------------

    def passes(self, row: Row, count: int) -> list[int]:
        """Into how many tokens each the next `count` are to be divided, so that a pass ends
        wherever a state is due."""
        last = row.computed + count
        ends = sorted(stop for stop in row.stops if row.computed < stop < last)
        return [b - a for a, b in zip([row.computed, *ends], [*ends, last], strict=True)]

    def keep_prompt(self, row: Row) -> None:
        """Keep what a row has computed of its prompt by now."""
        if self.grain is None or row.cache is None or not row.computed:
            return
        if self._cut_everywhere or self._is_due(row):
            self._keep(row.cache, 0, row.spec.tokens[: row.computed])

    def keep_answer(self, row: Row, cache: Cache, index: int, ahead: int) -> None:
        """Keep prompt and answer of a row that decodes.

        It lies in this cache, which is its own where the grain is "state", as the `index`th row,
        with `ahead` tokens more than it needed for its answer so far.
        """
        if self.grain is None or row.anew:
            return
        length = row.prompt_length + len(row.answer) + ahead
        tokens = (*row.spec.tokens, *row.answer)[:length]
        self._keep(cache, index, tokens)
        if self._disk is not None:
            self._save(self._disk, tokens)

    def _save(self, disk: DiskTier, tokens: tuple[int, ...]) -> None:
        start, path = disk.covered(tokens), self._tree.find(tokens)
        # A few tokens more are left to the next turn, which has them too.
        if path.length < len(tokens) or len(tokens) - start < _LEAST_SAVED:
            return
        if disk.writing < _MOST_WORK:
            work = disk.write(tokens, start, self._between(path, start))
            self._work += [] if work is None else [work]

    def _between(self, path: Way[Segment, State], start: int) -> list[Segment]:
        """What the path holds from `start` tokens on."""
        found = []
        for node in path.nodes[1:]:
            first, last = node.length - len(node.tokens), min(node.length, path.length)
            if last > start and node.piece is not None:
                found.append(node.piece.between(max(0, start - first), last - first))
        return found

    def _is_due(self, row: Row) -> bool:
        """Whether a state belongs where a row stands in its prompt."""
        if row.remaining == 0 or row.computed in row.stops:
            return True
        marked = self._tree.find(row.spec.tokens).marked(row.computed)
        return row.computed - (0 if marked is None else marked.length) >= _STATE_TOKENS

    def _keep(self, cache: Cache, index: int, tokens: tuple[int, ...]) -> None:
        # Where there is no memory for a copy there is none; the row itself is well.
        with contextlib.suppress(RuntimeError):
            path = self._tree.find(tokens)
            if path.length < len(tokens):
                if not self._tree.make_room((len(tokens) - path.length) * self._token_bytes, path):
                    return
                piece = segment_of(cache, index, path.length, len(tokens))
                path = self._tree.add(path, tokens[path.length :], piece)
            if not self._cut_everywhere:
                self._keep_state(cache, path)

    def _keep_state(self, cache: Cache, path: Way[Segment, State]) -> None:
        path = self._tree.cut(path)
        if path.end.mark is None:
            state = state_of(cache)
            if self._tree.make_room(state.nbytes, path):
                self._tree.set_mark(path.end, state)

    # ---- does it work? ---------------------------------------------------------------

    def _try(self) -> bool:
        """Whether a row that goes on from a prefix gets the logits of one that was computed whole.

        Found out by trying, as what rows may share is: caches of new kinds come with each release.
        """
        try:
            return all(map(self._agrees, (2, 4) if self._cut_everywhere else (4,)))
        except Exception:
            return False
        finally:
            self._tree = Radix(0)

    def _agrees(self, cut: int) -> bool:
        """Four tokens are kept and gone on from, from the first `cut` of them."""
        tokens = tuple(token % self._vocab_size for token in range(1, 8))
        self._tree = Radix(1 << 62)
        kept = self._computed(tokens[:4])
        self._keep(kept, 0, tokens[:4])
        path = self._tree.find(tokens)
        assert path.end.piece is not None
        self._token_bytes = -(-path.end.piece.nbytes // 4)
        warm = self._logits(self._restored(path, cut), tokens[cut:])
        cold = self._logits(self._computed(tokens[:cut]), tokens[cut:])
        other = self._logits(self._computed(tokens[:cut]), tokens[:1])
        error, scale = mx.abs(warm - cold).max(), mx.abs(other - cold).max()
        return bool((error <= _TOLERANCE * scale).item())

    def _computed(self, tokens: tuple[int, ...]) -> Cache:
        cache = kv.fresh(self._model)
        forward.advance(self._model, cache, tokens)
        return cache

    def _logits(self, cache: Cache, tokens: tuple[int, ...]) -> mx.array:
        if len(tokens) > 1:
            forward.advance(self._model, cache, tokens[:-1])
        return forward.next_logits(self._model, cache, mx.array(tokens[-1:]))
