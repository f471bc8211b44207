"""The examples in the docstrings of layers, and that layers load no ops before they are used."""

import doctest
import inspect
import re
import subprocess
import sys

import pytest

import tapegrad
from tapegrad import nn

CLASSES = {
    name: value
    for name in nn.__all__
    if isinstance(value := getattr(nn, name), type) and value.__module__.startswith("tapegrad.nn")
}


EVERYDAY = """
    Linear Conv1d Conv2d Conv3d ConvTranspose2d MaxPool2d AvgPool2d AdaptiveAvgPool2d BatchNorm1d
    BatchNorm2d LayerNorm GroupNorm RMSNorm InstanceNorm2d Dropout Dropout2d Embedding RNN LSTM GRU
    LSTMCell GRUCell MultiheadAttention Transformer TransformerEncoder TransformerEncoderLayer
    Flatten Upsample ReLU LeakyReLU ELU GELU SiLU Softmax LogSoftmax Softplus PReLU MSELoss L1Loss
    SmoothL1Loss HuberLoss CrossEntropyLoss NLLLoss BCELoss BCEWithLogitsLoss KLDivLoss CTCLoss
    TripletMarginLoss CosineSimilarity Bilinear
""".split()


@pytest.mark.parametrize("name", EVERYDAY)
def test_help_says_arguments_shapes_and_an_example(name):
    text = inspect.cleandoc(CLASSES[name].__doc__)
    assert "\n\nShape:\n" in text and "\n>>> " in text
    told = text.partition("\n\nArgs:\n")[2].partition("\n\n")[0]
    named = re.findall(r"^    (\w+(?:, \w+)*): ", told, re.M)
    described = {each for group in named for each in group.split(", ")}
    taken = set(inspect.signature(CLASSES[name]).parameters) - {"args", "kwargs"}
    taken = {each for each in taken if not each.startswith("_")}
    assert described == taken if taken else {"input_size", "hidden_size"} < described


@pytest.mark.filterwarnings("ignore::FutureWarning")  # old names have examples too
@pytest.mark.parametrize("name", CLASSES)
def test_examples(name):
    text = inspect.cleandoc(CLASSES[name].__doc__ or "")
    used = ("arange", "float64", "log_softmax", "ones", "rand", "tensor", "zeros")
    names = {n: getattr(tapegrad, n) for n in used}
    names |= {"nn": nn, "torch": tapegrad}
    tapegrad.manual_seed(0)
    test = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    runner.run(test, out=report.append)
    assert runner.failures == 0, "".join(report)


@pytest.mark.parametrize("name", CLASSES)
def test_documented(name):
    assert CLASSES[name].__doc__, "no docstring"


def test_layers_do_not_load_the_ops_they_call():
    """Importing every layer must not import the families of ops behind them."""
    program = "import sys, tapegrad.nn; print(*(m for m in sys.modules if 'ops.conv' in m))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == []
