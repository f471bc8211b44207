"""Networks that name every pixel, and a loss of their own."""

from show import show

# isort: split
import segmentation_models_pytorch as smp
import torch

for make in (smp.Unet, smp.FPN, smp.DeepLabV3Plus, smp.PSPNet, smp.Linknet, smp.MAnet):
    torch.manual_seed(1)
    model = make("resnet18", encoder_weights=None, classes=2).double().eval()
    out = model(torch.randn(2, 3, 64, 64).double())
    show(make.__name__, out)
    target = torch.ones(2, 64, 64, dtype=torch.long)
    loss = smp.losses.DiceLoss("multiclass")(out, target)
    loss.backward()
    show("loss", loss)
    show("gradients", sum(p.grad.abs().sum() for p in model.parameters() if p.grad is not None))
