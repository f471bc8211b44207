"""A decoder with rotary embeddings."""

from show import show, train

# isort: split
import torch
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

torch.manual_seed(0)
layers = Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, rotary_pos_emb=True, ff_glu=True)
model = AutoregressiveWrapper(TransformerWrapper(num_tokens=64, max_seq_len=16, attn_layers=layers))
ids = torch.randint(0, 64, (2, 16))
train(model, lambda: model(ids))
show("generated", model.generate(ids[:, :3], 5, temperature=0.0).tolist())
