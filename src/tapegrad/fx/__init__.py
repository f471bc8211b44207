"""Programs as graphs: trace a module, look at what it does, change it, run it.

`symbolic_trace` runs a module on stand-ins (`Proxy`) and writes every call down as a `Node` of a
`Graph`. A `GraphModule` runs a graph as generated Python, which can be read.
"""

from __future__ import annotations

from ._symbolic_trace import (
    PH,
    ProxyableClassMeta,
    Tracer,
    symbolic_trace,
    wrap,
)
from .graph import CodeGen, Graph
from .graph_module import GraphModule
from .immutable_collections import immutable_dict, immutable_list
from .interpreter import Interpreter, Transformer
from .node import Node, has_side_effect, map_arg
from .proxy import Proxy
from .subgraph_rewriter import replace_pattern

__all__ = [
    "PH",
    "CodeGen",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "ProxyableClassMeta",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "immutable_dict",
    "immutable_list",
    "map_arg",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]
