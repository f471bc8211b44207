"""The cases of E09: shapes that do not fit; see error_cases.py."""

from __future__ import annotations

from typing import Any

from error_cases import Case


def case(
    about: str,
    source: str,
    sentence: str,
    tensor: str | None,
    cure: str,
    raises: str = "RuntimeError",
    **facts: Any,
) -> Case:
    return Case("E09", about, source, sentence, tensor, cure, facts, raises)


MULTIPLY = "mat1 and mat2 shapes cannot be multiplied ({} and {})"
BROADCAST = (
    "The size of tensor a ({}) must match the size of tensor b ({}) at non-singleton dimension {}"
)

CASES = [
    case(
        "a layer deep in a model",
        """
        class Block(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.fc1 = torch.nn.Linear(8, 6)
                self.fc2 = torch.nn.Linear(7, 8)

            def forward(self, x):
                h = self.fc1(x)  #: made
                return self.fc2(h)  #: noticed

        model = torch.nn.Module()
        model.blocks = torch.nn.ModuleList([Block(), Block()])
        x = torch.ones(2, 8)
        for block in model.blocks[1:]:
            x = block(x)
        """,
        MULTIPLY.format("2x6", "7x8"),
        "h",
        "in_features is 7, write 6: nn.Linear(6, 8)",
        module="model.blocks.1.fc2 (Linear 7 -> 8)",
        shapes={"input": [2, 6], "weight": [8, 7]},
        axes={"input": 1, "weight": 1},
    ),
    case(
        "a missing flatten",
        """
        conv, fc = torch.nn.Conv2d(1, 4, 3), torch.nn.Linear(4 * 6 * 6, 10)
        h = conv(torch.ones(2, 1, 8, 8))  #: made
        fc(h)  #: noticed
        """,
        MULTIPLY.format("48x6", "144x10"),
        "h",
        "h.flatten(1) has shape (2, 144)",
        expected=144,
        got=6,
    ),
    case(
        "the size after a convolution",
        """
        conv, fc = torch.nn.Conv2d(1, 4, 3), torch.nn.Linear(100, 10)
        images = torch.ones(2, 1, 8, 8)
        h = conv(images).flatten(1)  #: made
        fc(h)  #: noticed
        """,
        MULTIPLY.format("2x144", "100x10"),
        "h",
        "write 144: nn.Linear(144, 10)",
    ),
    case(
        "an input that is turned",
        """
        fc = torch.nn.Linear(5, 2)
        x = torch.ones(5, 8)
        fc(x)  #: noticed
        """,
        MULTIPLY.format("5x8", "5x2"),
        "x",
        "transpose the input: x.T",
    ),
    case(
        "a product whose second factor is turned",
        """
        a, b = torch.ones(2, 3), torch.ones(4, 3)
        a @ b  #: noticed
        """,
        MULTIPLY.format("2x3", "4x3"),
        "a",
        "a @ b.T",
        axes={"left": 1, "right": 0},
    ),
    case(
        "a product that was meant element by element",
        """
        a, b = torch.ones(2, 3), torch.ones(2, 3)
        torch.mm(a, b)  #: noticed
        """,
        MULTIPLY.format("2x3", "2x3"),
        "a",
        "a @ b.T",
    ),
    case(
        "batches of matrices",
        """
        q, k = torch.ones(4, 5, 8), torch.ones(4, 6, 8)
        scores = q @ k  #: noticed
        """,
        "Expected size for first two dimensions of batch2 tensor to be: [4, 8] but got: [4, 6].",
        "q",
        "q @ k.mT",
    ),
    case(
        "a matrix and a vector",
        """
        m, v = torch.ones(2, 3), torch.ones(2)
        m @ v  #: noticed
        """,
        "size mismatch, got input (2), mat (2x3), vec (2)",
        "v",
        "m.T @ v",
    ),
    case(
        "a row per sample against a number per sample",
        """
        scores, weight = torch.ones(4, 3), torch.ones(4)
        scores * weight  #: noticed
        """,
        BROADCAST.format(3, 4, 1),
        "weight",
        "weight.unsqueeze(-1) has shape (4, 1)",
    ),
    case(
        "channel means against images",
        """
        images, mean = torch.ones(8, 3, 4, 4), torch.ones(3)
        images - mean  #: noticed
        """,
        BROADCAST.format(4, 3, 3),
        "mean",
        "mean.view(3, 1, 1)",
    ),
    case(
        "two lengths, in a module",
        """
        class Net(torch.nn.Module):
            def forward(self, x, y):
                return x + y  #: noticed

        net = Net()
        net(torch.ones(3), torch.ones(4))
        """,
        BROADCAST.format(3, 4, 0),
        "y",
        "cut or pad",
        module="net (Net)",
    ),
    case(
        "two tables, one turned",
        """
        a, b = torch.ones(2, 3), torch.ones(3, 2)
        torch.add(a, b)  #: noticed
        """,
        BROADCAST.format(3, 2, 1),
        "b",
        "b.T",
    ),
    case(
        "a loss of different lengths",
        """
        prediction = torch.ones(4, requires_grad=True) * 2  #: made
        target = torch.ones(3)
        torch.nn.functional.smooth_l1_loss(prediction, target)  #: noticed
        """.replace("  #: made", ""),
        BROADCAST.format(4, 3, 0),
        "target",
        "cut or pad",
    ),
    case(
        "an in-place op that would grow",
        """
        a, b = torch.ones(3), torch.ones(2, 3)
        a += b  #: noticed
        """,
        "output with shape [3] doesn't match the broadcast shape [2, 3]",
        "a",
        "a = a.add(b)",
    ),
    case(
        "expand of a dimension that is not 1",
        """
        a = torch.ones(3)
        a.expand(4)  #: noticed
        """,
        "The expanded size of the tensor (4) must match the existing size (3) at non-singleton "
        "dimension 0.  Target sizes: [4].  Tensor sizes: [3]",
        "a",
        "a.repeat",
    ),
    case(
        "a slice and a value of another size",
        """
        a, value = torch.zeros(3), torch.ones(3)
        a[:2] = value  #: noticed
        """,
        "The expanded size of the tensor (2) must match the existing size (3) at non-singleton "
        "dimension 0.  Target sizes: [2].  Tensor sizes: [3]",
        "value",
        "assign 2 of them",
    ),
    case(
        "a mask of another size",
        """
        a, keep = torch.ones(3), torch.tensor([True, False])
        a[keep]  #: noticed
        """,
        "The shape of the mask [2] at index 0 does not match the shape of the indexed tensor [3] "
        "at index 0",
        "keep",
        "a[a > 0]",
        "IndexError",
    ),
    case(
        "view(-1, n) after a convolution",
        """
        h = torch.ones(2, 16, 4, 4)
        h.view(-1, 16 * 5 * 5)  #: noticed
        """,
        "shape '[-1, 400]' is invalid for input of size 512",
        "h",
        "h.flatten(1): 256 per row",
        size=512,
    ),
    case(
        "reshape",
        """
        x = torch.ones(6)
        x.reshape(4, 2)  #: noticed
        """,
        "shape '[4, 2]' is invalid for input of size 6",
        "x",
        "x.reshape(3, 2)",
    ),
    case(
        "view of a transpose",
        """
        x = torch.ones(2, 3)
        y = x.t()
        y.view(6)  #: noticed
        """,
        "view size is not compatible with input tensor's size and stride (at least one dimension "
        "spans across two contiguous subspaces). Use .reshape(...) instead.",
        "y",
        "y.reshape(...)",
    ),
    case(
        "cat along the wrong dimension",
        """
        a, b = torch.ones(2, 3), torch.ones(2, 5)
        torch.cat([a, b])  #: noticed
        """,
        "Sizes of tensors must match except in dimension 0. Expected size 3 but got size 5 for "
        "tensor number 1 in the list.",
        "b",
        "torch.cat(..., dim=1)",
    ),
    case(
        "cat of a matrix and a row",
        """
        table, row = torch.ones(2, 3), torch.ones(3)
        torch.cat([table, row])  #: noticed
        """,
        "Tensors must have same number of dimensions: got 2 and 1",
        "row",
        "row.unsqueeze(0)",
    ),
    case(
        "stack of sequences",
        """
        a, b = torch.ones(3), torch.ones(4)
        torch.stack([a, b])  #: noticed
        """,
        "stack expects each tensor to be equal size, but got [3] at entry 0 and [4] at entry 1",
        "b",
        "torch.cat",
    ),
    case(
        "channels of a convolution",
        """
        conv = torch.nn.Conv2d(3, 6, 5)
        images = torch.ones(2, 1, 8, 8)
        conv(images)  #: noticed
        """,
        "Given groups=1, weight of size [6, 3, 5, 5], expected input[2, 1, 8, 8] to have 3 "
        "channels, but got 1 channels instead",
        "images",
        "in_channels is 3, write 1: nn.Conv2d(1, 6, ...)",
        module="conv (Conv2d 3 -> 6)",
    ),
    case(
        "channels last",
        """
        conv = torch.nn.Conv2d(3, 6, 5)
        images = torch.ones(2, 8, 8, 3)
        conv(images)  #: noticed
        """,
        "Given groups=1, weight of size [6, 3, 5, 5], expected input[2, 8, 8, 3] to have 3 "
        "channels, but got 8 channels instead",
        "images",
        "images.permute(0, 3, 1, 2)",
    ),
    case(
        "rows where images are wanted",
        """
        conv = torch.nn.Conv2d(1, 6, 5)
        rows = torch.ones(2, 64)
        conv(rows)  #: noticed
        """,
        "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [2, 64]",
        "rows",
        "rows.view(-1, 1, 8, 8)",
    ),
    case(
        "a kernel larger than the image",
        """
        conv = torch.nn.Conv2d(1, 6, 5)
        images = torch.ones(2, 1, 4, 4)
        conv(images)  #: noticed
        """,
        "Calculated padded input size per channel: (4 x 4). Kernel size: (5 x 5). Kernel size "
        "can't be greater than actual input size",
        "images",
        "smaller kernel_size",
    ),
    case(
        "features of a batch norm",
        """
        norm = torch.nn.BatchNorm2d(3)
        h = torch.ones(2, 4, 5, 5)
        norm(h)  #: noticed
        """,
        "running_mean should contain 4 elements not 3",
        "h",
        "nn.BatchNorm2d(4)",
    ),
    case(
        "dimensions of a batch norm",
        """
        norm = torch.nn.BatchNorm2d(3)
        h = torch.ones(2, 3)
        norm(h)  #: noticed
        """,
        "expected 4D input (got 2D input)",
        "h",
        "(batch, channels, height, width)",
        "ValueError",
    ),
    case(
        "a batch of one in training mode",
        """
        norm = torch.nn.BatchNorm1d(3)
        h = torch.ones(1, 3)
        norm(h)  #: noticed
        """,
        "Expected more than 1 value per channel when training, got input size torch.Size([1, 3])",
        "h",
        "drop_last=True",
        "ValueError",
    ),
    case(
        "layer norm",
        """
        norm = torch.nn.LayerNorm(10)
        h = torch.ones(4, 8)
        norm(h)  #: noticed
        """,
        "Given normalized_shape=[10], expected input with shape [*, 10], but got input of "
        "size[4, 8]",
        "h",
        "nn.LayerNorm(8)",
    ),
    case(
        "an LSTM",
        """
        lstm = torch.nn.LSTM(10, 4)
        x = torch.ones(3, 2, 5)
        lstm(x)  #: noticed
        """,
        "input.size(-1) must be equal to input_size. Expected 10, got 5",
        "x",
        "input_size is 10, write 5",
    ),
    case(
        "attention",
        """
        q, k, v = torch.ones(2, 3, 4), torch.ones(2, 3, 5), torch.ones(2, 3, 4)
        torch.nn.functional.scaled_dot_product_attention(q, k, v)  #: noticed
        """,
        "Expected size for first two dimensions of batch2 tensor to be: [2, 4] but got: [2, 5].",
        "k",
        "same number of features",
    ),
    case(
        "labels of another batch size",
        """
        scores, labels = torch.ones(4, 3), torch.zeros(2, 2, dtype=torch.long)
        torch.nn.functional.cross_entropy(scores, labels)  #: noticed
        """,
        "Expected input batch_size (4) to match target batch_size (2).",
        "labels",
        "labels.flatten()",
        "ValueError",
    ),
    case(
        "labels in a column",
        """
        scores, labels = torch.ones(4, 3), torch.zeros(4, 1, dtype=torch.long)
        torch.nn.functional.cross_entropy(scores, labels)  #: noticed
        """,
        "0D or 1D target tensor expected, multi-target not supported",
        "labels",
        "labels.squeeze(1)",
    ),
    case(
        "classes in the last dimension of a sequence",
        """
        scores, labels = torch.ones(2, 5, 3), torch.zeros(2, 5, dtype=torch.long)
        torch.nn.functional.cross_entropy(scores, labels)  #: noticed
        """,
        "Expected target size [2, 3], got [2, 5]",
        "labels",
        "scores.transpose(1, 2)",
    ),
    case(
        "a column of outputs against a row of targets",
        """
        output, target = torch.ones(4, 1), torch.ones(4)
        torch.nn.functional.binary_cross_entropy_with_logits(output, target)  #: noticed
        """,
        "Target size (torch.Size([4])) must be the same as input size (torch.Size([4, 1]))",
        "target",
        "output.squeeze(-1)",
        "ValueError",
    ),
    case(
        "labels that begin at 1",
        """
        scores, labels = torch.ones(3, 3), torch.tensor([1, 2, 3])
        torch.nn.functional.cross_entropy(scores, labels)  #: noticed
        """,
        "Target 3 is out of bounds.",
        "labels",
        "labels - 1",
        "IndexError",
        classes=3,
    ),
    case(
        "a word beyond the vocabulary",
        """
        embedding = torch.nn.Embedding(5, 2)
        words = torch.tensor([0, 7])
        embedding(words)  #: noticed
        """,
        "index out of range in self",
        "words",
        "write at least 8",
        "IndexError",
    ),
    case(
        "item() of several",
        """
        losses = torch.ones(4)
        losses.item()  #: noticed
        """,
        "a Tensor with 4 elements cannot be converted to Scalar",
        "losses",
        "losses.mean().item()",
    ),
    case(
        "if of several",
        """
        x = torch.ones(4)
        if x > 0:  #: noticed
            pass
        """,
        "Boolean value of Tensor with more than one value is ambiguous",
        None,
        ".any() or",
    ),
    case(
        "a dimension that is not there",
        """
        x = torch.ones(4)
        x.sum(1)  #: noticed
        """,
        "Dimension out of range (expected to be in range of [-1, 0], but got 1)",
        "x",
        "dim=0",
        "IndexError",
    ),
]
