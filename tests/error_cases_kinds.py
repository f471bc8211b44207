"""The cases of E10 (dtypes), E11 (arrays), E15 (what is not there), E16 (models)."""

from __future__ import annotations

from typing import Any

from error_cases import Case


def case(
    id: str,
    about: str,
    source: str,
    sentence: str,
    tensor: str | None,
    cure: str,
    raises: str = "RuntimeError",
    **facts: Any,
) -> Case:
    return Case(id, about, source, sentence, tensor, cure, facts, raises)


NUMPY = "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."

CASES = [
    # ------------------------------------------------------------------ E10
    case(
        "E10",
        "float64 data and a float32 layer",
        """
        import numpy as np

        net = torch.nn.Sequential(torch.nn.Linear(2, 1))
        x = torch.from_numpy(np.ones((3, 2)))
        net(x)  #: noticed
        """,
        "mat1 and mat2 must have the same dtype, but got Double and Float",
        "x",
        "x.float()",
        module="net.0 (Linear 2 -> 1)",
        dtypes={"input": "torch.float64", "weight": "torch.float32", "bias": "torch.float32"},
    ),
    case(
        "E10",
        "integers into a layer",
        """
        fc = torch.nn.Linear(2, 1)
        counts = torch.tensor([[1, 2], [3, 4]])
        fc(counts)  #: noticed
        """,
        "mat1 and mat2 must have the same dtype, but got Long and Float",
        "counts",
        "counts.float()",
    ),
    case(
        "E10",
        "a product of two dtypes, and where one was made",
        """
        w = torch.ones(2, 2, requires_grad=True)
        a = w.double() * 2  #: made
        b = torch.ones(2, 2)
        a @ b  #: noticed
        """,
        "expected m1 and m2 to have the same dtype, but got: double != float",
        "a",
        "a.float()",
    ),
    case(
        "E10",
        "batches of two dtypes",
        """
        a, b = torch.ones(1, 2, 2), torch.ones(1, 2, 2, dtype=torch.float64)
        torch.bmm(a, b)  #: noticed
        """,
        "expected scalar type Float but found Double",
        "b",
        "b.float()",
    ),
    case(
        "E10",
        "a convolution",
        """
        conv = torch.nn.Conv2d(1, 1, 1)
        image = torch.ones(1, 1, 2, 2, dtype=torch.uint8)
        conv(image)  #: noticed
        """,
        "Input type (unsigned char) and bias type (float) should be the same",
        "image",
        "image.float()",
    ),
    case(
        "E10",
        "labels that are floats",
        """
        scores, labels = torch.ones(4, 3), torch.zeros(4)
        torch.nn.functional.cross_entropy(scores, labels)  #: noticed
        """,
        "expected target dtype to be Long or Byte, but got Float",
        "labels",
        "labels.long()",
    ),
    case(
        "E10",
        "one-hot labels that are integers",
        """
        scores, labels = torch.ones(2, 3), torch.tensor([[1, 0, 0], [0, 1, 0]])
        torch.nn.functional.cross_entropy(scores, labels)  #: noticed
        """,
        "Expected floating point type for target with class probabilities, got Long",
        "labels",
        "labels.float()",
    ),
    case(
        "E10",
        "binary labels that are integers",
        """
        p, labels = torch.ones(4), torch.tensor([0, 1, 1, 0])
        torch.nn.functional.binary_cross_entropy(p, labels)  #: noticed
        """,
        "Found dtype Long but expected Float",
        "labels",
        "labels.float()",
    ),
    case(
        "E10",
        "words that are floats",
        """
        embedding = torch.nn.Embedding(5, 2)
        words = torch.tensor([0.0, 1.0])
        embedding(words)  #: noticed
        """,
        "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
        "Long, Int; but got torch.FloatTensor instead (while checking arguments for embedding)",
        "words",
        "words.long()",
    ),
    case(
        "E10",
        "classes that are floats",
        """
        classes = torch.tensor([0.0, 1.0])
        torch.nn.functional.one_hot(classes)  #: noticed
        """,
        "one_hot is only applicable to index tensor of type LongTensor.",
        "classes",
        "classes.long()",
    ),
    case(
        "E10",
        "an index that is a float",
        """
        x, where = torch.ones(3), torch.tensor([0.0, 1.0])
        x[where]  #: noticed
        """,
        "tensors used as indices must be long, int, byte or bool tensors",
        "where",
        "where.long()",
        "IndexError",
    ),
    case(
        "E10",
        "gather with floats",
        """
        x, at = torch.ones(3), torch.tensor([0.0, 1.0])
        x.gather(0, at)  #: noticed
        """,
        "gather(): Expected dtype int32/int64 for index",
        "at",
        "at.long()",
    ),
    case(
        "E10",
        "dividing integers in place",
        """
        pixels = torch.tensor([0, 255])
        pixels /= 255  #: noticed
        """,
        "result type Float can't be cast to the desired output type Long",
        "pixels",
        "pixels = pixels.float()",
    ),
    case(
        "E10",
        "dropout of integers",
        """
        x = torch.tensor([1, 2])
        torch.nn.functional.binary_cross_entropy_with_logits(torch.ones(2), x)  #: noticed
        """,
        "result type Float can't be cast to the desired output type Long",
        "x",
        "x.float()",
    ),
    case(
        "E10",
        "the mean of integers",
        """
        x = torch.tensor([1, 2])
        x.mean()  #: noticed
        """,
        "mean(): could not infer output dtype. Input dtype must be either a floating point or "
        "complex dtype. Got: Long",
        "x",
        "x.float()",
    ),
    case(
        "E10",
        "integers that should require grad",
        """
        x = torch.tensor([1, 2], requires_grad=True)  #: noticed
        """,
        "Only Tensors of floating point and complex dtype can require gradients",
        None,
        "1.0 for 1",
    ),
    case(
        "E10",
        "requires_grad_() of integers",
        """
        x = torch.tensor([1, 2])
        x.requires_grad_()  #: noticed
        """,
        "only Tensors of floating point dtype can require gradients",
        "x",
        "x.float().requires_grad_()",
    ),
    case(
        "E10",
        "assigning another dtype by index",
        """
        x, value = torch.ones(3), torch.ones(1, dtype=torch.float64)
        x[torch.tensor([0])] = value  #: noticed
        """,
        "Index put requires the source and destination dtypes match, got Float for the "
        "destination and Double for the source.",
        "value",
        "value.float()",
    ),
    case(
        "E10",
        "a mask that is a float",
        """
        x, mask = torch.ones(3), torch.ones(3)
        x.masked_fill(mask, 0.0)  #: noticed
        """,
        "masked_fill_ only supports boolean masks, but got mask with dtype float",
        "mask",
        "mask.bool()",
    ),
    case(
        "E10",
        "an LSTM",
        """
        lstm = torch.nn.LSTM(2, 2)
        x = torch.ones(3, 1, 2, dtype=torch.float64)
        lstm(x)  #: noticed
        """,
        "RNN input dtype (torch.float64) does not match weight dtype (torch.float32). Convert "
        "input: input.to(torch.float32), or convert model: model.to(torch.float64)",
        "x",
        "x.float()",
        "ValueError",
    ),
    # ------------------------------------------------------------------ E11
    case(
        "E11",
        "numpy() of an output",
        """
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        y = w * 2  #: made
        y.numpy()  #: noticed
        """,
        NUMPY,
        "y",
        "y.detach().numpy()",
        library="",
    ),
    case(
        "E11",
        "a NumPy function of a parameter",
        """
        import numpy as np

        w = torch.tensor([1.0, 2.0], requires_grad=True)
        np.linalg.norm(w)  #: noticed
        """,
        NUMPY,
        "w",
        "w.detach()",
        library="numpy",
    ),
    # ------------------------------------------------------------------ E15
    case(
        "E15",
        "softmax of integers",
        """
        votes = torch.tensor([1, 2, 3])
        torch.softmax(votes, 0)  #: noticed
        """,
        "\"softmax_lastdim_kernel_impl\" not implemented for 'Long'",
        "votes",
        "softmax(votes.float())",
        "NotImplementedError",
        nearest="softmax(votes.float())",
    ),
    case(
        "E15",
        "an inverse in half precision",
        """
        m = torch.eye(2, dtype=torch.half)
        torch.linalg.inv(m)  #: noticed
        """,
        "linalg.inv: Low precision dtypes not supported. Got Half",
        "m",
        "inv(m.float()), and .half() for the result",
    ),
    case(
        "E15",
        "no derivative: floor_divide",
        """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = torch.floor_divide(x, 2)  #: used
        y.sum().backward()  #: noticed
        """,
        "derivative for aten::floor_divide is not implemented",
        None,
        "torch.div",
        op="floor_divide",
    ),
    case(
        "E15",
        "no derivative: geqrf",
        """
        m = torch.ones(2, 2, requires_grad=True)
        a, tau = torch.geqrf(m)  #: used
        a.sum().backward()  #: noticed
        """,
        "the derivative for 'geqrf' is not implemented.",
        None,
        "torch.linalg.qr",
        "NotImplementedError",
        op="geqrf",
    ),
    case(
        "E15",
        "no derivative for one of the arguments",
        """
        a = torch.ones(2, requires_grad=True)
        y = torch.igamma(a, torch.ones(2))  #: used
        y.sum().backward()  #: noticed
        """,
        "the derivative for 'igamma: input' is not implemented.",
        None,
        "nearest",
        "NotImplementedError",
        argument="input",
    ),
    case(
        "E15",
        "no rule for tangents",
        """
        m = torch.ones(2, 2)
        torch.func.jvp(lambda x: torch.geqrf(x)[0], (m,), (m,))  #: noticed
        """,
        "Trying to use forward AD with geqrf that does not support it because it has not been "
        "implemented yet.",
        "x",
        "reverse mode",
        "NotImplementedError",
        op="geqrf",
    ),
    case(
        "E15",
        "a name that is misspelt",
        """
        torch.nn.functional.cross_entropi  #: noticed
        """,
        "module 'torch.nn.functional' has no attribute 'cross_entropi'",
        None,
        "torch.nn.functional.cross_entropy",
        "AttributeError",
        nearest=["torch.nn.functional.cross_entropy"],
    ),
    case(
        "E15",
        "a name of another module",
        """
        torch.cross_entropy  #: noticed
        """,
        "module 'torch' has no attribute 'cross_entropy'",
        None,
        "torch.nn.functional.cross_entropy",
        "AttributeError",
    ),
    case(
        "E15",
        "a layer that is misspelt",
        """
        torch.nn.linear(2, 3)  #: noticed
        """,
        "module 'torch.nn' has no attribute 'linear'",
        None,
        "torch.nn.Linear",
        "AttributeError",
    ),
    case(
        "E15",
        "an optimizer that is misspelt",
        """
        torch.optim.Sgd  #: noticed
        """,
        "module 'torch.optim' has no attribute 'Sgd'",
        None,
        "torch.optim.SGD",
        "AttributeError",
    ),
    # ------------------------------------------------------------------ E16
    case(
        "E16",
        "an attribute that is misspelt",
        """
        layer = torch.nn.Linear(2, 3)
        layer.wieght  #: noticed
        """,
        "'Linear' object has no attribute 'wieght'",
        None,
        ".weight",
        "AttributeError",
        name="wieght",
    ),
    case(
        "E16",
        "a model that forgets super().__init__()",
        """
        class Net(torch.nn.Module):
            def __init__(self):
                self.layer = torch.nn.Linear(2, 3)  #: noticed

        Net()
        """,
        "cannot assign module before Module.__init__() call",
        None,
        "super().__init__() first in Net.__init__",
        "AttributeError",
    ),
    case(
        "E16",
        "a generator that was used up",
        """
        net = torch.nn.Linear(2, 3)
        params = net.parameters()
        print(sum(p.numel() for p in params))
        torch.optim.SGD(params, lr=0.1)  #: noticed
        """,
        "optimizer got an empty parameter list",
        None,
        ".parameters() again",
        "ValueError",
    ),
    case(
        "E16",
        "layers in a plain list",
        """
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = [torch.nn.Linear(2, 3)]

        torch.optim.SGD(Net().parameters(), lr=0.1)  #: noticed
        """,
        "optimizer got an empty parameter list",
        None,
        "ModuleList",
        "ValueError",
    ),
    case(
        "E16",
        "an optimizer for a model",
        """
        net = torch.nn.Linear(2, 3)
        torch.optim.SGD(net, lr=0.1)  #: noticed
        """,
        "'Linear' object is not iterable",
        None,
        "pass net.parameters()",
        "TypeError",
    ),
    case(
        "E16",
        "an optimizer for a model that can be gone through",
        """
        net = torch.nn.Sequential(torch.nn.Linear(2, 3))
        torch.optim.SGD(net, lr=0.1)  #: noticed
        """,
        "optimizer can only optimize Tensors, but one of the params is "
        "torch.nn.modules.linear.Linear",
        None,
        "pass net.parameters()",
        "TypeError",
    ),
    case(
        "E16",
        "a method that was not called",
        """
        net = torch.nn.Linear(2, 3)
        torch.optim.SGD(net.parameters, lr=0.1)  #: noticed
        """,
        "'method' object is not iterable",
        None,
        ".parameters()",
        "TypeError",
    ),
    case(
        "E16",
        "an optimizer for a result",
        """
        w = torch.ones(2, requires_grad=True) * 2
        torch.optim.SGD([w], lr=0.1)  #: noticed
        """,
        "can't optimize a non-leaf Tensor",
        None,
        "the leaf",
        "ValueError",
    ),
]
