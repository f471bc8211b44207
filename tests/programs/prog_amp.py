"""Mixed precision: autocast on the CPU, its switches, GradScaler."""

from programs.harness import program


def grid(torch, *shape):
    """Small halves, exact in every precision."""
    count = 1
    for n in shape:
        count *= n
    return (torch.arange(count, dtype=torch.float32) % 7 - 3).div(2).reshape(shape)


@program
def products_run_in_bfloat16(torch, log):
    a, b = grid(torch, 2, 3), grid(torch, 3, 2)
    with torch.autocast("cpu"):
        log(a @ b, torch.mm(a, b), torch.matmul(a, b), a.matmul(b))
        log(torch.addmm(grid(torch, 2), a, b), torch.einsum("ij,jk->ik", a, b))
        stack = grid(torch, 2, 2, 3)
        log(torch.bmm(stack, stack.transpose(1, 2)), stack @ b, torch.mv(a, grid(torch, 3)))
        log(torch.nn.functional.linear(a, grid(torch, 4, 3), grid(torch, 4)))
        log(torch.tensordot(a, b, 1))
        log(torch.baddbmm(grid(torch, 2, 2, 2), stack, stack.transpose(1, 2)))


@program
def one_dimension_is_cast_in_matmul_only(torch, log):
    v = grid(torch, 3)
    with torch.autocast("cpu"):
        log(v @ v, torch.dot(v, v), torch.matmul(grid(torch, 2, 3), v), torch.outer(v, v))


@program
def float16_when_asked(torch, log):
    a = grid(torch, 2, 2)
    with torch.autocast("cpu", dtype=torch.float16):
        log(a @ a, torch.get_autocast_dtype("cpu"))
    log(a @ a, torch.get_autocast_dtype("cpu"))


@program
def convolutions_run_in_bfloat16(torch, log):
    f = torch.nn.functional
    x, w = grid(torch, 1, 2, 4, 4), grid(torch, 3, 2, 2, 2)
    with torch.autocast("cpu"):
        y = f.conv2d(x, w, grid(torch, 3))
        log(y.dtype, y.shape, f.conv1d(grid(torch, 1, 2, 4), grid(torch, 3, 2, 2)).dtype)
        log(f.conv_transpose2d(x, grid(torch, 2, 3, 2, 2)).dtype)
        log(f.scaled_dot_product_attention(x[0], x[0], x[0]).dtype)
        log(f.prelu(x, torch.tensor([0.25])).dtype)


@program
def delicate_functions_run_in_float32(torch, log):
    f = torch.nn.functional
    h = grid(torch, 2, 4).bfloat16()
    t = torch.tensor([1, 3])
    with torch.autocast("cpu"):
        log(f.mse_loss(h, h * 2), f.l1_loss(h, h * 2), f.smooth_l1_loss(h, h * 2))
        log(f.cross_entropy(h, t).dtype, f.nll_loss(h, t), f.kl_div(h, h.abs() + 1).dtype)
        log(f.binary_cross_entropy_with_logits(h, (h > 0).bfloat16()).dtype)
        log(torch.prod(h + 1), torch.trace(h), torch.cdist(h, h).dtype)
        log(torch.fft.fft(h).dtype, torch.linalg.inv(torch.eye(2).bfloat16()))
        log(f.pad(h[None], (1, 1), mode="reflect").dtype, f.pad(h, (1, 1)).dtype)


@program
def other_functions_stay(torch, log):
    a = grid(torch, 2, 3)
    h = a.bfloat16()
    with torch.autocast("cpu"):
        log((a + a).dtype, a.sum().dtype, torch.exp(a).dtype, torch.softmax(a, 0).dtype)
        log((h + h).dtype, (h + a).dtype, h.sum().dtype, torch.nn.functional.relu(h).dtype)
        log(torch.nn.functional.layer_norm(a, (3,)).dtype)


