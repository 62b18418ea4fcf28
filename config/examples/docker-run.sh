#!/bin/sh
# Two governed trainings of Docker, and one that was started without the label:
# `IMAGE=pytorch/pytorch sh docker-run.sh`.
# Any image with a shell will do; the script stands for your own `python train.py`. Wants a running flowcond, and root.
set -eu

image=${IMAGE:-busybox}
training='step=0; while [ $step -lt 600 ]; do
    step=$((step + 1)); echo "step $step/600 loss: $((1 + 200 / step)).$((step % 10))"
    work=0; while [ $work -lt 50000 ]; do work=$((work + 1)); done; done'

# The label is all that is needed.
docker run --detach --name first --label flowcon.enable=true "$image" sh -c "$training"

# Twice as important, never below a quarter of the machine, and hoped for within two hours.
docker run --detach --name urgent --label flowcon.enable=true --label flowcon.weight=2 --label flowcon.min-share=25% \
    --label flowcon.deadline=2h "$image" sh -c "$training"

# The label was forgotten: adopt it, until it is removed, or `flowctl disown NAME`.
docker run --detach --name forgotten "$image" sh -c "$training"
flowctl adopt forgotten --label flowcon.weight=0.5

flowctl status
