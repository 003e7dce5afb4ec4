#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time of a training step of GPT-2 124M in PyTorch on the CPU, to set beside Penta's.

The model is transformers' GPT2LMHeadModel with dropout off and the attention PyTorch itself
prefers; loss, backward, clipping and AdamW (fused) as Penta's step has them. Prints one line:
seconds of the fastest step, first ones excluded.
"""
import argparse
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequence", type=int, default=256)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--compile", action="store_true")
    return parser.parse_args()


def main():
    args = arguments()
    torch.manual_seed(1)
    torch.set_num_threads(args.threads)
    config = GPT2Config(n_layer=args.layers, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, use_cache=False)
    model = GPT2LMHeadModel(config).train()
    # As Penta does it: 16-bit weights and activations, fp32 masters. PyTorch's way to that is
    # autocast over fp32 weights.
    cast = torch.autocast("cpu", torch.bfloat16, enabled=args.dtype == "bf16")
    run = torch.compile(model) if args.compile else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    tokens = torch.randint(97, 122, (args.batch, args.sequence))
    times = []
    for _ in range(args.warmup + args.steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        with cast:
            loss = run(tokens, labels=tokens).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        times.append(time.perf_counter() - start)
    print("%.4f" % min(times[args.warmup:]))


if __name__ == "__main__":
    main()
