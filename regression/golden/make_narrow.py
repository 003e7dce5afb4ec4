#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure how far PyTorch itself is from the fp64 golden files when it trains the same models in bf16 and fp16.

Writes narrow.csv: relative errors of the first step's loss, logits and gradients and of the weights after three steps,
in two ways of mixed precision, both with fp32 master weights and an fp32 AdamW:
  pure      weights, activations and gradients are of the narrow type, gradients are widened for the update;
  autocast  torch.autocast decides; weights and gradients are fp32.
In fp16 the loss is scaled by 1024 and gradients are divided by it. The C test test_narrow.c takes its bounds from
these figures. README.md defines the errors.

Usage: make_narrow.py [--output FILE]
"""

import argparse
import os

import h5py
import numpy as np
import torch
import transformers

import make_golden as golden

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
SCALE = {"bf16": 1.0, "fp16": 1024.0}
HERE = os.path.dirname(os.path.abspath(__file__))


def loss_in_float(logits, data, step):
    """The loss of make_golden, from logits widened to float32: as every mixed-precision code has it."""
    return golden.loss_of(logits.float(), data, step)


def run(case, data, precision, pure):
    """Three steps; the golden file's numbers, as doubles."""
    dtype, scale = DTYPES[precision], SCALE[precision]
    master = golden.make_model(case, "fp32")
    model = golden.make_model(case, "fp32").to(dtype) if pure else master
    optimizer = golden.make_optimizer(master, golden.EPS["fp64"])
    result = {}
    for step in range(golden.STEPS):
        model.zero_grad()
        with torch.autocast("cpu", dtype=dtype, enabled=not pure):
            logits = golden.logits_of(model, data, step)
        loss = loss_in_float(logits, data, step)
        (scale * loss).backward()
        with torch.no_grad():
            for mine, narrow in zip(master.parameters(), model.parameters()):
                mine.grad = narrow.grad.float() / scale
        if step == 0:
            result["loss"], result["logits"] = loss.item(), logits.detach().double().numpy()
            result["grads"] = {n: p.grad.double().numpy().copy() for n, p in master.named_parameters()}
        torch.nn.utils.clip_grad_norm_(master.parameters(), golden.CLIP, foreach=False)
        optimizer.step()
        with torch.no_grad():
            for mine, narrow in zip(master.parameters(), model.parameters()):
                if pure:
                    narrow.copy_(mine)
    result["after"] = {n: p.detach().double().numpy() for n, p in master.named_parameters()}
    return result


def rms(tensors):
    flat = np.concatenate([np.ravel(x) for x in tensors])
    return np.sqrt(np.mean(flat**2))


def errors(file, result):
    """Of tensors: RMS of the difference over all elements, relative to the RMS of logits and gradient, and to the
    learning rate for weights."""
    loss = abs(result["loss"] / file["losses"][0] - 1)
    logits = rms([result["logits"] - file["logits"][:]]) / rms([file["logits"][:]])
    grads = {name: x[:] for name, x in file["grads"].items()}
    grad = rms([result["grads"][n] - grads[n] for n in grads]) / rms(grads.values())
    weight = rms([result["after"][n] - x[:] for n, x in file["after"].items()]) / golden.LR
    return loss, logits, grad, weight


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default=os.path.join(HERE, "narrow.csv"))
    path = parser.parse_args().output
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    transformers.logging.set_verbosity_error()
    with open(path, "w", encoding="ascii") as out:
        out.write(f"# by make_narrow.py with torch {torch.__version__}, transformers {transformers.__version__}\n")
        out.write("model,precision,way,loss,logits,gradient,weight\n")
        for case in golden.CASES:
            if case.documents:
                continue
            data = golden.draw_data(case)
            with h5py.File(os.path.join(HERE, f"{case.name}-fp64.h5")) as file:
                for precision in DTYPES:
                    for way in ("pure", "autocast"):
                        figures = errors(file, run(case, data, precision, way == "pure"))
                        row = ",".join(f"{x:.3e}" for x in figures)
                        out.write(f"{case.name},{precision},{way},{row}\n")


if __name__ == "__main__":
    main()
