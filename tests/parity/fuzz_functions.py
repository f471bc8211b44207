"""Custom Functions that random programs apply, made for either library; `log` hears of backward."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any


def functions(torch: Any, log: Callable[..., None]) -> SimpleNamespace:
    """One class for each thing that a Function can say about its inputs and outputs."""

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            log("Square", grad, x)
            return grad * 2 * x

    class Exp(torch.autograd.Function):
        """Keeps its output."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            out = x.tanh()
            ctx.save_for_backward(out)
            return out

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (out,) = ctx.saved_tensors
            return grad * (1 - out * out)

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(x: Any, y: Any, scale: float = 2.0) -> Any:
            return x * y * scale

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            x, y, scale = inputs
            ctx.save_for_backward(x, y)
            ctx.scale = scale

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            x, y = ctx.saved_tensors
            log("Product", ctx.needs_input_grad, grad)
            dx = grad * y * ctx.scale if ctx.needs_input_grad[0] else None
            dy = grad * x * ctx.scale if ctx.needs_input_grad[1] else None
            return dx, dy, None

    class Dirty(torch.autograd.Function):
        """Writes to its input and says so."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            x.mul_(3)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 3

    class DirtyAndMore(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_backward(y)
            x.add_(1)
            ctx.mark_dirty(x)
            return x, y * 2

        @staticmethod
        def backward(ctx: Any, dx: Any, dy: Any) -> Any:
            log("DirtyAndMore", dx, dy)
            return dx, dy * 2

    class Unsaid(torch.autograd.Function):
        """Returns its input as it is."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 5

    class ViewOut(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x[..., :1]

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad.expand(*grad.shape[:-1], 1)

    class ViewAs(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    class TwoViews(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.view_as(x), x.view_as(x)

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any) -> Any:
            return a + b

    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any) -> Any:
            log("Two", a, b)
            return a * 2 + b * 3

    class TwoUnmade(torch.autograd.Function):
        """Gets None for what received no gradient."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any) -> Any:
            log("TwoUnmade", a, b)
            return a if b is None else b

    class Marked(torch.autograd.Function):
        """One output without gradient."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            a, b = x * 2, x + 1
            ctx.mark_non_differentiable(b)
            return a, b

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any) -> Any:
            log("Marked", a, b)
            return a * 2

    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad * x.cos()

    class NoGradient(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return None

    class WrongShape(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad.reshape(-1)[:1].expand(2, 7)

    classes = (
        *(Square, Exp, Product, Dirty, DirtyAndMore, Unsaid, ViewOut, ViewAs, TwoViews, Two),
        *(TwoUnmade, Marked, Once, NoGradient, WrongShape),
    )
    return SimpleNamespace(**{c.__name__: c for c in classes})
