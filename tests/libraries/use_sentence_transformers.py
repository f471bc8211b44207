"""Pooling and normalizing on top of a small BERT; a loss of pairs."""

from show import show, train

# isort: split
import torch
from sentence_transformers import util
from sentence_transformers.models import Normalize, Pooling
from transformers import BertConfig, BertModel

torch.manual_seed(0)
bert = BertModel(
    BertConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
)
pooling, normalize = Pooling(32), Normalize()
ids = torch.randint(1, 64, (4, 7))
mask = torch.ones_like(ids)
mask[0, 5:] = 0


def embed():
    tokens = bert(input_ids=ids, attention_mask=mask).last_hidden_state
    return normalize(pooling({"token_embeddings": tokens, "attention_mask": mask}))[
        "sentence_embedding"
    ]


show("embeddings", embed())
show("similarity", util.cos_sim(embed(), embed()))
train(
    bert,
    lambda: torch.nn.functional.cross_entropy(util.cos_sim(embed(), embed()) * 20, torch.arange(4)),
)
show("search", util.semantic_search(embed(), embed(), top_k=1)[1][0]["corpus_id"])
