"""Six architectures at a small size, an optimizer and a scheduler of timm's."""

from show import show, train

# isort: split
import timm
import torch
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler

# In double: batch norm over two small images makes much of the last digits of single precision.
torch.set_default_dtype(torch.float64)
images = {"resnet18": 64, "efficientnet_b0": 64, "mobilenetv3_small_050": 64}
images |= {"convnext_atto": 64, "vit_tiny_patch16_224": 224, "regnetx_002": 64}
for name, size in images.items():
    torch.manual_seed(0)
    kind = {"img_size": 64} if name.startswith("vit") else {}
    model = timm.create_model(name, num_classes=10, **kind)
    size = 64 if kind else size
    x, y = torch.randn(2, 3, size, size), torch.tensor([1, 7])
    print(name)
    train(
        model,
        lambda model=model, x=x, y=y: torch.nn.functional.cross_entropy(model(x), y),
        steps=1,
    )
    show("logits", model.eval()(x))
model = timm.create_model("resnet18", num_classes=10)
show(
    "features",
    [
        tuple(f.shape)
        for f in timm.create_model("resnet18", features_only=True)(torch.zeros(1, 3, 64, 64))
    ],
)
optimizer = create_optimizer_v2(model, opt="lamb", lr=1e-3)
scheduler = CosineLRScheduler(optimizer, t_initial=10)
scheduler.step(3)
show("lr", optimizer.param_groups[0]["lr"])
