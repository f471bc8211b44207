"""The names around the library: switches, jit and compile, backends, overrides, versions."""

import copy
from typing import Optional

from programs.harness import program


@program
def threads(torch, log):
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    log(torch.get_num_threads())
    torch.set_num_threads(before)
    for value in 0, "a", 1.0, True:
        log.raises(lambda value=value: torch.set_num_threads(value))
    log.raises(lambda: torch.set_num_interop_threads(0))


@program
def determinism(torch, log):
    log(torch.are_deterministic_algorithms_enabled(), torch.get_deterministic_debug_mode())
    torch.use_deterministic_algorithms(True, warn_only=True)
    log(torch.are_deterministic_algorithms_enabled(), torch.get_deterministic_debug_mode())
    log(torch.is_deterministic_algorithms_warn_only_enabled())
    torch.set_deterministic_debug_mode("error")
    log(torch.get_deterministic_debug_mode())
    torch.set_deterministic_debug_mode(0)
    log(torch.are_deterministic_algorithms_enabled())
    log.raises(lambda: torch.use_deterministic_algorithms(3))
    for value in "x", 3, 1.5:
        log.raises(lambda value=value: torch.set_deterministic_debug_mode(value))


@program
def precision(torch, log):
    log(torch.get_float32_matmul_precision())
    torch.set_float32_matmul_precision("high")
    log(torch.get_float32_matmul_precision())
    torch.set_float32_matmul_precision("highest")
    log.raises(lambda: torch.set_float32_matmul_precision(3))
    log.warns(lambda: torch.set_float32_matmul_precision("x"))
    log(torch.get_float32_matmul_precision())
    log.raises(lambda: torch.set_flush_denormal(3))


@program
def names_of_types(torch, log):
    values = 3, [], torch.ones(2), torch.ones(2).long(), torch.nn.Linear(1, 1), torch.float32
    log([torch.typename(v) for v in values])
    log(torch.typename(torch.nn.Linear), torch.typename(len), torch.typename(torch.nn))
    log(torch.typename(torch.nn.Parameter(torch.ones(1))))
    log(torch.is_storage(torch.ones(1).untyped_storage()), torch.is_storage(3))


@program
def versions_compare(torch, log):
    version = torch.__version__
    log(version >= "1.8", version < "2.2.0", version >= "2.10", version >= (2, 0), version > "3")
    log(version.split("+")[0], isinstance(version, str), version.startswith("2."))
    log([int(part) for part in version.split("+")[0].split(".")[:2]])
    kind = torch.torch_version.TorchVersion
    log(kind("1.10.0") > "1.9", kind("1.10.0a0") < "1.10.0", kind("1.10") == "1.10.0")
    log(kind("2.0.1") >= (2, 0, 1), kind("2.0.1") <= "2.0", kind("2.0") != "2.1")
    log(torch.version.cuda, torch.version.hip, torch.version.debug)


@program
def questions_as_functions(torch, log):
    x = torch.ones(2)
    log(torch.is_signed(x), torch.is_signed(x.to(torch.uint8)), torch.is_conj(x), torch.is_neg(x))
    log(torch.is_inference(x), torch.get_device(x), torch.is_distributed(x))
    log(torch.is_same_size(x, x), torch.is_same_size(x, x[:1]))
    y = x.clone().requires_grad_()
    log(torch.detach(y), torch.detach_(y * 2))
    log.raises(lambda: torch.is_signed(3))
    log.raises(lambda: torch.detach(3))


@program
def plain_numbers_in_symbolic_functions(torch, log):
    log(torch.sym_int(3.7), torch.sym_float(2), torch.sym_not(True), torch.sym_ite(True, 1, 2))
    log(torch.sym_max(1, 2.0), torch.sym_min(1, 2.0), torch.sym_max(3, 2), torch.sym_sum([1, 2]))
    log(isinstance(3, torch.SymInt), isinstance(True, torch.SymBool))


@program
def types_for_annotations(torch, log):
    from_types = torch.types
    log(isinstance(3, from_types._Number), isinstance("a", from_types._Number))
    log(from_types._int is int, from_types._dtype is torch.dtype, from_types.Tensor is torch.Tensor)
    log(isinstance(torch.max(torch.ones(2), 0), torch.return_types.max))


