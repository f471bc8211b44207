"""`torch.library`: ops of one's own."""

import typing

from programs.harness import program


def scale_op(torch, name):
    def scale(x, k, n=None):
        return x * k

    scale.__annotations__ = {
        "x": torch.Tensor,
        "k": float,
        "n": typing.Optional[int],  # noqa: UP045 - as programs spell it
        "return": torch.Tensor,
    }
    return torch.library.custom_op(f"prog::{name}", scale, mutates_args=())


def library(torch, kind="DEF"):
    """A library that goes away after the program, which may run again."""
    return torch.library._scoped_library("proglib", kind)


@program
def custom_ops_are_ops(torch, log):
    op = scale_op(torch, "plain")
    log(repr(op), str(torch.ops.prog.plain), str(torch.ops.prog.plain.default))
    log(str(torch.ops.prog.plain.default._schema))
    log(op(torch.ones(2), 3.0), torch.ops.prog.plain(torch.ones(2), 2.0))
    log(torch.ops.prog.plain.default(torch.ones(2), k=2.0, n=3))
    log(torch.ops.prog.plain.overloads())
    x = torch.ones(2, requires_grad=True)
    y = op(x, 3.0)
    log(y)
    log.raises(lambda: y.sum().backward())
    log.raises(lambda: op(x))
    log.raises(lambda: op(x, 1.0, foo=2))
    log.raises(lambda: op("a", 1.0))
    log.raises(lambda: torch.ops.prog.nothing)


@program
def gradients_are_registered(torch, log):
    op = scale_op(torch, "graded")

    def setup_context(ctx, inputs, output):
        x, k, n = inputs
        log("setup", k, n, output.requires_grad)
        ctx.k = k
        ctx.save_for_backward(x)

    def backward(ctx, grad):
        log("backward", ctx.saved_tensors[0], ctx.needs_input_grad)
        return grad * ctx.k, None, None

    op.register_autograd(backward, setup_context=setup_context)
    x = torch.ones(2, requires_grad=True)
    y = op(x, 3.0)
    log(y, type(y.grad_fn).__name__)
    y.sum().backward()
    log(x.grad.tolist())
    log(op(torch.ones(2), 3.0))
    with torch.no_grad():
        log(op(x, 3.0))
    log(torch.autograd.gradcheck(lambda t: op(t, 2.0), torch.ones(2, dtype=torch.float64)))


@program
def mapped_with_and_without_a_rule(torch, log):
    op = scale_op(torch, "mapped")
    x = torch.arange(6.0).view(3, 2)
    log(torch.vmap(lambda t: op(t, 2.0))(x))

    @op.register_vmap
    def rule(info, in_dims, x, k, n=None):
        log(info.batch_size, in_dims, x.shape)
        return op(x, k, n), in_dims[0]

    log(torch.vmap(lambda t: op(t, 2.0))(x))


@program
def kernels_by_device(torch, log):
    op = scale_op(torch, "placed")

    @op.register_kernel("cpu")
    def kernel(x, k, n=None):
        return x * k + 100

    log(op(torch.ones(2), 2.0))
    with op.set_kernel_enabled("cpu", False):
        log(op(torch.ones(2), 2.0))
    log(op(torch.ones(2), 2.0))


@program
def arguments_that_are_written(torch, log):
    def add_one_(x):
        x.add_(1)

    add_one_.__annotations__ = {"x": torch.Tensor, "return": None}
    op = torch.library.custom_op("prog::add_one_", add_one_, mutates_args=("x",))
    a = torch.zeros(2)
    log(op(a), a.tolist(), a._version, str(torch.ops.prog.add_one_.default._schema))
    log(op._opoverload._schema.is_mutable)
    log.raises(lambda: op.register_autograd(lambda ctx, g: g))