@program
def the_widest_type_wins_in_cat_and_stack(torch, log):
    a = grid(torch, 2)
    h = a.bfloat16()
    with torch.autocast("cpu"):
        log(torch.cat([a, h]), torch.stack([h, a]), torch.cat([h, h]), torch.hstack([h, a]))
        log(torch.cat([a, a.double()]).dtype)
        log.raises(lambda: torch.cat([a, a.half()]))
        log.raises(lambda: torch.cat([a.half(), a]))
        log(torch.cat([h, a.double()]).dtype)


@program
def doubles_integers_and_complex_numbers_stay(torch, log):
    d = grid(torch, 2, 2).double()
    with torch.autocast("cpu"):
        log(d @ d, torch.ones(2, 2, dtype=torch.int64) @ torch.ones(2, 2, dtype=torch.int64))
        log.raises(lambda: torch.mm(d, d.float()))
        log((d.to(torch.complex64) @ d.to(torch.complex64)).dtype)


@program
def mixed_inputs_meet_in_low_precision(torch, log):
    a = grid(torch, 2, 2)
    with torch.autocast("cpu"):
        log(torch.mm(a.bfloat16(), a), torch.nn.functional.linear(a.half(), a, a[0]))


@program
def gradients_come_back_in_float32(torch, log):
    w = grid(torch, 2, 2).requires_grad_()
    x = grid(torch, 3, 2)
    with torch.autocast("cpu"):
        y = x @ w
    log(y)
    log.graph(y)
    y.float().sum().backward()
    log(w.grad)


@program
def a_parameter_is_cast_once(torch, log):
    w = grid(torch, 2, 2).requires_grad_()
    with torch.autocast("cpu"):
        y, z = w @ w, w @ w
        first = [n for n, _ in y.grad_fn.next_functions]
        second = [n for n, _ in z.grad_fn.next_functions]
        log(first[0] is first[1], first[0] is second[0])
        with torch.no_grad():
            v = grid(torch, 2, 2).requires_grad_()
            v @ v
        log((v @ v).requires_grad)
    with torch.autocast("cpu", cache_enabled=False):
        first = [n for n, _ in (w @ w).grad_fn.next_functions]
        log(first[0] is first[1], torch.is_autocast_cache_enabled())
    log(torch.is_autocast_cache_enabled())


@program
def nesting(torch, log):
    a = grid(torch, 2, 2)
    states = []

    def note():
        states.append([torch.is_autocast_enabled("cpu"), str((a @ a).dtype)])

    with torch.autocast("cpu"):
        note()
        with torch.autocast("cpu", enabled=False):
            note()
            with torch.autocast("cpu", dtype=torch.float16):
                note()
            note()
        note()
    note()
    log(states)


@program
def an_exception_ends_it(torch, log):
    def fails():
        with torch.autocast("cpu"):
            raise ValueError("stop")

    log.raises(fails)
    log(torch.is_autocast_enabled("cpu"), (grid(torch, 2, 2) @ grid(torch, 2, 2)).dtype)


@program
def decorators(torch, log):
    @torch.autocast("cpu")
    def f(x):
        """What it does."""
        return x @ x

    log(f(grid(torch, 2, 2)), f.__name__, f.__doc__)
    log(torch.is_autocast_enabled("cpu"))


@program
def modules_in_autocast(torch, log):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(grid(torch, *p.shape))
    with torch.autocast("cpu"):
        y = model(grid(torch, 4, 2))
        loss = torch.nn.functional.mse_loss(y, torch.zeros(4, 1))
    log(y, loss)
    loss.backward()
    log([p.grad.dtype for p in model.parameters()], model[2].bias.grad)


@program
def out_and_inplace_are_left_alone(torch, log):
    a = grid(torch, 2, 2)
    with torch.autocast("cpu"):
        out = torch.empty(2, 2)
        log(torch.mm(a, a, out=out))
        b = a.clone()
        log(b.addmm_(a, a))
        log.raises(lambda: b.addmm_(a, a.bfloat16()))


