"""LoRA on a small GPT-2."""

from show import show, train

# isort: split
import tempfile

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
config = GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2)
base = GPT2LMHeadModel(config)
lora = LoraConfig(r=4, target_modules=["c_attn"], task_type="CAUSAL_LM", fan_in_fan_out=True)
model = get_peft_model(base, lora)
model.print_trainable_parameters()
ids = torch.randint(0, 64, (2, 10))
train(model, lambda: model(input_ids=ids, labels=ids).loss, lr=1e-2)
model.eval()
before = model(input_ids=ids).logits
with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    again = PeftModel.from_pretrained(base, folder)
show("logits", before)
merged = model.merge_and_unload()
show("merged", merged(input_ids=ids).logits)
