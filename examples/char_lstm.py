"""A character-level language model with an LSTM.

It reads verse one character at a time, in a few parallel columns. The state is carried from one
piece of text to the next and detached there: backpropagation through time, truncated. Gradients
are clipped, as recurrent networks need. At the end it writes some verse of its own.
"""

import torch
from torch import nn

from data import text
from progress import Progress, arguments

COLUMNS, LENGTH = 16, 48  # parallel streams of text; characters between two updates


class CharLSTM(nn.Module):
    def __init__(self, characters, width=96):
        super().__init__()
        self.embedding = nn.Embedding(characters, 32)
        self.lstm = nn.LSTM(32, width, num_layers=1, batch_first=True)
        self.head = nn.Linear(width, characters)

    def forward(self, tokens, state=None):
        hidden, state = self.lstm(self.embedding(tokens), state)
        return self.head(hidden), state


@torch.no_grad()
def write(model, prompt, length):
    """Sample character after character, feeding each one back."""
    logits, state = model(encode(prompt)[None])
    written = prompt
    for _ in range(length):
        choice = torch.multinomial(torch.softmax(logits[0, -1] / 0.7, dim=0), 1)
        written += alphabet[choice.item()]
        logits, state = model(choice[None], state)
    return written


args = arguments(__doc__, steps=300)
torch.manual_seed(args.seed)

verse = text()
alphabet = sorted(set(verse))
number = {character: i for i, character in enumerate(alphabet)}


def encode(string):
    return torch.tensor([number[character] for character in string])


# Column after column of consecutive text; the target is always the next character.
tokens = encode(verse)
rows = (len(tokens) - 1) // COLUMNS
inputs = tokens[: COLUMNS * rows].view(COLUMNS, rows)
targets = tokens[1 : COLUMNS * rows + 1].view(COLUMNS, rows)

model = CharLSTM(len(alphabet))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.RMSprop(model.parameters(), lr=4e-3)

state, at = None, 0
progress = Progress(args)
for _ in progress:
    if at + LENGTH > rows:
        state, at = None, 0
    logits, state = model(inputs[:, at : at + LENGTH], state)
    loss = loss_fn(logits.flatten(0, 1), targets[:, at : at + LENGTH].flatten())

    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
    optimizer.step()
    progress.log(loss.item())

    state = tuple(part.detach() for part in state)
    at += LENGTH

print(write(model, "The ", 200))
recent = progress.curves["loss"][-10:]
print(f"loss over the last steps: {sum(recent) / len(recent):.3f} nats a character")
