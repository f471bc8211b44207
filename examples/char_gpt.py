"""A small GPT that learns verse, character by character.

A decoder-only transformer: token and position embeddings, blocks of causal self-attention and a
feed-forward network around a residual stream, trained to say the next character. AdamW with a
warm-up and a cosine decay. At the end it writes some verse of its own.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from data import text
from progress import Progress, arguments

CONTEXT, BATCH = 32, 32


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = self.qkv(x).view(batch, time, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, time, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, characters, width=64, heads=4, layers=2):
        super().__init__()
        self.tokens = nn.Embedding(characters, width)
        self.positions = nn.Embedding(CONTEXT, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, characters, bias=False)
        self.apply(self.initialise)
        self.head.weight = self.tokens.weight  # tied: one table reads and writes

    @staticmethod
    def initialise(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.1)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        return self.head(self.norm(self.blocks(x)))

    @torch.no_grad()
    def write(self, tokens, length):
        """Sample one token after the other, each from the CONTEXT before it."""
        for _ in range(length):
            logits = self(tokens[:, -CONTEXT:])[:, -1]
            choice = torch.multinomial(F.softmax(logits / 0.8, dim=-1), num_samples=1)
            tokens = torch.cat([tokens, choice], dim=1)
        return tokens


args = arguments(__doc__, steps=400)
torch.manual_seed(args.seed)

verse = text()
alphabet = sorted(set(verse))
number = {character: i for i, character in enumerate(alphabet)}
tokens = torch.tensor([number[character] for character in verse])

model = GPT(len(alphabet))
optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3, weight_decay=0.1)


def warm_up_then_cosine(step):
    warm = min(1.0, (step + 1) / 20)
    return warm * 0.5 * (1 + math.cos(math.pi * step / args.steps))


schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, warm_up_then_cosine)

progress = Progress(args)
for _ in progress:
    starts = torch.randint(len(tokens) - CONTEXT, (BATCH, 1))
    pieces = tokens[starts + torch.arange(CONTEXT + 1)]
    logits = model(pieces[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), pieces[:, 1:].flatten())

    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
    optimizer.step()
    schedule.step()
    progress.log(loss.item())

written = model.write(torch.tensor([[number["T"]]]), length=200)[0]
print("".join(alphabet[i] for i in written.tolist()))
recent = progress.curves["loss"][-10:]
print(f"loss over the last steps: {sum(recent) / len(recent):.3f} nats a character")