# --- jit and compile -------------------------------------------------------------------------


@program
def scripted_functions_run(torch, log):
    def double(x):
        return 2 * x

    log(torch.jit.script(double)(torch.ones(2)))
    log(torch.jit.trace(double, torch.zeros(2))(torch.ones(2)))
    log(torch.jit.script_if_tracing(double)(torch.ones(2)))
    log(torch.jit.is_scripting(), torch.jit.is_tracing())
    log(torch.jit.ignore(double) is double, torch.jit.unused(double) is double)
    log(torch.jit.export(double) is double, torch.jit.ignore(drop=False)(double) is double)
    log.raises(lambda: torch.jit.script(3))


@program
def scripted_modules_run(torch, log):
    class Model(torch.nn.Module):
        scale: torch.jit.Final[int]

        def __init__(self):
            super().__init__()
            self.scale = 3

        def forward(self, x):
            return self.helper(x) * self.scale

        @torch.jit.export
        def helper(self, x):
            return x + 1

        @torch.jit.ignore
        def left_out(self, x):
            return x.numpy()

    log(torch.jit.trace(Model(), torch.zeros(2))(torch.ones(2)))
    log(
        issubclass(torch.jit.ScriptModule, torch.nn.Module), isinstance(3, torch.jit.ScriptFunction)
    )
    log.raises(lambda: torch.jit.freeze(torch.jit.trace(Model(), torch.zeros(1)).train()) and None)


@program
def hints_for_jit(torch, log):
    log(torch.jit.annotate(list[int], [1]), torch.jit.Attribute(3, int))
    is_a = torch.jit.isinstance
    log(is_a([1], list[int]), is_a([1, "a"], list[int]), is_a({1: "a"}, dict[int, str]))
    log(is_a((1, "a"), tuple[int, str]), is_a(3, (int, str)))
    log(is_a(None, Optional[int]))  # noqa: UP045 (as programs write it)
    log(is_a([torch.ones(1)], list[torch.Tensor]), is_a((1, 2), list[int]))
    log(torch.jit.wait(torch.jit.fork(lambda x: x + 1, torch.ones(1))))


@program
def compiled_functions_run(torch, log):
    def double(x):
        return 2 * x

    log(torch.compile(double, backend="eager")(torch.ones(2)))
    log(torch.compile(backend="eager")(double)(torch.ones(2)))
    log(torch.compile(torch.nn.Identity(), backend="eager")(torch.ones(2)))
    log.raises(lambda: torch.compile(double, mode="x"))
    log.raises(lambda: torch.compile(double, mode="default", options={}))
    log(torch.compiler.is_compiling(), torch.compiler.is_dynamo_compiling())
    log(torch.compiler.disable(double)(torch.ones(2)))
    log(torch.compiler.allow_in_graph(double) is double)
    log(torch.compiler.assume_constant_result(double) is double)
    log.raises(lambda: torch.compiler.allow_in_graph(3))


@program
def compiled_modules_look_like_modules(torch, log):
    nn = torch.nn
    inner = nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.5))
    inner.note = 7
    outer = torch.compile(inner, backend="eager")
    log(type(outer).__name__, repr(outer), outer._orig_mod is inner, isinstance(outer, nn.Module))
    log(list(outer.state_dict()), [name for name, _ in outer.named_parameters()])
    log([name for name, _ in outer.named_modules()], [name for name, _ in outer.named_children()])
    outer.other = 3
    log(outer.note, inner.other, "other" in vars(outer), hasattr(outer, "0"))
    log.raises(lambda: outer.nothing)
    outer.eval()
    log(outer.training, inner.training, inner[1].training)
    inner.train()
    log(outer.training)
    log(outer.load_state_dict(outer.state_dict()))
    log.raises(lambda: outer.load_state_dict(inner.state_dict()))
    copied = copy.deepcopy(outer)
    log(type(copied).__name__, copied._orig_mod is inner, copied._orig_mod.note)
    called = []
    outer.register_forward_hook(lambda module, args, out: called.append(type(module).__name__))
    inner.register_forward_hook(lambda module, args, out: called.append(type(module).__name__))
    outer(torch.ones(1, 2))
    log(called)
    log(inner._compiled_call_impl, inner.compile(backend="eager"), list(inner.state_dict()))
    log(copy.deepcopy(inner)._compiled_call_impl)


