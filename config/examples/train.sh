#!/bin/sh
# Placeholder for your own training in bench.toml.
set -eu
epochs=${EPOCHS:-20}
while [ $# -gt 0 ]; do
    case $1 in --epochs) epochs=$2 ;; esac
    shift
done
epoch=0
while [ "$epoch" -lt "$epochs" ]; do
    work=0; while [ $work -lt 60000 ]; do work=$((work + 1)); done
    epoch=$((epoch + 1))
    echo "epoch $epoch loss: $((1 + 20 / epoch)).$((epoch % 10))"
done
