"""Which public names of PyTorch are here, and why the others are not.

    python tools/names.py            the counts, and the names that are absent
    python tools/names.py --write    … into docs/parity.md, and for errors/missing.py to read

It runs with a Python that has PyTorch; the rest of docs/parity.md is tests/parity/opdb.py's.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import importlib
import pathlib
import sys
import textwrap
import types
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any, TypeVar

ROOT = pathlib.Path(__file__).parents[1]
PAGE = ROOT / "docs" / "parity.md"
LIST = ROOT / "src" / "tapegrad" / "errors" / "absent_names.txt"  # a reason and its names, in lines
HEADING = "## Names\n"

SPACES = """
    torch Tensor nn nn.Module nn.functional nn.init nn.attention nn.grad nn.parallel nn.utils
    nn.utils.rnn nn.utils.parametrize nn.utils.parametrizations nn.utils.prune optim optim.Optimizer
    optim.lr_scheduler optim.swa_utils autograd autograd.functional autograd.forward_ad
    autograd.graph func linalg fft special utils utils.data utils.checkpoint utils.hooks
    utils.dlpack utils.weak utils.deterministic distributions distributions.constraints
    distributions.transforms distributions.Distribution random testing amp sparse nested masked
    signal signal.windows overrides futures jit profiler functional serialization storage types
    Generator Size dtype device finfo iinfo
""".split()

# Why a name is absent: patterns of full names, the first that fits. A reason in OUTSIDE is about
# something that this library is not.
OUTSIDE = ("other hardware", "compilers", "quantisation")
REASONS = {
    "other hardware": """
        *.mps *.mtia *.xpu *.ipu *_ipu_* *_xla_* *.cudnn_* *.miopen_* *.mkldnn_* *.to_mkldnn
        *.profiler.itt torch.batch_norm_backward_* torch.batch_norm_elemt torch.batch_norm_stats
        torch.batch_norm_gather_* torch.batch_norm_update_stats *SemiStructured* *semi_structured
        torch.profiler_allow_cudagraph_* *privateuse1* *.backend_registration *.emit_itt
        *flash_attention_impl* *.hpu *_hpu_*
        torch.native_norm *.set_override_stale_capture_stream *.flash_attention *varlen* *.is_fbcode
    """,
    "compilers": """
        torch.jit.* torch.*Type torch.Script* torch.*Schema torch.*IR* torch.parse_*
        torch.import_ir* torch.fx torch.package torch.cpp torch.classes torch.AliasDb
        torch.Argument*
        torch.Block torch.Code torch.CallStack torch.CompilationUnit torch.CompleteArgumentSpec
        torch.ConcreteModule* torch.ErrorReport torch.ExecutionPlan torch.FileCheck torch.Gradient
        torch.Graph torch.GraphExecutorState torch.IODescriptor torch.JITException
        torch.LiteScriptModule torch.Node torch.Use torch.Value torch.TracingState
        torch.StaticModule
        torch.BufferDict torch.ParameterDict torch.ModuleDict torch.DeserializationStorageContext
        torch.SerializationStorageContext torch.PyTorchFile* torch.DeepCopyMemoTable torch.Capsule
        torch.LockingLogger torch.LoggerBase torch.NoopLogger torch.AggregationType torch.AVG
        torch.SUM torch.OperatorInfo torch.sym_* torch.unify_type_list torch.merge_type_* torch.fork
        torch.wait torch.Benchmark* torch.ThroughputBenchmark *.ThroughputBenchmark
        *.throughput_benchmark torch.testing.FileCheck torch.DispatchKey* *.cmake_prefix_path
        torch.ExcludeDispatchKeyGuard torch.PRIVATE_OPS torch.USE_* torch.FatalError
        *.cpp_backtrace *.get_cpp_backtrace *.flex_attention torch.types.*DispatchKey
        torch.types.py_sym_types *.boolean_dispatch *.BroadcastingList? *.experimental
        *.profiler_legacy
        *.slice_inverse torch.indices_copy torch.values_copy *.fx_traceback
        *.region_activation_memory_budget *.ExecutionTraceObserver torch.library *.RecordScope
    """,
    "quantisation": """
        *quant* *.q_* *.qint* *.quint* *.qscheme *.int_repr *.intrinsic *.qat *.ao *fbgemm*
        *.per_channel_* *.per_tensor_* torch.Q*Storage torch.bit* torch.int? torch.uint?
        torch.float4* *.choose_qparams* *scaled*_mm *.ScalingType *.SwizzleType
    """,
    "texts that PyTorch's help is made of": "*_notes",
    "float8": "torch.float8*",
    "complex32, which NumPy does not have": "*.chalf torch.complex32",
    "nested tensors": "torch.nested torch.nested.* torch.jagged *.to_padded_tensor",
    "masked tensors": "torch.masked.*",
    "sparse tensors in blocks": "*sparse_bsr* *sparse_bsc*",
    "data pipes": """
        *DataPipe *datapipe* *.DataChunk *.argument_validation *.runtime_validation* *.graph
        *.graph_settings *.non_deterministic
    """,
    "not yet": "*",
}


def space(library: Any, name: str) -> Any:
    """A module or class, as `library` has it; None if it has not."""
    found = library
    for i, part in enumerate([] if name == "torch" else name.split(".")):
        if not hasattr(found, part):
            with contextlib.suppress(ImportError):
                importlib.import_module(".".join([library.__name__, *name.split(".")[: i + 1]]))
        found = getattr(found, part, None)
    return found


def is_own(value: Any, home: Any, name: str) -> bool:
    """Whether a name is PyTorch's and at home there, and no import that shows from outside."""
    if isinstance(home, type) or name in getattr(home, "__all__", ()):
        return True
    if isinstance(value, TypeVar):
        return False
    if isinstance(value, types.ModuleType):
        return value.__name__ == f"{home.__name__}.{name}"
    origin = getattr(value, "__module__", None)
    if origin == home.__name__:
        return True
    if name == "TYPE_CHECKING" or (hasattr(home, "__all__") and home.__name__ != "torch"):
        return False
    if not isinstance(origin, str):
        return True
    seen = origin in homes() and getattr(sys.modules[origin], name, None) is value
    return origin.startswith("torch") and not seen


