"""The examples in nn.utils; recurrent layers in forward mode, copied, pickled and written to."""

import copy
import doctest
import importlib
import pickle

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import nn

UTILS = """
    clip_grad convert_parameters fusion init parametrizations parametrize prune rnn spectral_norm
    stateless weight_norm
""".split()


@pytest.mark.filterwarnings("ignore::FutureWarning")  # old names have examples too
@pytest.mark.parametrize("name", [*(f"nn.utils.{each}" for each in UTILS), "func.module_state"])
def test_examples(name):
    module = importlib.import_module(f"tapegrad.{name}")
    used = ("allclose", "conv1d", "equal", "eye", "ones", "rand", "tensor", "zeros")
    names = {n: getattr(tg, n) for n in used} | {"bool": bool, "nn": nn, "torch": tg}
    tg.manual_seed(0)
    assert doctest.testmod(module, extraglobs=names, optionflags=doctest.ELLIPSIS).failed == 0


LAYERS = {
    "rnn": lambda: nn.RNN(2, 3, 2, bidirectional=True, dtype=tg.float64),
    "lstm": lambda: nn.LSTM(2, 3, bidirectional=True, proj_size=2, dtype=tg.float64),
    "gru": lambda: nn.GRU(2, 3, 2, bidirectional=True, dtype=tg.float64),
}


def outputs(result):
    out, hidden = result
    data = out.data if isinstance(out, nn.utils.rnn.PackedSequence) else out
    return [data, *(hidden if isinstance(hidden, tuple) else (hidden,))]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_forward_mode_is_the_transpose_of_reverse_mode(name, packed):
    """<u, J v> by forward mode is <Jᵀ u, v> by reverse mode, for input and weights together."""
    tg.manual_seed(0)
    layer = LAYERS[name]()
    x = tg.randn(4, 3, 2, dtype=tg.float64)
    keys = [n for n, _ in layer.named_parameters()]

    def run(x, *weights):
        given = nn.utils.rnn.pack_padded_sequence(x, [4, 2, 1]) if packed else x
        return outputs(
            tg.func.functional_call(layer, dict(zip(keys, weights, strict=True)), (given,))
        )

    point = [x, *[p.detach() for p in layer.parameters()]]
    tangents = [tg.randn_like(t) for t in point]
    with tg.autograd.forward_ad.dual_level():
        make, split = tg.autograd.forward_ad.make_dual, tg.autograd.forward_ad.unpack_dual
        duals = [make(t, v) for t, v in zip(point, tangents, strict=True)]
        pushed = [split(o).tangent for o in run(*duals)]
    leaves = [t.clone().requires_grad_() for t in point]
    outs = run(*leaves)
    seeds = [tg.randn_like(o) for o in outs]
    pulled = tg.autograd.grad(outs, leaves, seeds)
    forward = sum([(u * t).sum() for u, t in zip(seeds, pushed, strict=True)])
    backward = sum([(g * v).sum() for g, v in zip(pulled, tangents, strict=True)])
    assert forward.item() == pytest.approx(backward.item(), rel=1e-11)


@pytest.mark.parametrize("name", LAYERS)
def test_copies(name):
    layer = LAYERS[name]()
    x = tg.randn(4, 3, 2, dtype=tg.float64)
    expected = layer(x)[0]
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert (other(x)[0] == expected).all()
        assert other._flat_weights[0] is other.weight_ih_l0
        assert other.weight_ih_l0 is not layer.weight_ih_l0


def test_loops_over_time_take_few_nodes():
    """One node per layer and direction, whatever the length."""
    out, _ = nn.LSTM(2, 3)(tg.ones(100, 1, 2))
    seen, queue = set(), [out.grad_fn]
    while queue:
        node = queue.pop()
        if node is not None and node not in seen:
            seen.add(node)
            queue += [n for n, _ in node.next_functions]
    assert len(seen) < 20


@pytest.mark.parametrize("name", LAYERS)
def test_large_inputs_saturate_quietly(name):
    layer = LAYERS[name]()
    out = layer(tg.full((2, 1, 2), 1e4, dtype=tg.float64))[0]
    out.sum().backward()
    assert np.isfinite(out.detach().numpy()).all()
    assert all(np.isfinite(p.grad.numpy()).all() for p in layer.parameters())


def test_prune_is_imported_by_name():
    from tapegrad.nn.utils import prune

    assert prune.is_pruned(prune.identity(nn.Linear(1, 1), "weight"))