# --- backends and devices --------------------------------------------------------------------


@program
def backends_answer(torch, log):
    backends = torch.backends
    log(backends.cudnn.is_available(), backends.cudnn.version(), backends.cudnn.enabled)
    log(backends.mps.is_available(), backends.mps.is_built(), backends.cuda.is_built())
    log(backends.cudnn.benchmark, backends.cudnn.deterministic, backends.cudnn.allow_tf32)
    backends.cudnn.benchmark = True
    log(backends.cudnn.benchmark)
    backends.cudnn.benchmark = False
    with backends.cudnn.flags(enabled=False):
        log(backends.cudnn.enabled)
    log(backends.cudnn.enabled, backends.mkldnn.enabled)
    log(backends.cuda.matmul.allow_tf32)
    backends.cuda.matmul.allow_tf32 = True
    log(backends.cuda.matmul.allow_tf32)
    backends.cuda.matmul.allow_tf32 = False
    log(backends.cuda.matmul.fp32_precision)
    log.raises(lambda: backends.cuda.matmul.something)
    log.raises(lambda: setattr(backends.cuda.matmul, "something", 1))
    log(backends.cuda.flash_sdp_enabled(), backends.cuda.math_sdp_enabled())
    log.warns(lambda: backends.cuda.sdp_kernel().__enter__())


@program
def precision_of_products(torch, log):
    matmul = torch.backends.cuda.matmul
    matmul.allow_tf32 = True
    log(matmul.fp32_precision, torch.get_float32_matmul_precision())
    torch.set_float32_matmul_precision("medium")
    log(matmul.allow_tf32, matmul.fp32_precision)
    matmul.fp32_precision = "ieee"
    log(matmul.fp32_precision, torch.get_float32_matmul_precision())
    log.raises(lambda: matmul.allow_tf32)
    torch.set_float32_matmul_precision("highest")
    log(matmul.allow_tf32, matmul.fp32_precision)
    matmul.fp32_precision = "tf32"
    log.raises(lambda: matmul.allow_tf32)
    log.raises(torch.get_float32_matmul_precision)
    log.raises(lambda: setattr(matmul, "fp32_precision", "bf16"))
    log.raises(lambda: setattr(matmul, "fp32_precision", "float"))
    log.raises(lambda: setattr(matmul, "allow_tf32", 1))
    matmul.fp32_precision = "none"
    log(matmul.allow_tf32, torch.get_float32_matmul_precision())


@program
def devices_answer(torch, log):
    log(torch.cpu.is_available(), torch.cpu.device_count(), torch.cpu.current_device())
    torch.cpu.synchronize()
    log(torch.accelerator.is_available(), torch.accelerator.device_count())
    log(torch.accelerator.current_accelerator(), torch.is_vulkan_available())
    log.raises(lambda: torch.accelerator.synchronize())
    log(torch.get_device_module("cpu") is torch.cpu)
    log(torch.get_default_device())
    torch.set_default_device("cpu")
    log(torch.get_default_device(), torch.ones(1).device)
    torch.set_default_device(None)


@program
def nothing_is_distributed(torch, log):
    log(torch.distributed.is_initialized(), torch.distributed.is_nccl_available())
    log.raises(lambda: torch.distributed.get_rank())
    log.raises(lambda: torch.distributed.get_world_size())
    log.raises(lambda: torch.distributed.barrier())
    log.raises(lambda: torch.distributed.all_reduce(torch.ones(1)))
    log.raises(lambda: torch.distributed.broadcast(torch.ones(1), 0))
    log.raises(lambda: torch.distributed.all_gather([], torch.ones(1)))
    log.raises(lambda: torch.distributed.destroy_process_group())
    log.raises(lambda: torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1)))


@program
def data_parallel(torch, log):
    model = torch.nn.DataParallel(torch.nn.Linear(2, 1))
    log(repr(model), list(model.state_dict()), model.device_ids)
    with torch.no_grad():
        model.module.weight.copy_(torch.tensor([[1.0, 2.0]]))
        model.module.bias.zero_()
    log(model(torch.ones(3, 2)))


