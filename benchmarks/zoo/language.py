"""Sequences: recurrent nets, transformers, tables, CTC."""

from __future__ import annotations

from .registry import Draw, program, rows


def tokens(torch, n, *shape):
    return lambda i: (Draw(torch, i).whole(n, *shape),)


@program
def gpt(torch):
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self, n, heads):
            super().__init__()
            self.heads = heads
            self.norm1, self.norm2 = nn.LayerNorm(n), nn.LayerNorm(n)
            self.qkv, self.out = nn.Linear(n, 3 * n), nn.Linear(n, n)
            self.mlp = nn.Sequential(nn.Linear(n, 2 * n), nn.GELU(), nn.Linear(2 * n, n))

        def forward(self, x):
            b, t, n = x.shape
            q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, n))
            return x + self.mlp(self.norm2(x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.place = nn.Embedding(11, 16), nn.Embedding(8, 16)
            self.blocks = nn.Sequential(Block(16, 2), Block(16, 2))
            self.head = nn.Linear(16, 11, bias=False)
            self.head.weight = self.table.weight

        def forward(self, x):
            h = self.table(x) + self.place(torch.arange(x.shape[1]))
            return self.head(self.blocks(h))

    net = Model()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-2, betas=(0.9, 0.95))

    def step(x):
        opt.zero_grad(set_to_none=True)
        logits = net(x[:, :-1])
        loss = functional.cross_entropy(logits.reshape(-1, 11), x[:, 1:].reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        return loss.detach()

    return step, tokens(torch, 11, 3, 8), lambda: {"net": net, "opt": opt}


@program
def gpt_in_module_form(torch):
    """The model of `gpt` by its library layers; the caller differentiates."""
    nn = torch.nn
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True)
    net = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    table, head = nn.Embedding(7, 8), nn.Linear(8, 7)
    parameters = [*net.parameters(), *table.parameters(), *head.parameters()]
    opt = torch.optim.Adam(parameters, lr=1e-2)
    mask = nn.Transformer.generate_square_subsequent_mask(5)

    def step(x):
        opt.zero_grad()
        logits = head(net(table(x[:, :-1]), mask=mask, is_causal=True))
        loss = nn.functional.cross_entropy(logits.transpose(1, 2), x[:, 1:])
        loss.backward()
        opt.step()
        return loss.detach()

    return step, tokens(torch, 7, 3, 6), lambda: {"net": net, "head": head, "opt": opt}


@program
def translation(torch):
    nn = torch.nn
    net = nn.Transformer(8, 2, 1, 1, 16, dropout=0.1, batch_first=True)
    source, target, head = nn.Embedding(9, 8), nn.Embedding(9, 8), nn.Linear(8, 9)
    everything = nn.ModuleList([net, source, target, head])
    opt = torch.optim.Adam(everything.parameters(), lr=1e-3)

    def step(x, y):
        opt.zero_grad()
        out = head(net(source(x), target(y[:, :-1])))
        loss = nn.functional.cross_entropy(out.flatten(0, 1), y[:, 1:].flatten())
        loss.backward()
        opt.step()
        return loss.detach()

    def batch(i):
        drawn = Draw(torch, i)
        return drawn.whole(9, 2, 5), drawn.whole(9, 2, 4)

    return step, batch, lambda: {"all": everything, "opt": opt}


@program
def lstm(torch):
    nn = torch.nn
    net, head = nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 1)
    opt = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=1e-2)

    def step(x):
        opt.zero_grad()
        out, _ = net(x[:, :-1])
        loss = nn.functional.mse_loss(head(out), x[:, 1:, :1])
        loss.backward()
        opt.step()
        return loss.detach()

    return step, rows(torch, 3, 7, 4), lambda: {"net": net, "head": head, "opt": opt}


@program
def lstm_with_state_kept(torch):
    """Truncated backpropagation: the state of one call is the start of the next."""
    nn = torch.nn
    net, head = nn.LSTM(3, 6), nn.Linear(6, 3)
    opt = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
    kept = {"state": (torch.zeros(1, 2, 6), torch.zeros(1, 2, 6))}

    def step(x):
        opt.zero_grad()
        out, (h, c) = net(x, kept["state"])
        kept["state"] = h.detach(), c.detach()
        loss = nn.functional.smooth_l1_loss(head(out), x.flip(0))
        loss.backward()
        opt.step()
        return loss.detach()

    return step, rows(torch, 4, 2, 3), lambda: {"net": net, "opt": opt, "kept": kept}


