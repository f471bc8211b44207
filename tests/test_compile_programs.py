"""The programs of tests/programs and the examples under `tapegrad.compile`."""

from __future__ import annotations

import pathlib
import warnings
from itertools import repeat
from typing import Any

import pytest

import example_runs
import tapegrad
from programs import harness
from test_examples import SHORT

MODULES = [
    f"prog_{name}"
    for name in (
        *(
            "backward",
            "checkpoint",
            "engine",
            "example",
            "hooks",
            "inplace",
            "views",
            "saved_mutation",
        ),
        *("nn", "nn_layers", "nn_losses", "nn_rnn", "optim", "lr_scheduler", "function", "modes"),
    )
]
# They ask for what a call that is being recorded shows: its gradients are computed on tensors (the
# grad mode in hooks, when tensors die, writes through .data, saved values in other shapes), in
# modes of its own, and lazy parameters are looked at before they have a shape.
ABOUT_RECORDING = {
    *("write_through_data_is_not_noticed", "weak_references", "helper_functions"),
    *("hook_without_create_graph_runs_with_grad_off", "saved_tensors_hooks_ignore_versions"),
    *("allow_mutation_on_saved_tensors", "written_after_it_was_saved", "outputs_written_to"),
    *("allow_mutation_on_saved_tensors_needs_its_context_in_backward", "views_and_second_writes"),
    *("plain_tensors_written_to", "lazy_layers", "lazy_layers_in_a_network", "lazy_errors"),
    *("lazy_layers_load_and_copy", "uninitialized_tensors"),
}
COMPILED = [str(pathlib.Path(__file__).parent / "compiled_run.py")]


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_programs_that_are_recorded_do_what_they_did(module: str) -> None:
    """Most of them look at values, and nothing is left of the attempt to record them.

    In the call that is being recorded gradients have other counts of writes.
    """
    wrong = []
    for name, function in harness.programs(module):
        if name in ABOUT_RECORDING:
            continue
        expected = harness.golden(module)[name]

        def program(function: Any = function) -> Any:
            return harness.run(function, tapegrad)

        compiled = tapegrad.compile(program)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for i in range(3):
                found = compiled()
                same = len(found) == len(expected)
                if i != 1:
                    same = same and all(map(harness.same_entry, repeat(name), found, expected))
                if not same:
                    wrong.append((name, i))
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("name", SHORT)
def test_examples_with_compiled_modules(name: str) -> None:
    steps, _ = SHORT[name]
    _, curves = example_runs.run(name, steps, on=COMPILED)
    _, expected = example_runs.run(name, steps)
    assert curves.keys() == expected.keys()
    for key, values in expected.items():
        assert curves[key] == pytest.approx(values, rel=1e-3), key
