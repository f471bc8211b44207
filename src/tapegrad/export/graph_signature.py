"""Kinds of inputs and outputs of an exported graph: parameters, buffers, the user's."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

__all__ = [
    "ConstantArgument",
    "ExportGraphSignature",
    "InputKind",
    "InputSpec",
    "OutputKind",
    "OutputSpec",
    "TensorArgument",
]


@dataclasses.dataclass
class TensorArgument:
    """A tensor, by the name of its node."""

    name: str


@dataclasses.dataclass
class ConstantArgument:
    """A number or a word, which was one when the program was exported."""

    name: str
    value: Any = None


class InputKind(enum.Enum):
    """Where an input comes from."""

    USER_INPUT = enum.auto()
    PARAMETER = enum.auto()
    BUFFER = enum.auto()
    CONSTANT_TENSOR = enum.auto()


class OutputKind(enum.Enum):
    """Where an output goes."""

    USER_OUTPUT = enum.auto()


@dataclasses.dataclass
class InputSpec:
    """One input: `target` is its name in the module."""

    kind: InputKind
    arg: Any
    target: str | None = None
    persistent: bool | None = None

    def __str__(self) -> str:
        text = f"{self.arg.name}: {self.kind.name}"
        if self.target is not None:
            text += f" target={self.target!r}"
        return text if self.persistent is None else f"{text} persistent={self.persistent}"


@dataclasses.dataclass
class OutputSpec:
    """One output."""

    kind: OutputKind
    arg: Any
    target: str | None = None

    def __str__(self) -> str:
        return f"{self.arg.name}: {self.kind.name}"


@dataclasses.dataclass
class ExportGraphSignature:
    """The inputs and outputs of a graph, in order.

    >>> program = torch.export.export(nn.Linear(2, 1), (ones(3, 2),))
    >>> signature = program.graph_signature
    >>> isinstance(signature, torch.export.ExportGraphSignature), signature.parameters
    (True, ('weight', 'bias'))
    """

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    def _targets(self, *kinds: InputKind) -> dict[str, str]:
        return {s.arg.name: str(s.target) for s in self.input_specs if s.kind in kinds}

    @property
    def inputs_to_parameters(self) -> dict[str, str]:
        return self._targets(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> dict[str, str]:
        return self._targets(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self) -> dict[str, str]:
        return self._targets(InputKind.CONSTANT_TENSOR)

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(self.inputs_to_parameters.values())

    @property
    def buffers(self) -> tuple[str, ...]:
        return tuple(self.inputs_to_buffers.values())

    @property
    def user_inputs(self) -> tuple[Any, ...]:
        return tuple(
            s.arg.name if isinstance(s.arg, TensorArgument) else s.arg.value
            for s in self.input_specs
            if s.kind is InputKind.USER_INPUT
        )

    @property
    def user_outputs(self) -> tuple[Any, ...]:
        return tuple(getattr(s.arg, "value", s.arg.name) for s in self.output_specs)

    def __str__(self) -> str:
        inputs = "\n".join(map(str, self.input_specs))
        outputs = "\n".join(map(str, self.output_specs))
        return f"\n# inputs\n{inputs}\n\n# outputs\n{outputs}\n"
