"""A model as the graph that TensorBoard draws: one run of it, op by op, inside its modules."""

from __future__ import annotations

from typing import Any

from tensorboard.compat.proto.attr_value_pb2 import AttrValue
from tensorboard.compat.proto.config_pb2 import RunMetadata
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.step_stats_pb2 import (
    DeviceStepStats,
    StepStats,
)
from tensorboard.compat.proto.versions_pb2 import VersionDef

import tapegrad as tg

from ...overrides import TorchFunctionMode, resolve_name
from .._pytree import tree_flatten
from .summary import shape_of


class Recorder(TorchFunctionMode):
    """Notes every public function that runs, with the module it runs in."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: list[Any] = []
        self.scopes: list[str] = []
        self.made: dict[int, str] = {}  # by the id of a tensor: the node that made it
        self.kept: list[Any] = []  # so that no id is used twice

    def add(self, name: str, op: str, inputs: list[str], tensor: Any = None, attr: str = "") -> str:
        node = NodeDef(name=name, op=op, input=inputs)
        if tensor is not None:
            shapes = AttrValue.ListValue(shape=[shape_of(tensor.shape)])
            node.attr["_output_shapes"].CopyFrom(AttrValue(list=shapes))
        node.attr["attr"].CopyFrom(AttrValue(s=attr.encode()))
        self.nodes.append(node)
        return name

    def know(self, tensor: Any, name: str) -> None:
        self.made[id(tensor)] = name
        self.kept.append(tensor)

    def inside(self, name: str) -> str:
        return "/".join([*self.scopes, name])

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = [each for each in tree_flatten((args, kwargs or {}))[0]]
        results = [each for each in tree_flatten(result)[0] if isinstance(each, tg.Tensor)]
        new = [each for each in results if not any(each is one for one in given)]
        tensors = [each for each in given if isinstance(each, tg.Tensor)]
        if not results or not (new or tensors):
            return result
        inputs = [self.made[id(each)] for each in tensors if id(each) in self.made]
        said = ", ".join(repr(e) for e in given if isinstance(e, (bool, int, float, str)))
        called = (resolve_name(func) or getattr(func, "__name__", "op")).rpartition(".")[2]
        name = self.inside(f"{called}_{len(self.nodes)}")
        self.add(name, f"aten::{called}", inputs, results[0], "{" + said + "}")
        for each in results:
            self.know(each, name)
        return result


def graph(
    model: Any, args: Any, verbose: bool = False, use_strict_trace: bool = True
) -> tuple[Any, Any]:
    """The graph of one call `model(*args)`, and what it ran on."""
    args = args if isinstance(args, tuple) else (args,)
    recorder = Recorder()
    labels = {id(model): type(model).__name__}
    for path, module in model.named_modules():
        labels.setdefault(id(module), f"{type(module).__name__}[{path.rpartition('.')[2]}]")

    def enter(module: Any, given: Any) -> None:
        recorder.scopes.append(labels[id(module)])
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) not in recorder.made:
                where = recorder.inside(f"{name}/{name}")
                about = f"{{ name :  {name} }}"
                recorder.know(parameter, recorder.add(where, "prim::GetAttr", [], parameter, about))

    def leave(module: Any, given: Any, result: Any) -> None:
        recorder.scopes.pop()

    was_training = [module for module in model.modules() if module.training]
    hooks = [module.register_forward_pre_hook(enter) for module in model.modules()]
    hooks += [module.register_forward_hook(leave) for module in model.modules()]
    tensors = [each for each in tree_flatten(args)[0] if isinstance(each, tg.Tensor)]
    for i, tensor in enumerate(tensors):
        name = "input/x" if len(tensors) == 1 else f"input/x.{i + 1}"
        recorder.know(tensor, recorder.add(name, "IO Node", [], tensor))
    try:
        for module in was_training:
            module.training = False  # one run, not a step of training
        with tg.no_grad(), recorder:
            result = model(*args)
    except RuntimeError as error:
        print(error)
        print("Error occurs, No graph saved")
        raise
    finally:
        for module in was_training:
            module.training = True
        for hook in hooks:
            hook.remove()
    results = [each for each in tree_flatten(result)[0] if isinstance(each, tg.Tensor)]
    for i, tensor in enumerate(results):
        recorder.add(f"output/output.{i + 1}", "IO Node", [recorder.made[id(tensor)]], tensor)
    if verbose:
        for node in recorder.nodes:
            print(f"{node.name} = {node.op}({', '.join(node.input)})")
    stats = RunMetadata(step_stats=StepStats(dev_stats=[DeviceStepStats(device="/device:CPU:0")]))
    return GraphDef(node=recorder.nodes, versions=VersionDef(producer=22)), stats
