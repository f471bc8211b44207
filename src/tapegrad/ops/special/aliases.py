"""What `special` has under the names of functions that exist elsewhere."""

from __future__ import annotations

from typing import Any

from ..block import APIS, api, publish

ALIASES = {
    "erf": "erf",
    "erfc": "erfc",
    "exp2": "exp2",
    "expit": "sigmoid",
    "expm1": "expm1",
    "log1p": "log1p",
    "log_softmax": "log_softmax",
    "logsumexp": "logsumexp",
    "softmax": "softmax",
}

for alias, name in ALIASES.items():
    original = APIS[name]
    fields = {"samples": original.samples}
    publish(original.call, [f"special.{alias}"], original.doc, __name__, fields)


@api(name="special.round", samples=APIS["round"].samples)
def special_round(input: Any, *, decimals: int = 0) -> Any:
    """special.round(input, *, decimals=0) -> Tensor: `round`, always with decimals.

    >>> torch.special.round(tensor([0.5, 1.26]), decimals=1)
    tensor([0.5000, 1.3000])
    """
    return APIS["round"].call(input, decimals=decimals)
