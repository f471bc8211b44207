"""How a tensor lies on the ranks of a mesh: in pieces, whole, or as parts of a sum.

They are values, to be named and compared; tensors that lie so (DTensor) are not here.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """One of the below."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether it is in pieces, along `dim` if that is given."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether every rank has all of it."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether the ranks have parts of a sum, or of what `reduce_op` says."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """A piece of dimension `dim` on every rank."""

    dim: int

    def __str__(self) -> str:
        return f"S({self.dim})"

    @staticmethod
    def local_shard_size_and_offset(
        curr_local_size: int, num_chunks: int, rank: int
    ) -> tuple[int, int]:
        """How many of the elements a rank has, and where its piece begins."""
        full = -(-curr_local_size // num_chunks)
        begin = min(rank * full, curr_local_size)
        return min(full, curr_local_size - begin), begin


@dataclass(frozen=True, repr=False)
class _StridedShard(Placement):
    """A piece of each of `split_factor` groups of dimension `dim`."""

    dim: int
    split_factor: int

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


@dataclass(frozen=True)
class Replicate(Placement):
    """All of it on every rank."""

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True, repr=False)
class Partial(Placement):
    """Parts of a sum (or of what `reduce_op` says)."""

    reduce_op: str = "sum"

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"