@program
def switches(torch, log):
    log(torch.is_autocast_enabled(), torch.is_autocast_enabled("cpu"))
    log(torch.get_autocast_dtype("cpu"), torch.get_autocast_dtype("cuda"))
    torch.set_autocast_enabled("cpu", True)
    log(torch.is_autocast_enabled("cpu"), (grid(torch, 2, 2) @ grid(torch, 2, 2)).dtype)
    torch.set_autocast_enabled("cpu", False)
    torch.set_autocast_dtype("cpu", torch.float16)
    with torch.autocast("cpu"):
        log((grid(torch, 2, 2) @ grid(torch, 2, 2)).dtype)
    torch.set_autocast_dtype("cpu", torch.bfloat16)
    log(torch.amp.is_autocast_available("cpu"), torch.amp.is_autocast_available("cuda"))
    log(torch.autocast_increment_nesting(), torch.autocast_decrement_nesting())
    torch.clear_autocast_cache()
    log.raises(lambda: torch.get_autocast_dtype("foo"))
    log.warns(lambda: torch.is_autocast_cpu_enabled())
    log.warns(lambda: torch.get_autocast_cpu_dtype())
    log.warns(lambda: torch.get_autocast_gpu_dtype())
    log.warns(lambda: torch.set_autocast_cpu_enabled(False))
    log.warns(lambda: torch.set_autocast_cpu_dtype(torch.bfloat16))


@program
def arguments(torch, log):
    log.raises(lambda: torch.autocast("foo"))
    log.raises(lambda: torch.autocast(3))
    log.raises(lambda: torch.autocast())
    log.warns(lambda: torch.autocast("cpu", dtype=torch.float32)._enabled)
    log.warns(lambda: torch.autocast("cuda")._enabled)
    log.warns(lambda: torch.autocast("cuda", enabled=False)._enabled)
    log.warns(lambda: torch.cpu.amp.autocast()._enabled)
    log.warns(lambda: torch.cuda.amp.autocast()._enabled)
    mode = torch.autocast("cpu", cache_enabled=False)
    log(mode.device, mode.fast_dtype, mode._enabled, mode._cache_enabled)
    log(torch.autocast is torch.amp.autocast, torch.amp.autocast_mode.autocast is torch.autocast)


