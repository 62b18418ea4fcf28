"""A word-level language model in the style of PyTorch's word_language_model example: an LSTM, with gradient clipping and a learning
rate that is divided by four when the validation loss stops falling. Its log does not contain the number of epochs.

    python3 torch_word_lm.py [--epochs 6] [--lr 20] [--bptt 35] [--batch_size 20] [--seed 1111] [--log-interval 200]
"""

import argparse
import math
import time

import torch
import torch.nn as nn

from synthetic import text

WORDS = 1000


class RNNModel(nn.Module):
    def __init__(self, ninp, nhid, nlayers, dropout):
        super().__init__()
        self.nhid, self.nlayers = nhid, nlayers
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(WORDS, ninp)
        self.rnn = nn.LSTM(ninp, nhid, nlayers, dropout=dropout)
        self.decoder = nn.Linear(nhid, WORDS)
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)

    def forward(self, tokens, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(tokens)), hidden)
        return self.decoder(self.drop(output)).view(-1, WORDS), hidden

    def init_hidden(self, batch):
        weight = next(self.parameters())
        return tuple(weight.new_zeros(self.nlayers, batch, self.nhid) for _ in range(2))


def batchify(tokens, batch):
    steps = len(tokens) // batch
    return torch.from_numpy(tokens)[:steps * batch].view(batch, -1).t().contiguous()


def get_batch(args, source, i):
    length = min(args.bptt, len(source) - 1 - i)
    return source[i:i + length], source[i + 1:i + 1 + length].reshape(-1)


def evaluate(args, model, criterion, source):
    model.eval()
    total, hidden = 0., model.init_hidden(source.size(1))
    with torch.no_grad():
        for i in range(0, len(source) - 1, args.bptt):
            data, targets = get_batch(args, source, i)
            output, hidden = model(data, hidden)
            total += len(data) * criterion(output, targets).item()
    return total / (len(source) - 1)


def train(args, model, criterion, source, epoch, lr):
    model.train()
    total, start, hidden = 0., time.time(), model.init_hidden(args.batch_size)
    for batch, i in enumerate(range(0, len(source) - 1, args.bptt)):
        data, targets = get_batch(args, source, i)
        hidden = tuple(state.detach() for state in hidden)
        model.zero_grad()
        output, hidden = model(data, hidden)
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-lr)
        total += loss.item()
        if batch % args.log_interval == 0 and batch > 0:
            cur, elapsed = total / args.log_interval, time.time() - start
            print("| epoch {:3d} | {:5d}/{:5d} batches | lr {:02.2f} | ms/batch {:5.2f} | loss {:5.2f} | ppl {:8.2f}".format(
                epoch, batch, len(source) // args.bptt, lr, elapsed * 1000 / args.log_interval, cur, math.exp(cur)))
            total, start = 0., time.time()


def main():
    parser = argparse.ArgumentParser(description="PyTorch word language model")
    parser.add_argument("--emsize", type=int, default=64)
    parser.add_argument("--nhid", type=int, default=64)
    parser.add_argument("--nlayers", type=int, default=2)
    parser.add_argument("--lr", type=float, default=20)
    parser.add_argument("--clip", type=float, default=0.25)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch_size", type=int, default=20)
    parser.add_argument("--bptt", type=int, default=35)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1111)
    parser.add_argument("--log-interval", type=int, default=50)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    train_data, val_data = batchify(text(120_000, 5, WORDS), args.batch_size), batchify(text(15_000, 6, WORDS), 10)
    test_data = batchify(text(15_000, 7, WORDS), 10)
    model = RNNModel(args.emsize, args.nhid, args.nlayers, args.dropout)
    criterion = nn.CrossEntropyLoss()
    lr, best = args.lr, None
    for epoch in range(1, args.epochs + 1):
        start = time.time()
        train(args, model, criterion, train_data, epoch, lr)
        val_loss = evaluate(args, model, criterion, val_data)
        print("-" * 89)
        print("| end of epoch {:3d} | time: {:5.2f}s | valid loss {:5.2f} | valid ppl {:8.2f}".format(
            epoch, time.time() - start, val_loss, math.exp(val_loss)))
        print("-" * 89)
        if not best or val_loss < best:
            best = val_loss
        else:
            lr /= 4.0
    test_loss = evaluate(args, model, criterion, test_data)
    print("=" * 89)
    print("| End of training | test loss {:5.2f} | test ppl {:8.2f}".format(test_loss, math.exp(test_loss)))
    print("=" * 89)


if __name__ == "__main__":
    main()
