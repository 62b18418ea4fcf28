#!/bin/sh
# Two governed containers, and one that was started without the label:
# `IMAGE=pytorch/pytorch sh docker-run.sh`.
# Any image with a shell works; the script stands for your own `python train.py`. Needs root and a running flowcond.
set -eu

image=${IMAGE:-busybox}
training='step=0; while [ $step -lt 600 ]; do
    step=$((step + 1)); echo "step $step/600 loss: $((1 + 200 / step)).$((step % 10))"
    work=0; while [ $work -lt 50000 ]; do work=$((work + 1)); done; done'

# Only this label is required.
docker run --detach --name first --label flowcon.enable=true "$image" sh -c "$training"

# Twice the weight, at least a quarter of the machine, and a deadline of two hours (a hint).
docker run --detach --name urgent --label flowcon.enable=true --label flowcon.weight=2 --label flowcon.min-share=25% \
    --label flowcon.deadline=2h "$image" sh -c "$training"

# Without the label: govern it until it is removed or disowned (`flowctl disown NAME`).
docker run --detach --name forgotten "$image" sh -c "$training"
flowctl adopt forgotten --label flowcon.weight=0.5

flowctl status
