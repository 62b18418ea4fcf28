"""A small data-parallel training, started by torchrun: it goes on from its last step whenever the number of its workers has changed."""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STATE, LOG, ENOUGH = "/shared/state.pt", "/shared/log", "/shared/enough"

torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(1)
model = torch.nn.Linear(8, 1)
target = torch.arange(8.0).reshape(8, 1)
step = 0
if os.path.exists(STATE):
    saved = torch.load(STATE)
    model.load_state_dict(saved["model"])
    step = saved["step"]
replica = DistributedDataParallel(model)
optimizer = torch.optim.SGD(replica.parameters(), lr=0.01)
torch.manual_seed(100 + dist.get_rank())
is_over = torch.zeros(1)
while not is_over:
    inputs = torch.randn(16, 8)
    loss = ((replica(inputs) - inputs @ target) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    if dist.get_rank() == 0:
        torch.save({"model": model.state_dict(), "step": step}, STATE + ".new")
        os.replace(STATE + ".new", STATE)
        with open(LOG, "a") as log:
            log.write(f"{step} {dist.get_world_size()} {loss.item():.6f}\n")
        print(f"step {step} loss {loss.item():.6f} workers {dist.get_world_size()}", file=sys.stderr)
        is_over[0] = float(os.path.exists(ENOUGH))
    dist.broadcast(is_over, 0)
    time.sleep(0.2)
dist.destroy_process_group()
