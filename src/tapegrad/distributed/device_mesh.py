"""Device meshes: ranks in a grid, and the groups along its dimensions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ._groups import default_group, get_rank, init_process_group, is_initialized, new_group

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """Ranks in a grid. `mesh["dp"]` is the row of this rank, get_group its process group."""

    def __init__(
        self,
        device_type: str,
        mesh: Any,
        *,
        mesh_dim_names: tuple[str, ...] | None = None,
        _groups: list[Any] | None = None,
    ) -> None:
        self.device_type = device_type
        self._ranks = np.asarray(mesh.tolist() if hasattr(mesh, "tolist") else mesh)
        self.mesh_dim_names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        if not is_initialized():
            init_process_group()
        self._groups = self._make_groups() if _groups is None else _groups

    def _make_groups(self) -> list[Any]:
        """One group along each dimension; all ranks make all of them, in the same order."""
        world = default_group()
        if self._ranks.ndim == 1 and self._ranks.tolist() == world.global_ranks:
            return [world]
        groups = []
        for dim in range(self._ranks.ndim):
            own = None
            for row in np.moveaxis(self._ranks, dim, -1).reshape(-1, self._ranks.shape[dim]):
                made = new_group(row.tolist())
                if get_rank() in row:
                    own = made
            groups.append(own)
        return groups

    @property
    def mesh(self) -> Any:
        """The ranks, as a tensor."""
        import tapegrad as tg

        return tg.tensor(self._ranks.tolist())

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._ranks.shape)

    @property
    def ndim(self) -> int:
        return int(self._ranks.ndim)

    def size(self, mesh_dim: int | None = None) -> int:
        return int(self._ranks.size if mesh_dim is None else self._ranks.shape[mesh_dim])

    def _dim(self, mesh_dim: int | str | None) -> int:
        if isinstance(mesh_dim, str):
            if self.mesh_dim_names is None or mesh_dim not in self.mesh_dim_names:
                raise KeyError(
                    f"Invalid mesh_dim_name {mesh_dim!r}. Valid mesh_dim_names are "
                    f"{self.mesh_dim_names}."
                )
            return self.mesh_dim_names.index(mesh_dim)
        if mesh_dim is None:
            if self.ndim > 1:
                raise RuntimeError(
                    f"Found the DeviceMesh have {self.ndim} dimensions. Optional kwarg `mesh_dim` "
                    "needs to be specified when device_mesh.ndim > 1."
                )
            return 0
        return mesh_dim

    def get_group(self, mesh_dim: int | str | None = None) -> Any:
        """The group of this rank along a dimension."""
        return self._groups[self._dim(mesh_dim)]

    def get_all_groups(self) -> list[Any]:
        return list(self._groups)

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """This rank's place along a dimension."""
        return int(self.get_group(mesh_dim).rank())

    def get_rank(self) -> int:
        return get_rank()

    def get_coordinate(self) -> list[int] | None:
        """This rank's place in the grid; None if it is not in it."""
        found = np.argwhere(self._ranks == get_rank())
        return None if not len(found) else [int(i) for i in found[0]]

    def __getitem__(self, names: str | tuple[str, ...]) -> DeviceMesh:
        """The part of the grid along one dimension that this rank is in."""
        dim = self._dim(names if isinstance(names, str) else names[0])
        group = self._groups[dim]
        name = (self.mesh_dim_names or ())[dim : dim + 1]
        return DeviceMesh(
            self.device_type, group.global_ranks, mesh_dim_names=name, _groups=[group]
        )

    def __enter__(self) -> DeviceMesh:
        return self

    def __exit__(self, *error: Any) -> None:
        pass

    def __repr__(self) -> str:
        return f"DeviceMesh({self._ranks.tolist()}, mesh_dim_names={self.mesh_dim_names})"


def init_device_mesh(
    device_type: str,
    mesh_shape: tuple[int, ...],
    *,
    mesh_dim_names: tuple[str, ...] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """A grid of all ranks in this shape."""
    if mesh_dim_names is not None:
        if len(set(mesh_dim_names)) != len(mesh_dim_names):
            raise RuntimeError(
                "Each mesh_dim_name must be unique.",
                f"Found repeated mesh_dim_name in mesh_dim_names {mesh_dim_names}",
            )
        if len(mesh_shape) != len(mesh_dim_names):
            raise RuntimeError(
                "mesh_shape and mesh_dim_names should have same length!",
                f"Found len(mesh_dim_names): {len(mesh_dim_names)} and len(mesh_shape)"
                f":{len(mesh_shape)}.",
            )
    if not is_initialized():
        init_process_group()
    size = default_group().size()
    wanted = math.prod(mesh_shape)
    if wanted > size:
        raise RuntimeError(
            f"Mesh should not be bigger than default world size {size}, but found {wanted} ranks!"
        )
    ranks = np.arange(wanted).reshape(mesh_shape)
    return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names)
