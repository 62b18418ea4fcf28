"""A small causal transformer, trained and logged like Hugging Face's Trainer without its progress bar: one dictionary per line, with a
fractional epoch. The number of epochs is in the configuration file that the command names.

    python3 hf_trainer.py hf_trainer.json
"""

import json
import math
import sys
import time

import torch
from torch import nn

from synthetic import text

WORDS, LENGTH = 1000, 64


class CausalLM(nn.Module):
    def __init__(self, width=96, heads=4, layers=2):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(LENGTH, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.1, "gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, layers)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, WORDS, bias=False)
        self.register_buffer("mask", torch.triu(torch.full((LENGTH, LENGTH), -math.inf), 1))

    def forward(self, tokens):
        hidden = self.words(tokens[:, :-1]) + self.places.weight
        logits = self.head(self.norm(self.blocks(hidden, self.mask)))
        return nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def blocks(tokens, seed):
    return torch.from_numpy(text(tokens, seed, WORDS)).unfold(0, LENGTH + 1, LENGTH).contiguous()


def evaluate(model, data, batch, epoch):
    model.eval()
    start = time.time()
    with torch.no_grad():
        loss = sum(model(part).item() * len(part) for part in data.split(batch)) / len(data)
    model.train()
    took = time.time() - start
    print({"eval_loss": loss, "eval_runtime": round(took, 4), "eval_samples_per_second": round(len(data) / took, 3),
           "eval_steps_per_second": round(math.ceil(len(data) / batch) / took, 3), "epoch": epoch})


def main():
    with open(sys.argv[1]) as file:
        args = json.load(file)
    torch.manual_seed(args["seed"])
    batch = args["per_device_train_batch_size"]
    train_data, eval_data = blocks(60_000, 12), blocks(8_000, 13)
    model = CausalLM()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args["learning_rate"], weight_decay=args["weight_decay"])
    per_epoch = math.ceil(len(train_data) / batch)
    total = per_epoch * args["num_train_epochs"]
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / total))
    model.train()
    start, step, since, all_loss = time.time(), 0, 0.0, 0.0
    for epoch in range(args["num_train_epochs"]):
        for part in train_data[torch.randperm(len(train_data))].split(batch):
            loss = model(part)
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            step, since, all_loss = step + 1, since + loss.item(), all_loss + loss.item()
            if step % args["logging_steps"] == 0:
                print({"loss": round(since / args["logging_steps"], 4), "grad_norm": norm.item(),
                       "learning_rate": schedule.get_last_lr()[0], "epoch": round(step / per_epoch, 2)})
                since = 0.0
        evaluate(model, eval_data, args["per_device_eval_batch_size"], epoch + 1.0)
    took = time.time() - start
    samples = len(train_data) * args["num_train_epochs"]
    print({"train_runtime": round(took, 4), "train_samples_per_second": round(samples / took, 3),
           "train_steps_per_second": round(total / took, 3), "train_loss": all_loss / total,
           "epoch": float(args["num_train_epochs"])})


if __name__ == "__main__":
    main()