def homes() -> set[str]:
    return {"torch", *[f"torch.{name}" for name in SPACES]}


def names() -> Iterator[tuple[str, str, bool]]:
    """Each public name: the module or class that has it, the name, whether it is here."""
    import torch

    import tapegrad

    for title in SPACES:
        theirs, ours = space(torch, title), space(tapegrad, title)
        for name in dir(theirs):
            if not name.startswith("_") and is_own(getattr(theirs, name, None), theirs, name):
                yield title, name, ours is not None and has(ours, name)


def has(ours: Any, name: str) -> bool:
    if name in dir(ours):
        return True
    try:
        getattr(ours, name)
    except AttributeError:
        return False
    return True


def reason(title: str, name: str) -> str:
    """Why a name is absent."""
    full = f"torch.{name}" if title == "torch" else f"torch.{title}.{name}"
    for text, patterns in REASONS.items():
        if any(fnmatch.fnmatchcase(full, pattern) for pattern in patterns.split()):
            return text
    raise AssertionError(full)


def section() -> tuple[str, str]:
    """What docs/parity.md says about names, and the absent ones by their reasons."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(names())
    absent: dict[str, list[str]] = {}
    rows = []
    for title in SPACES:
        own = [(name, here) for space_, name, here in found if space_ == title]
        missing = [name for name, here in own if not here]
        why = Counter(reason(title, name) for name in missing)
        for name in missing:
            full = f"torch.{name}" if title == "torch" else f"{title}.{name}"
            absent.setdefault(reason(title, name), []).append(full)
        outside = sum(why[r] for r in OUTSIDE)
        rows.append((title, len(own), len(own) - len(missing), outside, len(missing) - outside))
    total = ["all", *[sum(row[i] for row in rows) for i in range(1, 5)]]
    inside = total[1] - total[3]
    lines = [
        HEADING,
        "Made by `python tools/names.py --write`: what `dir()` shows of PyTorch 2.13, less private",
        "names and what a module merely imports. Names that are about other hardware, compilers or",
        f"quantisation stay outside; of the other {inside}, {total[4]} are absent",
        f"({share(total[4], inside)}).",
        "",
        "| | names | present | outside | absent |",
        "|---|---|---|---|---|",
    ]
    for title, *counts in [*rows, total]:
        lines.append(f"| {title} | " + " | ".join(str(n) for n in counts) + " |")
    lines += ["", "### Why a name is absent", ""]
    for text in REASONS:
        if text in absent:
            listed = ", ".join(f"`{name}`" for name in absent[text])
            entry = f"- **{text}** ({len(absent[text])}): {listed}"
            lines += textwrap.wrap(entry, 100, subsequent_indent="  ", break_on_hyphens=False)
    listed = [
        f"{text}: " + " ".join([name.removeprefix("torch.") for name in absent[text]])
        for text in REASONS
        if text in absent
    ]
    return "\n".join(lines) + "\n", "\n".join(listed) + "\n"


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/parity.md")
    text, listed = section()
    if parser.parse_args().write:
        PAGE.write_text(PAGE.read_text().partition(HEADING)[0] + text)
        LIST.write_text(listed)
    else:
        print(text)


if __name__ == "__main__":
    main()