@program
def modes_see_one_op(torch, log):
    op = scale_op(torch, "seen")
    seen = []

    class Names(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Names():
        log(op(torch.ones(2), 2.0), seen)
    seen.clear()

    @op.register_torch_dispatch(Names)
    def rule(mode, func, types, args, kwargs):
        seen.append(f"rule for {func}")
        return func(*args, **kwargs)

    x = torch.ones(2)
    with Names():
        log(op(x, 2.0), seen)


@program
def libraries(torch, log):
    with library(torch) as lib:
        log(lib.define("scale(Tensor x, float k=2.) -> Tensor"))
        lib.impl("scale", lambda x, k=2.0: x * k, "CPU")
        op = torch.ops.proglib.scale
        x = torch.ones(2, requires_grad=True)
        log(op(torch.ones(2)), op(torch.ones(2), 3.0), op(x))
        log(str(op.default._schema), op.default.name(), op.default.namespace)
        log.raises(lambda: op())
        log.raises(lambda: op("a"))
        lib.define("both.a(Tensor x) -> Tensor")
        lib.define("both.b(Tensor x, int y) -> Tensor")
        lib.impl("both.a", lambda x: x + 1, "CPU")
        lib.impl("both.b", lambda x, y: x + y, "CPU")
        both = torch.ops.proglib.both
        log(both(torch.ones(1)), both(torch.ones(1), 5), both.overloads())
        lib.define("composite(Tensor x) -> Tensor")
        lib.impl("composite", lambda x: x * x, "CompositeImplicitAutograd")
        log(torch.ops.proglib.composite(x))
        lib.define("apart(Tensor x) -> Tensor")
        lib.impl("apart", lambda x: x.sin(), "CPU")
        lib.impl("apart", lambda x: x.cos(), "Autograd")
        log(torch.ops.proglib.apart(x), torch.ops.proglib.apart(torch.zeros(1)))
        torch.library.register_autograd("proglib::scale", lambda ctx, g: (g * 5, None), lib=lib)
        y = op(x)
        log(type(y.grad_fn).__name__)
        y.sum().backward()
        log(x.grad.tolist())
    log.raises(lambda: torch.library.Library("proglib", "NOTHING"))
    log.raises(lambda: torch.library.register_fake("proglib::none", lambda x: x))


@program
def schemas_from_annotations(torch, log):
    tensor, optional, union = torch.Tensor, typing.Optional, typing.Union

    def infer(annotations, defaults=(), mutates=()):
        names = [n for n in annotations if n != "return"]
        source = f"def f({', '.join(names)}): ..."
        space = {}
        exec(source, space)
        space["f"].__annotations__ = annotations
        space["f"].__defaults__ = defaults
        return torch.library.infer_schema(space["f"], mutates_args=mutates)

    log(infer({"x": tensor, "return": tensor}))
    log(infer({"x": tensor, "y": optional[tensor], "return": tuple[tensor, tensor]}))
    log(infer({"x": list[tensor], "n": int, "b": bool, "return": list[tensor]}))
    log(infer({"x": tensor, "s": str, "k": float, "return": None}, ("a", 1.5), ("x",)))
    log(infer({"x": tensor, "d": torch.dtype, "v": torch.device, "return": int}))
    log(infer({"x": tensor, "q": union[int, float, bool], "return": tensor}, (2,)))
    log(infer({"x": tensor, "l": typing.Sequence[int], "return": tensor}, (), "unknown"))  # noqa: UP006
    log.raises(lambda: torch.library.infer_schema(lambda x: x, mutates_args=()))
    log.raises(lambda: infer({"x": tensor}))
    log.raises(lambda: infer({"x": tensor, "return": tensor}, (), ("z",)))


@program
def checks(torch, log):
    op = scale_op(torch, "checked")
    arguments = (torch.ones(2), 3.0)
    found = torch.library.opcheck(op, arguments, raise_exception=False)
    log({name: str(result) for name, result in found.items()})

    @op.register_fake
    def fake(x, k, n=None):
        return torch.empty_like(x)

    log(torch.library.opcheck(op, arguments))
    op.register_autograd(
        lambda ctx, g: (g * ctx.k, None, None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "k", inputs[1]),
    )
    log(torch.library.opcheck(op, (torch.ones(2, requires_grad=True), 3.0)))
    names = ("test_schema", "test_faketensor")
    log(torch.library.opcheck(op, arguments, test_utils=names))

    def lies(x):
        x.add_(1)
        return x.clone()

    lies.__annotations__ = {"x": torch.Tensor, "return": torch.Tensor}
    liar = torch.library.custom_op("prog::liar", lies, mutates_args=())
    try:
        torch.library.opcheck(liar, (torch.ones(2),), test_utils="test_schema")
    except Exception as error:
        log(type(error).__name__, str(error))


@program
def schemas_are_read(torch, log):
    for text in (
        "a::b(Tensor x, int[2] y=1, *, float? z=None) -> (Tensor, Tensor)",
        "a::b.c(Tensor(a!) x, Tensor?[] y, str s) -> Tensor(a!)",
        "b(Tensor x) -> ()",
    ):
        schema = torch._C.parse_schema(text)
        log(str(schema), schema.name, schema.overload_name, schema.is_mutable)
        log([(a.name, str(a.type), a.kwarg_only, a.default_value) for a in schema.arguments])
    log.raises(lambda: torch._C.parse_schema("a::b(Tensor x"))


@program
def own_kernels_of_aten(torch, log):
    """PyTorch's own ops with other kernels, below autograd and above it."""
    x = torch.tensor([1.0, 2.0, 3.0])
    w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    calls = []

    def shifted(a):
        calls.append(a.requires_grad)
        return a + 1

    with torch.library._scoped_library("aten", "IMPL") as lib:
        log(lib.impl("neg", shifted, "CPU"))
        found = torch.neg(x), -x, x.neg(), torch.ops.aten.neg(x), torch.ops.aten.neg.default(x)
        recorded = -w
        with torch.no_grad():
            found = (*found, -w)
    log(*found, recorded, calls)
    recorded.sum().backward()
    log(w.grad, -x)

    with torch.library._scoped_library("aten", "IMPL", "CPU") as lib:
        lib.impl("mul.Tensor", lambda a, b: torch.add(a, b))
        found = x * x, x * 2, torch.mul(x, x), torch.exp(x)
        product = w * w
    log(*found, product)

    with torch.library._scoped_library("aten", "IMPL") as lib:
        lib.impl("neg", lambda a: a * 10, "Autograd")
        found = -x, -w
        with torch.inference_mode():
            plain = (-torch.ones(2)).tolist()
    log(*found, plain)

    with torch.library._scoped_library("aten", "IMPL") as lib:
        lib.impl("neg", lambda a: torch.exp(a), "CPU")
        lib.impl("aten::exp", lambda a: torch.mul(a, 100), "CPU")
        lib.impl("neg_", lambda a: a.add_(1), "CPU")
        lib.impl("neg", lambda a: a.new_empty(7), "Meta")
        lib.impl(torch.ops.aten.sin.default, lambda a: a + 1, "CUDA")
        y = x.clone()
        found = -x, y.neg_(), y, torch.sin(x), torch.neg(torch.empty(3, device="meta")).shape
    log(*found)

    lib = torch.library.Library("aten", "IMPL")
    lib.impl("neg", lambda a: a + 1, "CPU")
    lib.impl("neg", lambda a: a + 2, "CPU", allow_override=True)
    found = -x
    del lib
    log(found, -x)

    with torch.library._scoped_library("aten", "FRAGMENT") as lib:
        lib.define("prog_new(Tensor x) -> Tensor")
        lib.impl("prog_new", lambda x: x + 1, "CPU")
        log(torch.ops.aten.prog_new(x))
    with torch.library._scoped_library("proglib_other", "DEF") as lib:
        lib.define("neg(Tensor self) -> Tensor")
        try:
            lib.impl(torch.ops.aten.neg.default, shifted, "CPU")
        except RuntimeError as error:
            log(str(error).partition("  (Error occurred")[0])
    with torch.library._scoped_library("aten", "IMPL") as lib:
        log.raises(lambda: lib.fallback(shifted, "CPU"))
        log.raises(lambda: lib.fallback(shifted))


@program
def the_older_decorator_and_tags(torch, log):
    with torch.library._scoped_library("tagged", "FRAGMENT") as lib:
        Tag = torch.Tag
        lib.define("twice(Tensor x) -> Tensor", tags=(Tag.pointwise,))
        lib.define("thrice(Tensor x, int k=3) -> Tensor", tags=Tag.core)

        @torch.library.impl(lib, "twice", "CPU")
        def twice(x):
            return x * 2

        @torch.library.impl(lib, "thrice")
        def thrice(x, k=3):
            return x * k

        x = torch.ones(2)
        log(torch.ops.tagged.twice(x), torch.ops.tagged.thrice(x, k=4), twice(x))
        for op in (torch.ops.tagged.twice, torch.ops.tagged.thrice):
            log([tag.name for tag in op.default.tags], [tag.value for tag in op.default.tags])
        log([tag.name for tag in Tag.__members__.values()])
        log.raises(lambda: lib.define("wrong(Tensor x) -> Tensor", tags=[1]))
