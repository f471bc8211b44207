"""How PyTorch's old exporter wrote ops: it is not here, torch.onnx.export records them."""

from ..errors.absent import absent_function

INSTEAD = "export with torch.onnx.export"

select = absent_function("torch.onnx.symbolic_opset11.select", INSTEAD)
squeeze = absent_function("torch.onnx.symbolic_opset11.squeeze", INSTEAD)
unsqueeze = absent_function("torch.onnx.symbolic_opset11.unsqueeze", INSTEAD)
