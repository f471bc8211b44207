"""Models, transforms.v2, and the ops of its library in C++."""

from show import show, train

# isort: split
import torch
import torchvision
from torchvision import ops, tv_tensors
from torchvision.transforms import v2

for name in ("resnet18", "mobilenet_v3_small", "squeezenet1_1"):
    torch.manual_seed(0)
    model = torchvision.models.get_model(name, weights=None, num_classes=10)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    # In double precision: two small images in a batch make float32's last bits visible.
    model.double()
    x, y = torch.randn(2, 3, 64, 64).double(), torch.tensor([1, 7])
    print(name)
    loss = lambda model=model, x=x, y=y: torch.nn.functional.cross_entropy(model(x), y)  # noqa: E731
    train(model, loss, steps=1)

torch.manual_seed(1)
image = tv_tensors.Image(torch.randint(0, 256, (3, 32, 32), dtype=torch.uint8))
boxes = tv_tensors.BoundingBoxes([[2, 3, 10, 12]], format="XYXY", canvas_size=(32, 32))
steps = v2.Compose(
    [
        v2.RandomHorizontalFlip(1.0),
        v2.Resize((24, 24), antialias=True),
        v2.RandomCrop(16),
        v2.ColorJitter(0.2, 0.2),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize([0.5] * 3, [0.2] * 3),
    ]
)
out, moved = steps(image, boxes)
show("image", out)
show("boxes", moved.tolist())
show("class", type(out).__name__)
show("rotated", v2.functional.rotate(image.float(), 30.0))
show("blurred", v2.functional.gaussian_blur(image.float(), [3, 3]))

corners = torch.rand(20, 2) * 20
found = torch.cat([corners, corners + 2 + torch.rand(20, 2) * 10], 1)
show("iou", ops.box_iou(found, found))
regions = torch.cat([torch.zeros(20, 1), found], 1)
features = torch.randn(1, 4, 32, 32, requires_grad=True)
pooled = ops.roi_align(features, regions, (3, 3), 0.5, 2, True)
pooled.square().sum().backward()
show("roi_align", pooled)
show("its gradient", features.grad)
show("adaptive", ops.roi_align(features, regions, (3, 3), 0.5, -1, False))


def kept(boxes, scores, threshold):
    """Non-maximum suppression, in plain words."""
    left, found = scores.argsort(descending=True, stable=True).tolist(), []
    overlap = ops.box_iou(boxes, boxes)
    while left:
        best = left.pop(0)
        found.append(best)
        left = [i for i in left if overlap[best, i] <= threshold]
    return found


scores = torch.rand(20)
plain = kept(found, scores, 0.3)
there = torchvision.extension._has_ops()
show("nms", ops.nms(found, scores, 0.3).tolist() if there else plain)
