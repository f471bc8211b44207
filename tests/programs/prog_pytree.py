"""torch.utils._pytree: trees of containers."""

import collections
import dataclasses
import enum

from programs.harness import program

Point = collections.namedtuple("Point", "x y")
inspect_mode = enum.Enum("inspect_mode", "OPEN CLOSED", module=__name__)


def example():
    return {
        "b": [1, (2, None)],
        "a": Point(3, collections.OrderedDict(z=4, y=5)),
        "c": collections.deque([6], maxlen=3),
        "d": collections.defaultdict(list, {"k": 7}),
    }


def tree_module(torch):
    import importlib

    return importlib.import_module(f"{torch.__name__}.utils._pytree")


@program
def flatten_and_back(torch, log):
    pytree = tree_module(torch)
    leaves, spec = pytree.tree_flatten(example())
    log(leaves, repr(spec).replace("__main__", "programs.prog_pytree"))
    back = pytree.tree_unflatten([10 * (x or 0) for x in leaves], spec)
    log(repr(back))
    log(spec.num_nodes, spec.num_leaves, spec.num_children, spec.type.__name__, spec.context)
    log(spec == pytree.tree_structure(example()), spec.is_leaf(), spec != pytree.tree_structure(1))


@program
def leaves_alone(torch, log):
    pytree = tree_module(torch)
    for value in 1, None, "ab", (), [], {}, [[]], torch.ones(1):
        leaves, spec = pytree.tree_flatten(value)
        log(leaves, repr(spec))
    leaves, spec = pytree.tree_flatten(torch.max(torch.ones(2), 0))
    log(leaves, repr(spec), type(pytree.tree_unflatten(leaves, spec)).__name__)
    log(pytree.tree_leaves(torch.Size([2, 3])))


@program
def mapping(torch, log):
    pytree = tree_module(torch)
    log(pytree.tree_map(lambda x: 2 * x, [1, (2,), {"a": 3}]))
    log(pytree.tree_map(lambda a, b: a + b, [1, (2,)], [3, (4,)]))
    log(pytree.tree_map(lambda a, b: [a, b], [1, 2], [3, (4,)]))
    log(pytree.tree_map(lambda a, b: [a, b], {"a": 1, "b": 2}, {"b": 1, "a": 3}))
    log(pytree.tree_map_only(int, lambda x: -x, [1, "a", 2.0]))
    log(pytree.tree_map_only((int, float), lambda x: -x, [1, "a", 2.0]))
    log(pytree.tree_map_only(torch.Tensor, lambda t: t * 2, {"t": torch.ones(2), "n": 1}))
    log(pytree.tree_map_only(lambda x: x == 1, lambda x: "one", [1, 2]))
    log(pytree.map_only(int)(lambda x: -x)("a"), pytree.map_only(int)(lambda x: -x)(1))
    seen = []
    log(pytree.tree_map_(seen.append, [1, (2,)]), seen)
    log(pytree.tree_map(len, [(1, 2), [(3,)]], is_leaf=lambda x: isinstance(x, tuple)))


@program
def mapping_over_other_shapes(torch, log):
    pytree = tree_module(torch)

    def pair(a, b):
        return [a, b]

    log.raises(lambda: pytree.tree_map(pair, [1, (2,)], [3, 4]))
    log.raises(lambda: pytree.tree_map(pair, [1, 2], [3]))
    log.raises(lambda: pytree.tree_map(pair, [1, 2], (3, 4)))
    log.raises(lambda: pytree.tree_map(pair, {"a": 1}, {"b": 1}))
    log.raises(lambda: pytree.tree_unflatten([1], pytree.tree_structure([1, 2])))
    log.raises(lambda: pytree.tree_unflatten(3, pytree.tree_structure([1, 2])))


@program
def questions(torch, log):
    pytree = tree_module(torch)
    log(pytree.tree_all(lambda x: x > 0, [1, 2]), pytree.tree_any(lambda x: x > 2, [1, (2,)]))
    log(pytree.tree_all_only(int, lambda x: x > 0, [1, "a"]))
    log(pytree.tree_any_only(int, lambda x: x > 1, [1, "a"]))
    log(pytree.tree_leaves(example()), list(pytree.tree_iter([1, (2,)])))
    log(pytree.arg_tree_leaves(1, (2, 3), a=[4]))
    log(pytree.tree_is_leaf(1), pytree.tree_is_leaf([1]))
    log(pytree.tree_leaves([1, (2,)], is_leaf=lambda x: isinstance(x, tuple)))