@program
def sharing_strategies(torch, log):
    log(torch.multiprocessing.get_sharing_strategy())
    log(sorted(torch.multiprocessing.get_all_sharing_strategies()))
    torch.multiprocessing.set_sharing_strategy("file_system")
    log(torch.multiprocessing.get_sharing_strategy())
    torch.multiprocessing.set_sharing_strategy("file_descriptor")
    # The set is shown in an order that changes from run to run.
    try:
        torch.multiprocessing.set_sharing_strategy("x")
    except AssertionError as error:
        log(str(error).partition("{")[0])


# --- overrides -------------------------------------------------------------------------------


def duck():
    class Duck:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return [func.__name__, [t.__name__ for t in types]]

    return Duck()


@program
def objects_answer_functions(torch, log):
    a, x = duck(), torch.ones(2)
    log(torch.add(a, 1), torch.sum(a), torch.cat([a, x]), torch.matmul(x, a), torch.exp(a))
    log(x + a, x * a, x - a, x @ a, x == a, x.add(a))
    log(torch.stack((x, a)), torch.where(x > 0, a, x))


@program
def objects_that_decline(torch, log):
    class Declines:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    overrides = torch.overrides

    def asked():
        return overrides.handle_torch_function(torch.add, (Declines(),), Declines(), 1)

    try:
        asked()
    except TypeError as error:
        log(str(error).partition(":")[0])
    log.raises(lambda: torch.ones(1) + object())


@program
def who_overrides(torch, log):
    overrides = torch.overrides
    a, x = duck(), torch.ones(2)

    class Mine(torch.Tensor):
        pass

    log(overrides.has_torch_function((x, 1)), overrides.has_torch_function((x, a)))
    log(overrides.has_torch_function_unary(a), overrides.has_torch_function_variadic(1, a))
    log(overrides.has_torch_function((Mine([1.0]),)))
    log(overrides.has_torch_function((torch.nn.Parameter(x),)))
    log(overrides.is_tensor_like(x), overrides.is_tensor_like(a), overrides.is_tensor_like(3))
    log(overrides.resolve_name(torch.add), overrides.resolve_name(torch.Tensor.add))
    log(overrides.is_tensor_method_or_property(torch.Tensor.add))
    log(overrides.handle_torch_function(torch.add, (x, a), x, a))
    log(torch.add in overrides.get_overridable_functions()[torch])


# --- the rest --------------------------------------------------------------------------------


@program
def random_states(torch, log):
    torch.manual_seed(3)
    log(torch.initial_seed(), torch.random.initial_seed())
    state = torch.random.get_rng_state()
    first = torch.rand(2)
    torch.random.set_rng_state(state)
    log(first, torch.rand(2))
    with torch.random.fork_rng(devices=[]):
        torch.rand(100)
    log(torch.rand(1))
    with torch.random.fork_rng(enabled=False):
        torch.rand(100)
    log(torch.rand(1), torch.seed() == torch.initial_seed())
    log.raises(lambda: torch.random.fork_rng(devices=[0]).__enter__())
    log.raises(lambda: torch.random.fork_rng(device_type="foo").__enter__())


@program
def schedules_of_profilers(torch, log):
    schedule = torch.profiler.schedule
    log([schedule(wait=1, warmup=1, active=2, repeat=1)(i).name for i in range(6)])
    log([schedule(wait=1, warmup=0, active=1, skip_first=2)(i).name for i in range(6)])
    log([schedule(wait=2, warmup=1, active=1)(i).name for i in range(8)])


@program
def profiles_count(torch, log):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        with torch.profiler.record_function("block"):
            for _ in range(3):
                torch.mm(torch.ones(2, 2), torch.ones(2, 2))
    counts = {event.key: event.count for event in prof.key_averages()}
    log(counts["block"], counts["aten::mm"])
    text = prof.key_averages().table(sort_by="cpu_time_total", row_limit=1)
    log(text.splitlines()[1].split(), text.splitlines()[3].split()[0], len(text.splitlines()))


@program
def names_of_the_inner_module(torch, log):
    log(torch._C._get_tracing_state(), torch._C._log_api_usage_once("mine"))
    log(torch._C._nn.softplus(torch.zeros(1)))
    x = torch.ones(2)
    log(x.to_dense() is x, x.to_dense(torch.float64))
