"""The errors of PyTorch's tracer, to be caught."""


class TorchDynamoException(RuntimeError):
    """An error while tracing."""


class Unsupported(TorchDynamoException):
    """Something that cannot be traced."""


class TorchRuntimeError(TorchDynamoException):
    """An error in traced code."""


class BackendCompilerFailed(TorchDynamoException):
    """An error in a compiler."""


class TensorifyScalarRestartAnalysis(TorchDynamoException):
    """Tracing starts again."""


class UserError(Unsupported):
    """A wrong argument of torch.export."""