@program
def custom_functions(torch, log):
    seen = []

    class Square(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu")
        def forward(ctx, x):
            ctx.save_for_backward(x)
            seen.append(torch.is_autocast_enabled("cpu"))
            return x @ x

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            seen.append(torch.is_autocast_enabled("cpu"))
            return grad.float() @ x + x @ grad.float()

    x = grid(torch, 2, 2).requires_grad_()
    with torch.autocast("cpu"):
        y = Square.apply(x)
    log(y.dtype, seen)
    y.float().sum().backward()
    log(seen, x.grad.dtype)


@program
def custom_functions_with_cast_inputs(torch, log):
    seen = []

    class Plain(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
        def forward(ctx, x, n):
            seen.append([str(x.dtype), torch.is_autocast_enabled("cpu")])
            return x @ x

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            return grad, None

    with torch.autocast("cpu"):
        log(Plain.apply(grid(torch, 2, 2).bfloat16(), 3).dtype, seen)
    log(Plain.apply(grid(torch, 2, 2).bfloat16(), 3).dtype, seen)
    log.raises(lambda: torch.amp.custom_fwd(lambda ctx, x: x))
    log.raises(lambda: torch.amp.custom_fwd(device_type=3))
    log.warns(lambda: torch.cuda.amp.custom_fwd(lambda ctx, x: x).__name__)
    log.warns(lambda: torch.cuda.amp.custom_bwd(lambda ctx, x: x).__name__)


# --- GradScaler ------------------------------------------------------------------------------


def one_parameter(torch, value=1.0):
    p = torch.nn.Parameter(torch.full((2,), value))
    return p, torch.optim.SGD([p], lr=0.5)


@program
def scaler_trains(torch, log):
    p, optimizer = one_parameter(torch)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
    for _ in range(5):
        optimizer.zero_grad()
        loss = scaler.scale((p**2).sum())
        loss.backward()
        log(loss, p.grad)
        log(scaler.step(optimizer))
        scaler.update()
        log(p, p.grad, scaler.get_scale(), scaler.state_dict())


@program
def scaler_skips_infinite_gradients(torch, log):
    p, optimizer = one_parameter(torch)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(torch.ones(1))
    p.grad = torch.tensor([float("inf"), 1.0])
    log(scaler.step(optimizer), p, scaler._found_inf_per_device(optimizer))
    scaler.update()
    log(scaler.get_scale())
    p.grad = torch.tensor([float("nan"), 1.0])
    scaler.step(optimizer)
    scaler.update()
    log(scaler.get_scale(), p)


@program
def scaler_unscales_before_clipping(torch, log):
    p, optimizer = one_parameter(torch)
    scaler = torch.amp.GradScaler("cpu", init_scale=3.0)
    scaler.scale((p * 5).sum()).backward()
    log(p.grad)
    scaler.unscale_(optimizer)
    log(p.grad)
    torch.nn.utils.clip_grad_norm_([p], 1.0)
    scaler.step(optimizer)
    scaler.update()
    log(p)


@program
def scaler_of_structures(torch, log):
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    log(scaler.scale([torch.ones(2), (torch.ones(1),)]), scaler._scale, scaler._growth_tracker)
    log(scaler.scale(torch.ones(1, dtype=torch.float64)))
    log.raises(lambda: scaler.scale(3))


@program
def scaler_errors(torch, log):
    p, optimizer = one_parameter(torch)
    scaler = torch.amp.GradScaler("cpu")
    log.raises(lambda: scaler.unscale_(optimizer))
    log.raises(lambda: scaler.update())
    log.raises(lambda: scaler.step(optimizer))
    scaler.scale(torch.ones(1))
    log.raises(lambda: scaler.step(optimizer))
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(torch.ones(1))
    p.grad = torch.ones(2)
    scaler.unscale_(optimizer)
    log.raises(lambda: scaler.unscale_(optimizer))
    scaler.step(optimizer)
    log.raises(lambda: scaler.step(optimizer))
    log.raises(lambda: scaler.unscale_(optimizer))
    log.raises(lambda: scaler.step(optimizer, closure=lambda: 1))
    log.raises(lambda: scaler.load_state_dict({}))
    log.raises(lambda: torch.amp.GradScaler("cpu", growth_factor=1.0))
    log.raises(lambda: torch.amp.GradScaler("cpu", backoff_factor=1.0))
    half = torch.nn.Parameter(torch.ones(2, dtype=torch.float16))
    half.grad = torch.ones(2, dtype=torch.float16)
    log.raises(lambda: scaler.unscale_(torch.optim.SGD([half], lr=0.1)))


@program
def scaler_settings(torch, log):
    scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
    scaler.scale(torch.ones(1))
    scaler.update(3.0)
    log(scaler.get_scale())
    scaler.update(torch.tensor(4.0))
    log(scaler.get_scale())
    log.raises(lambda: scaler.update(torch.ones(2)))
    scaler.set_growth_factor(3.0)
    scaler.set_backoff_factor(0.25)
    scaler.set_growth_interval(7)
    log(scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval())
    other = torch.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    log(other.state_dict(), other.is_enabled())


@program
def disabled_scalers(torch, log):
    p, optimizer = one_parameter(torch)
    p.grad = torch.ones(2)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    log(scaler.scale(p.sum()), scaler.get_scale(), scaler.state_dict(), scaler.is_enabled())
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    scaler.load_state_dict({})
    log(p)
    log.warns(lambda: torch.amp.GradScaler().is_enabled())
    log.warns(lambda: torch.cuda.amp.GradScaler().is_enabled())
    log.warns(lambda: torch.cuda.amp.GradScaler(enabled=False).is_enabled())
    log.warns(lambda: torch.cpu.amp.GradScaler().is_enabled())


@program
def gradients_arrive_in_the_order_of_the_casts(torch, log):
    """A backward pass comes first to what was cast last, and arguments are cast from the right."""
    f = torch.nn.functional
    order = []
    leaves = {}
    for name, shape in (("w1", (4, 4)), ("b1", (4,)), ("w2", (4, 4)), ("b2", (4,)), ("x", (3, 4))):
        leaves[name] = grid(torch, *shape).requires_grad_()
        leaves[name].register_post_accumulate_grad_hook(lambda p, name=name: order.append(name))
    with torch.autocast("cpu"):
        hidden = f.linear(leaves["x"], leaves["w1"], leaves["b1"])
        out = f.linear(hidden, leaves["w2"], bias=leaves["b2"])
        again = torch.addmm(leaves["b1"], out, leaves["w1"])
        wide = torch.baddbmm(leaves["x"][None], again[None], leaves["w2"][None])
        loss = f.mse_loss(torch.stack([wide[0], leaves["x"]]), torch.ones(2, 3, 4))
    loss.backward()
    log(order)
    log(*[p.grad for p in leaves.values()])


@program
def gradients_have_the_dtype_of_what_they_belong_to(torch, log):
    f = torch.nn.functional
    functions = {
        "mul": lambda x: x * 0.5,
        "div": lambda x: x / 4.0,
        "rdiv": lambda x: 1.5 / (x + 2),
        "exp2": torch.exp2,
        "log2": lambda x: torch.log2(x + 2),
        "log10": lambda x: torch.log10(x + 2),
        "lerp": lambda x: torch.lerp(x, x * 2, 0.3),
        "std": torch.std,
        "mse": lambda x: f.mse_loss(x, x.detach() * 2),
        "huber": lambda x: f.huber_loss(x, x.detach() * 2),
        "softplus": f.softplus,
        "batch_norm": lambda x: f.batch_norm(
            x[None, :, None].expand(2, 3, 2), None, None, training=True
        ),
        "mixed": lambda x: x * torch.tensor([1.0, 2.0, 3.0]),
    }
    for name, function in functions.items():
        for dtype in (torch.bfloat16, torch.float16):
            seen = []
            x = torch.tensor([0.5, -1.25, 2.0], dtype=dtype, requires_grad=True)
            inner = x * 1
            inner.register_hook(lambda g, seen=seen: seen.append(g.dtype))
            out = function(inner)
            out.sum().backward()
            log(name, out.dtype, seen, x.grad.dtype)


@program
def bounds_in_half_precision(torch, log):
    """Some functions compare with a bound as the dtype has it, some in single precision."""
    f = torch.nn.functional
    functions = (
        lambda x: x.clamp(0.1, 0.3),
        lambda x: x.clamp(max=0.3),
        lambda x: x.clamp(min=0.1),
        lambda x: f.threshold(x, 0.1, 0.0),
        lambda x: f.hardshrink(x, 0.1),
        lambda x: f.hardtanh(x, 0.1, 0.3),
    )
    for dtype in (torch.bfloat16, torch.float16):
        for function in functions:
            x = torch.tensor([0.05, 0.1, 0.2, 0.3, 0.4], dtype=dtype, requires_grad=True)
            out = function(x)
            out.sum().backward()
            log(out.tolist(), x.grad.tolist())


@program
def a_hook_keeps_the_gradient_that_it_saw(torch, log):
    """The leaf's `.grad` is another tensor, even if the hook has removed itself."""
    kept = []
    w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    loss = (w * torch.tensor([1.0, 2.0, 3.0])).sum()
    leaf = loss.grad_fn.next_functions[0][0].next_functions[0][0]

    def hook(grads):
        kept.append(grads[0])
        handle.remove()

    handle = leaf.register_prehook(hook)
    loss.backward()
    w.grad.zero_()
    log(kept, w.grad)
