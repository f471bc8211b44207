"""A small CLIP."""

from show import show, train

# isort: split
import open_clip
import torch
from open_clip.loss import ClipLoss
from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg

torch.manual_seed(0)
vision = CLIPVisionCfg(layers=2, width=64, head_width=32, patch_size=8, image_size=32)
text = CLIPTextCfg(context_length=8, vocab_size=64, width=32, heads=2, layers=2)
model = CLIP(16, vision, text)
images, tokens = torch.randn(3, 3, 32, 32), torch.randint(1, 63, (3, 8))
tokens[:, -1] = 63
loss = ClipLoss()
show("version", isinstance(open_clip.__version__, str))
train(model, lambda: loss(*model(images, tokens)[:3]))
show("images", model.encode_image(images))
show("texts", model.encode_text(tokens))