@program
def ways_to_leaves(torch, log):
    pytree = tree_module(torch)
    found, spec = pytree.tree_flatten_with_path(example())
    log([[pytree.keystr(way), leaf] for way, leaf in found], spec.num_leaves)
    log([repr(way) for way, _ in found])
    log(pytree.tree_map_with_path(lambda way, x: pytree.keystr(way), [1, {"a": 2}]))
    log([pytree.key_get(example(), way) for way, _ in found])


@program
def broadcasting(torch, log):
    pytree = tree_module(torch)
    spec = pytree.tree_structure([1, (2, 3)])
    log(pytree._broadcast_to_and_flatten(1, spec), pytree._broadcast_to_and_flatten([1, 2], spec))
    log(pytree._broadcast_to_and_flatten([1, 2, 3], spec))
    log(spec.flatten_up_to([1, ([2], 3)]), [repr(s) for s in spec.children()], repr(spec.child(1)))


@program
def own_classes(torch, log):
    pytree = tree_module(torch)

    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    log([type(x).__name__ for x in pytree.tree_leaves(Pair(1, 2))])
    pytree.register_pytree_node(
        Pair, lambda p: ([p.a, p.b], "context"), lambda values, context: Pair(*values)
    )
    made = pytree.tree_map(lambda x: x + 1, Pair(1, [2]))
    log(made.a, made.b, repr(pytree.tree_structure(made)))
    log.raises(lambda: pytree.tree_flatten_with_path(made) and None)


@program
def dataclasses_as_nodes(torch, log):
    pytree = tree_module(torch)

    @dataclasses.dataclass
    class Data:
        a: int
        b: list
        c: int = None

    pytree.register_dataclass(Data)
    leaves, spec = pytree.tree_flatten(Data(1, [2]))
    log(leaves, repr(spec))
    made = pytree.tree_map(lambda x: 2 * x, Data(1, [2], 3))
    log(made.a, made.b, made.c)


@program
def shapes_as_text(torch, log):
    pytree = tree_module(torch)
    spec = pytree.tree_structure([1, (2, {"a": 3}), collections.OrderedDict(k=4)])
    text = pytree.treespec_dumps(spec)
    log(text, pytree.treespec_loads(text) == spec)


@program
def gradients_through_trees(torch, log):
    pytree = tree_module(torch)
    parameters = {"w": torch.ones(2, requires_grad=True), "b": [torch.zeros(1, requires_grad=True)]}
    leaves, spec = pytree.tree_flatten(parameters)
    loss = (parameters["w"] * 3).sum() + parameters["b"][0].sum()
    log(pytree.tree_unflatten(torch.autograd.grad(loss, leaves), spec))


@program
def classes_of_constants(torch, log):
    tree = torch.utils._pytree

    @dataclasses.dataclass(frozen=True)
    class Name:
        text: str

    class Unhashed:
        def __eq__(self, other):
            return True

    tree.register_constant(Name)
    leaves, spec = tree.tree_flatten([Name("a"), 2])
    log(leaves, tree.is_constant_class(Name), tree.is_constant_class(int))
    log(tree.tree_unflatten([5], spec) == [Name("a"), 5])
    log(spec == tree.tree_structure([Name("a"), 3]), spec == tree.tree_structure([Name("b"), 2]))
    log(tree.tree_map(lambda x: x + 1, (Name("a"), 1)) == (Name("a"), 2))
    log.raises(lambda: tree.register_constant(type("Plain", (), {})))
    log.raises(lambda: tree.register_constant(Unhashed))


@program
def shapes_with_namedtuples_and_enums_as_json(torch, log):
    tree = tree_module(torch)
    unnamed = tree.tree_structure(Point(1, [2]))
    log.raises(lambda: tree.treespec_dumps(unnamed))
    pair = collections.namedtuple("pair", "a b")
    tree._register_namedtuple(pair, serialized_type_name="programs.pair")
    spec = tree.tree_structure({"k": pair(1, (2, [3]))})
    text = tree.treespec_dumps(spec)
    log(text, tree.treespec_loads(text) == spec)
    log.raises(lambda: tree.treespec_loads(text.replace("pair", "unknown")))
    modes = {inspect_mode.CLOSED: 1, inspect_mode.OPEN: [2]}
    text = tree.treespec_dumps(tree.tree_structure(modes))
    log(text, tree.treespec_loads(text) == tree.tree_structure(modes))
    log.raises(lambda: tree.treespec_dumps(tree.tree_structure({object: 1})))