@program
def gru_cell_loop(torch):
    nn = torch.nn
    cell, head = nn.GRUCell(3, 5), nn.Linear(5, 3)
    opt = torch.optim.RAdam([*cell.parameters(), *head.parameters()], lr=1e-2)

    def step(x):
        opt.zero_grad()
        h = torch.zeros(x.shape[1], 5)
        loss = 0.0
        for t in range(x.shape[0] - 1):
            h = cell(x[t], h)
            loss = loss + nn.functional.mse_loss(head(h), x[t + 1])
        loss.backward()
        opt.step()
        return loss.detach()

    return step, rows(torch, 6, 2, 3), lambda: {"cell": cell, "head": head, "opt": opt}


@program
def packed_sequences(torch):
    """Sequences of other lengths in each call."""
    nn = torch.nn
    net, head = nn.GRU(3, 5, batch_first=True), nn.Linear(5, 2)
    opt = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=1e-2)

    def step(x, lengths, y):
        opt.zero_grad()
        packed = nn.utils.rnn.pack_padded_sequence(
            x, lengths, batch_first=True, enforce_sorted=False
        )
        _, h = net(packed)
        loss = nn.functional.cross_entropy(head(h[0]), y)
        loss.backward()
        opt.step()
        return loss.detach()

    def batch(i):
        drawn = Draw(torch, i)
        return drawn.normal(3, 5, 3), drawn.whole(4, 3) + 1, drawn.whole(2, 3)

    return step, batch, lambda: {"net": net, "head": head, "opt": opt}


@program
def speech_by_ctc(torch):
    nn = torch.nn
    net = nn.Linear(4, 5)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    criterion = nn.CTCLoss()

    def step(x, y):
        opt.zero_grad()
        logs = net(x).log_softmax(-1)
        loss = criterion(logs, y, torch.full((2,), 8), torch.full((2,), 3))
        loss.backward()
        opt.step()
        return loss.detach()

    def batch(i):
        drawn = Draw(torch, i)
        return drawn.normal(8, 2, 4), drawn.whole(4, 2, 3) + 1

    return step, batch, lambda: {"net": net, "opt": opt}


@program
def word_vectors_with_sparse_gradients(torch):
    nn = torch.nn
    table, context = nn.Embedding(20, 6, sparse=True), nn.Embedding(20, 6, sparse=True)
    opt = torch.optim.SparseAdam([*table.parameters(), *context.parameters()], lr=1e-2)

    def step(word, near, far):
        opt.zero_grad()
        v = table(word)
        good = (v * context(near)).sum(1)
        bad = (v.unsqueeze(1) * context(far)).sum(2)
        loss = -nn.functional.logsigmoid(good).mean() - nn.functional.logsigmoid(-bad).mean()
        loss.backward()
        opt.step()
        return loss.detach()

    def batch(i):
        drawn = Draw(torch, i)
        return drawn.whole(20, 8), drawn.whole(20, 8), drawn.whole(20, 8, 3)

    return step, batch, lambda: {"table": table, "context": context}


@program
def bag_of_words(torch):
    nn = torch.nn
    net = nn.Sequential(nn.EmbeddingBag(30, 8, mode="mean"), nn.Linear(8, 3))
    opt = torch.optim.Adagrad(net.parameters(), lr=0.1)

    def step(x, y):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    def batch(i):
        drawn = Draw(torch, i)
        return drawn.whole(30, 6, 5), drawn.whole(3, 6)

    return step, batch, lambda: {"net": net, "opt": opt}


@program
def rotary_attention_with_a_cache(torch):
    """Rotary positions, and a key cache in buffers that steps write into."""
    nn, functional = torch.nn, torch.nn.functional
    net = nn.Module()
    net.qkv, net.out = nn.Linear(8, 24), nn.Linear(8, 8)
    net.register_buffer("keys", torch.zeros(2, 6, 8))
    angles = torch.arange(6.0)[:, None] * 10.0 ** -torch.arange(4.0)
    cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)

    def turned(x):
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat([-b, a], -1) * sin

    def step(x):
        opt.zero_grad()
        q, k, v = net.qkv(x).chunk(3, -1)
        q, k = turned(q), turned(k)
        y = functional.scaled_dot_product_attention(q, k + 0.1 * net.keys, v, is_causal=True)
        loss = functional.mse_loss(net.out(y), x)
        loss.backward()
        opt.step()
        with torch.no_grad():
            net.keys.mul_(0.9).add_(k, alpha=0.1)
        return loss.detach()

    return step, rows(torch, 2, 6, 8), lambda: {"net": net, "opt": opt}
