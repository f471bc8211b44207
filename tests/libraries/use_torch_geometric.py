"""Graph networks."""

from show import show, train

# isort: split
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv, global_mean_pool
from torch_geometric.utils import to_dense_adj

torch.manual_seed(0)
edges = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 0], [1, 0, 2, 1, 3, 2, 0, 3]])
batch = Batch.from_data_list([Data(x=torch.randn(4, 6), edge_index=edges) for _ in range(3)])
print(batch)
layers = {
    "gcn": GCNConv(6, 5),
    "sage": SAGEConv(6, 5),
    "gat": GATConv(6, 5, heads=2),
    "gin": GINConv(torch.nn.Linear(6, 5)),
}
for name, layer in layers.items():
    show(name, layer(batch.x, batch.edge_index))
show("dense", to_dense_adj(edges))
layer = layers["gcn"]
train(
    layer, lambda: global_mean_pool(layer(batch.x, batch.edge_index), batch.batch).square().mean()
)
