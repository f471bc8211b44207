"""GPT-2, BERT, Llama, T5 and ViT from a config: train, generate, save and load, Trainer."""

from show import show, train

# isort: split
import tempfile

import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PrinterCallback,
    T5Config,
    T5ForConditionalGeneration,
    Trainer,
    TrainingArguments,
    ViTConfig,
    ViTForImageClassification,
)

small = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
torch.manual_seed(0)
ids = torch.randint(0, 64, (2, 12))
makers = {
    "gpt2": lambda: GPT2LMHeadModel(
        GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2)
    ),
    "llama": lambda: LlamaForCausalLM(
        LlamaConfig(**small, intermediate_size=64, num_key_value_heads=2)
    ),
    "bert": lambda: BertForMaskedLM(BertConfig(**small, intermediate_size=64)),
}
for name, make in makers.items():
    torch.manual_seed(1)
    model = make()
    print(name)
    train(model, lambda model=model: model(ids, labels=ids).loss)
    model.eval()
    show("logits", model(ids).logits)
    if name != "bert":
        out = model.generate(ids[:, :4], max_new_tokens=6, do_sample=False, pad_token_id=0)
        show("generated", out.tolist())
        torch.manual_seed(2)
        out = model.generate(ids[:, :4], max_new_tokens=6, do_sample=True, top_k=8, pad_token_id=0)
        show("sampled", out.tolist())
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again = type(model).from_pretrained(folder).eval()
    show("same after loading", bool(torch.equal(again(ids).logits, model(ids).logits)))

torch.manual_seed(3)
t5 = T5ForConditionalGeneration(
    T5Config(
        vocab_size=64,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
    )
)
print("t5")
train(t5, lambda: t5(input_ids=ids, labels=ids).loss)
show("generated", t5.eval().generate(ids, max_new_tokens=5).tolist())

torch.manual_seed(4)
vit = ViTForImageClassification(
    ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        image_size=16,
        patch_size=4,
        num_labels=5,
    )
)
images, labels = torch.randn(2, 3, 16, 16), torch.tensor([1, 3])
print("vit")
train(vit, lambda: vit(images, labels=labels).loss)
for name, model, given in (
    ("t5", t5, {"input_ids": ids, "labels": ids}),
    ("vit", vit, {"pixel_values": images}),
):
    model.eval()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again = type(model).from_pretrained(folder).eval()
    same = torch.equal(again(**given).logits, model(**given).logits)
    show(f"{name} is the same after loading", bool(same))

torch.manual_seed(5)
model = makers["gpt2"]()
data = [{"input_ids": row, "labels": row} for row in torch.randint(0, 64, (8, 12))]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        max_steps=4,
        per_device_train_batch_size=4,
        report_to=[],
        use_cpu=True,
        logging_steps=2,
        disable_tqdm=True,
        save_strategy="no",
        seed=6,
    )
    trainer = Trainer(model, arguments, train_dataset=data)
    trainer.remove_callback(PrinterCallback)  # it prints how long it took
    result = trainer.train()
show("trainer", result.training_loss)
