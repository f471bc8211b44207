"""The tests of diagnose and of anomaly mode once more, with the default device on the GPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tapegrad as torch
import test_anomaly
import test_diagnose_graph
import test_diagnose_meets
import test_diagnose_memory
import test_diagnose_tools
import test_diagnose_trace
import test_diagnose_why

pytestmark = pytest.mark.filterwarnings("ignore:Error detected in:UserWarning")

# What these are about is only there on the host (the size of NumPy's objects, the word "cpu"), or
# nowhere: texts, times, other processes.
NOT_ABOUT_ARRAYS = """
    agrees_with_tracemalloc boxes_do_not_overlap command_draws_the_last_backward
    command_without_backward_and_with_errors cost_of_a_healthy_step every_rule_has_a_text examples
    is_finite large_graphs_are_quick layers_are_longest_ways long_chains
    nothing_is_loaded_before_it_is_used pages_are_those_of_the_docs repeats rules_as_text
    spacing_is_the_nearest_that_fits summary_by_hand
""".split()


@pytest.fixture(autouse=True)
def on_the_gpu() -> Iterator[None]:
    torch.set_default_device("cuda")
    yield
    torch.set_default_device(None)


for module in (
    test_anomaly,
    test_diagnose_graph,
    test_diagnose_meets,
    test_diagnose_memory,
    test_diagnose_tools,
    test_diagnose_trace,
    test_diagnose_why,
):
    for name, test in list(vars(module).items()):
        if name.startswith("test_") and name[5:] not in NOT_ABOUT_ARRAYS:
            globals()[f"test_{module.__name__[5:]}_{name[5:]}"] = test
