"""Layers against the installed PyTorch: weights from the seed, signatures, constants, places."""

import inspect

import pytest
import torch

import tapegrad
from programs import layers

SEEDS = range(20)
TEXTS = [
    *(text for family in layers.FAMILIES for text in family),
    *layers.IN_PLACE,
    *layers.TABLES,
    *layers.HEADS,
]


def made(library, text, seed):
    library.manual_seed(seed)
    return eval(text, {"nn": library.nn, "torch": library})


def same_bits(ours, theirs):
    """Names, dtypes, shapes and every bit of the values of two state dicts."""
    assert list(ours) == list(theirs)
    for name, want in theirs.items():
        got = ours[name]
        assert str(got.dtype) == str(want.dtype)
        assert got.numpy().tobytes() == want.numpy().tobytes(), name


@pytest.mark.parametrize("text", TEXTS)
def test_weights_are_those_of_the_seed(text):
    for seed in SEEDS:
        ours, theirs = made(tapegrad, text, seed), made(torch, text, seed)
        same_bits(ours.state_dict(), theirs.state_dict())
        # The same number of draws was made.
        assert tapegrad.rand(()).item() == torch.rand(()).item()


@pytest.mark.parametrize("text", layers.LAZY)
def test_lazy_weights_are_those_of_the_seed(text):
    for seed in SEEDS:
        ours, theirs = made(tapegrad, text, seed), made(torch, text, seed)
        with tapegrad.no_grad(), torch.no_grad():
            ours(tapegrad.ones(layers.LAZY[text]))
            theirs(torch.ones(layers.LAZY[text]))
        same_bits(ours.state_dict(), theirs.state_dict())
        assert tapegrad.rand(()).item() == torch.rand(()).item()


@pytest.mark.parametrize("text", TEXTS)
def test_reprs_and_attributes(text):
    ours, theirs = made(tapegrad, text, 0), made(torch, text, 0)
    assert repr(ours) == repr(theirs)
    assert {k for k in vars(ours) if k[0] != "_"} == {k for k in vars(theirs) if k[0] != "_"}


CLASSES = [
    name
    for name, value in vars(torch.nn).items()
    if isinstance(value, type)
    and issubclass(value, torch.nn.Module)
    and value.__module__.startswith("torch.nn.modules")
    and hasattr(tapegrad.nn, name)
]


def test_every_layer_is_looked_at():
    """The table above has a row for every layer; the rest is tested elsewhere."""
    tested = " ".join([*TEXTS, *layers.LAZY])
    elsewhere = {"Module", "Sequential", "ModuleList", "ModuleDict"}
    elsewhere |= {"ParameterList", "ParameterDict", "Container", "MultiheadAttention"}
    elsewhere |= {"MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d", "RNNBase", "RNNCellBase"}
    left = {n for n in CLASSES if f"nn.{n}(" not in tested} - elsewhere
    places = {getattr(torch.nn, n).__module__.rpartition(".")[2] for n in left}
    assert places <= {"loss", "rnn", "transformer"}


@pytest.mark.parametrize("name", CLASSES)
def test_signatures(name):
    ours, theirs = getattr(tapegrad.nn, name), getattr(torch.nn, name)
    assert ours.__module__ == theirs.__module__.replace("torch", "tapegrad", 1)
    for method in ("__init__", "forward"):
        assert parameters(getattr(ours, method)) == parameters(getattr(theirs, method)), method
    assert sorted(constants(ours)) == sorted(constants(theirs))


def parameters(function):
    """Names, kinds and defaults, without the types."""
    found = inspect.signature(function).parameters.values()
    return [(p.name, p.kind, default_of(p)) for p in found if p.name != "self"]


def default_of(parameter):
    """Functions, such as an activation, by their names: each library has its own."""
    default = parameter.default
    return default.__name__ if inspect.isroutine(default) else default


def constants(cls):
    return getattr(cls, "__constants__", [])
