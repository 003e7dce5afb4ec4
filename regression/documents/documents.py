#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Written from doc/formats alone: the order of samples, and a checkpoint.

  documents.py samples           prints what regression/documents/samples.txt holds
  documents.py write FILE TEXT   writes a checkpoint of a run on the file TEXT (documents.sh)
  documents.py check FILE        recomputes every digest of a checkpoint; prints the state digest
  documents.py loss FILE TEXT    prints the loss of the weights of a checkpoint for the one sample of TEXT
"""
import math
import sys

import numpy as np

WORD = (1 << 32) - 1
LONG = (1 << 64) - 1

# ---- doc/formats/digest.md -----------------------------------------------------------------


def xxh64(data):  # Collet's specification, seed 0
    p1, p2, p3, p4, p5 = (11400714785074694791, 14029467366897019727, 1609587929392839161,
                          9650029242287828579, 2870177450012600261)

    def rotl(x, r):
        return ((x << r) | (x >> (64 - r))) & LONG

    def turn(acc, lane):
        return rotl((acc + lane * p2) & LONG, 31) * p1 & LONG

    n, at = len(data), 0
    if n >= 32:
        v = [(p1 + p2) & LONG, p2, 0, -p1 & LONG]
        while at + 32 <= n:
            for i in range(4):
                v[i] = turn(v[i], int.from_bytes(data[at + 8 * i:at + 8 * i + 8], "little"))
            at += 32
        h = sum(rotl(v[i], r) for i, r in enumerate((1, 7, 12, 18))) & LONG
        for lane in v:
            h = ((h ^ turn(0, lane)) * p1 + p4) & LONG
    else:
        h = p5
    h = (h + n) & LONG
    while at + 8 <= n:
        h = (rotl(h ^ turn(0, int.from_bytes(data[at:at + 8], "little")), 27) * p1 + p4) & LONG
        at += 8
    if at + 4 <= n:
        h ^= int.from_bytes(data[at:at + 4], "little") * p1 & LONG
        h = (rotl(h, 23) * p2 + p3) & LONG
        at += 4
    for byte in data[at:]:
        h = rotl(h ^ byte * p5 & LONG, 11) * p1 & LONG
    h = (h ^ h >> 33) * p2 & LONG
    h = (h ^ h >> 29) * p3 & LONG
    return h ^ h >> 32


def mix64(x):
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & LONG
    x = (x ^ x >> 27) * 0x94D049BB133111EB & LONG
    return x ^ x >> 31


def tensor_digest(name, array):
    start = xxh64(name.encode())
    bits = array.ravel().view(f"u{array.itemsize}")
    return sum(mix64(mix64((start + i) & LONG) ^ int(b)) for i, b in enumerate(bits)) & LONG


# ---- doc/formats/corpus.md -----------------------------------------------------------------


def philox(key, counter):
    k0, k1 = key
    c0, c1, c2, c3 = counter
    for _ in range(10):
        a, b = 0xCD9E8D57 * c2, 0xD2511F53 * c0
        c0, c1, c2, c3 = (a >> 32) ^ c1 ^ k0, a & WORD, (b >> 32) ^ c3 ^ k1, b & WORD
        k0, k1 = (k0 + 0x9E3779B9) & WORD, (k1 + 0xBB67AE85) & WORD
    return c0


def permute(seed, epoch, x, n):
    bits = (n - 1).bit_length()
    low_bits = bits // 2
    high_bits = bits - low_bits
    key = (seed & WORD, seed >> 32)
    while True:
        low, high = x % (1 << low_bits), x >> low_bits
        for r in range(0, 12, 2):
            high ^= philox(key, (low, r, epoch & WORD, epoch >> 32)) % (1 << high_bits)
            low ^= philox(key, (high, r + 1, epoch & WORD, epoch >> 32)) % (1 << low_bits)
        x = (high << low_bits) + low
        if x < n:
            return x


def cut(samples, share):
    part = samples * share
    return min(samples, math.floor(part + min(part * 1e-12, 1e-6)))


class Corpus:
    def __init__(self, files, T, split, seed=1, shuffle=True, weights=None, masks=None,
                 document_mask=False, separator=b""):
        self.T, self.seed, self.shuffle, self.weights = T, seed, shuffle, weights
        self.tokens = [t for f in files for t in f]
        self.masks = None if masks is None else [m for f in masks for m in f]
        starts = [sum(map(len, files[:i])) for i in range(len(files))]
        self.document_mask = document_mask
        self.documents = set(starts)
        for start, f in zip(starts, files):
            at = bytes(f).find(separator) if separator else -1
            while at >= 0:
                at += len(separator)
                if at < len(f):
                    self.documents.add(start + at)
                at = bytes(f).find(separator, at)
        whole = [(0, len(self.tokens))]
        self.parts = []
        for start, n in (zip(starts, map(len, files)) if weights else whole):
            S = (n - 1) // T if n else 0
            train = cut(S, split[0])
            first = max(train, cut(S, 1 - split[1])) if split[1] > 0 else S
            self.parts.append((start, train, first, S - first))
        self.used = [0] * len(self.parts)
        self.turns = []

    def turn(self, g):
        """Part, and how many samples were taken from it before: word by word."""
        if not self.weights:
            return 0, g
        while len(self.turns) <= g:
            n = len(self.turns)
            # Whole numbers in place of w = weight / sum: the order is the same. A period later all
            # begins anew without the exception.
            total = sum(self.weights)
            m = max(n, 1) if n < total else n
            lack = [w * m - total * u for w, u in zip(self.weights, self.used)]
            p = lack.index(max(lack))
            self.turns.append((p, self.used[p]))
            self.used[p] += 1
        return self.turns[g]

    def train(self, g):
        """First token of training sample g."""
        p, u = self.turn(g)
        start, N = self.parts[p][:2]
        k = u % N
        if self.shuffle:
            k = permute((self.seed + p * 0x9E3779B97F4A7C15) & LONG, u // N, k, N)
        return start + k * self.T

    def validation(self, j):
        """First token of validation sequence j."""
        places = [start + (first + k) * self.T
                  for start, _, first, count in self.parts for k in range(count)]
        if self.weights:
            j = permute(self.seed, 0, j, len(places))
        return places[j]

    def sample(self, a):
        """Tokens with the last label, masks of the labels, numbers of documents."""
        T = self.T
        mask = [1] * T if self.masks is None else self.masks[a + 1:a + T + 1]
        number, documents = 0, []
        for t in range(T):
            if t and a + t in self.documents:
                number += 1
            documents.append(number)
        if self.document_mask:
            mask = [m and a + t + 1 not in self.documents for t, m in enumerate(mask)]
        return self.tokens[a:a + T + 1], [int(m) for m in mask], documents

    def hash(self):
        n = h = len(self.tokens)
        c = min(256, n)
        for place in range(64):
            first = (n - c) // 63 * place if place < 63 else n - c
            for t in self.tokens[first:first + c]:
                h = mix64((h + t) & LONG)
            if self.masks is not None:
                for m in self.masks[first:first + c]:
                    h = mix64((h + m) & LONG)
        return h


def ids_of(step, rank, ranks, B, G):
    """Micro-batch after micro-batch; -1: padding."""
    out = []
    for i in range(-(-G // (ranks * B))):
        for b in range(B):
            in_step = (i * ranks + rank) * B + b
            out.append(step * G + in_step if in_step < G else -1)
    return out


# ---- samples.txt ---------------------------------------------------------------------------

LENGTHS = (203, 97, 150)


def text(f):  # regression/unit/test_documents.c makes the same
    return [10 if i % 11 == 10 else 97 + (i * i + 3 * i * f + f) % 26 for i in range(LENGTHS[f])]


def mask(f):
    return [int(i % 3 != 1) for i in range(LENGTHS[f])]


def samples():
    files, masks = [text(f) for f in range(3)], [mask(f) for f in range(3)]
    cases = [
        ("train.sequence=8 data.split=0.9,0.1",
         dict(T=8, split=(0.9, 0.1)), 3),
        ("train.sequence=8 data.split=1,0 data.shuffle=no",
         dict(T=8, split=(1, 0), shuffle=False), 3),
        ("train.sequence=7 data.split=0.7,0.2 train.seed=123456789012345678 "
         "data.mask=m0,m1,m2",
         dict(T=7, split=(0.7, 0.2), seed=123456789012345678, masks=masks), 3),
        ("train.sequence=8 data.split=0.8,0.2 data.document_mask=yes data.separator=\\n",
         dict(T=8, split=(0.8, 0.2), document_mask=True, separator=b"\n"), 3),
        ("train.sequence=8 data.split=0.8,0.2 data.document_mask=yes data.mask=m0,m1,m2",
         dict(T=8, split=(0.8, 0.2), document_mask=True, masks=masks), 3),
        ("train.sequence=8 data.split=0.8,0.2 data.weights=0.5,0.2,0.3 train.seed=7",
         dict(T=8, split=(0.8, 0.2), weights=(5, 2, 3), seed=7), 3),
        ("train.sequence=5 data.split=0.75,0.25 data.weights=1,2 data.shuffle=no",
         dict(T=5, split=(0.75, 0.25), weights=(1, 2), shuffle=False), 2),
        ("train.sequence=150 data.split=0.5,0",
         dict(T=150, split=(0.5, 0)), 3),
        ("train.sequence=1 data.split=0.29,0.71",
         dict(T=1, split=(0.29, 0.71)), 1),
    ]
    print("# Made by documents.py samples.")
    for options, arguments, count in cases:
        some = dict(arguments)
        if "masks" in some:
            some["masks"] = masks[:count]
        corpus = Corpus(files[:count], **some)
        train, validation = (sum(p[i] for p in corpus.parts) for i in (1, 3))
        print(f"case files={count} {options}")
        print(f"hash {corpus.hash():016x}")
        print(f"samples {train} {validation}")
        starts = [("train", g, corpus.train(g)) for g in range(3 * train + 5) if g < 60 or g > 3 * train]
        starts += [("validation", j, corpus.validation(j)) for j in range(validation)][:60]
        for split, number, a in starts:
            tokens, masked, documents = corpus.sample(a)
            print(split, number, "".join(map(str, masked)),
                  "".join(map(str, documents)) if corpus.document_mask else "-", *tokens)
    for step, ranks, B, G in ((0, 1, 2, 7), (3, 2, 2, 7), (5, 3, 1, 7), (2, 4, 3, 7), (1, 8, 1, 7)):
        for rank in range(ranks):
            print("step", step, rank, ranks, B, G, *ids_of(step, rank, ranks, B, G))


# ---- doc/formats/checkpoint.md --------------------------------------------------------------

MODEL = dict(layers=2, hidden=16, ffn=32, heads=2, kv_heads=1, head_dim=8, vocab=256, max_positions=64)
CONFIG = """[model]
preset =
layers = 2
hidden = 16
ffn = 32
heads = 2
kv_heads = 1
head_dim = 8
vocab = 256
max_positions = 64
norm = rms
activation = swiglu
positions = rotary
qk_norm = no
bias = none
tied = no
norm_eps = 1e-05
rotary_base = 10000
rotary_fraction = 1
[train]
decay_steps = 6
seed = 5
global_batch = 3
sequence = 16
[data]
split = 0.9,0.1
"""


def shapes():
    m = MODEL
    q, kv = m["heads"] * m["head_dim"], m["kv_heads"] * m["head_dim"]
    yield "embedding.token.weight", (m["vocab"], m["hidden"])
    for n in range(m["layers"]):
        for name, shape in (("attention.norm.weight", (m["hidden"],)),
                            ("attention.q.weight", (q, m["hidden"])),
                            ("attention.k.weight", (kv, m["hidden"])),
                            ("attention.v.weight", (kv, m["hidden"])),
                            ("attention.out.weight", (m["hidden"], q)),
                            ("ffn.norm.weight", (m["hidden"],)),
                            ("ffn.gate.weight", (m["ffn"], m["hidden"])),
                            ("ffn.up.weight", (m["ffn"], m["hidden"])),
                            ("ffn.out.weight", (m["hidden"], m["ffn"]))):
            yield f"layers.{n}.{name}", shape
    yield "head.norm.weight", (m["hidden"],)
    yield "head.weight", (m["vocab"], m["hidden"])


def put_text(file, name, value):
    import h5py
    data = value.encode()
    dataset = file.create_dataset(name, data=np.bytes_(data), dtype=f"S{len(data) + 1}")
    dataset.attrs.create("digest", xxh64(data), dtype="<u8")


def write(path, corpus_path):
    import h5py
    with open(corpus_path, "rb") as f:
        corpus = Corpus([list(f.read())], T=16, split=(0.9, 0.1), seed=5)
    steps, state = 2, 0
    with h5py.File(path, "w", libver=("earliest", "v108")) as file:
        for name, shape in shapes():
            count = int(np.prod(shape))
            weight = (np.sin(np.arange(count) * 0.37 + len(name)) * 0.05 +
                      (1 if len(shape) == 1 else 0)).astype("<f4").reshape(shape)
            for group, array in (("model", weight), ("optimizer/exp_avg", 0 * weight),
                                 ("optimizer/exp_avg_sq", 0 * weight)):
                dataset = file.create_dataset(f"{group}/{name}", data=array)
                digest = tensor_digest(name if group == "model" else f"{group}/{name}", array)
                dataset.attrs.create("digest", digest, dtype="<u8")
                state += digest if group == "model" else 0
        put_text(file, "config", CONFIG)
        put_text(file, "hosts", "0 by hand\n")
        for name, value in dict(format=1, step=steps, samples=3 * steps, tokens=3 * steps * 16,
                                data_tokens=len(corpus.tokens), adam_t=steps, decay_steps=6,
                                loss_scale_good_steps=0, loss_scale_hysteresis=0).items():
            file.attrs.create(name, value, dtype="<i8")
        for name, value in dict(loss=5.5, loss_scale=1).items():
            file.attrs.create(name, value, dtype="<f8")
        for name, value in dict(data_hash=corpus.hash(), digest=state & LONG).items():
            file.attrs.create(name, value, dtype="<u8")
        for name, value in dict(precision="fp32", build="documents.py", layout="").items():
            file.attrs.create(name, np.bytes_(value.encode() + b"\0"), dtype=f"S{len(value) + 1}")
    print(f"{state & LONG:016x} {corpus.hash():016x}")


def check(path):
    import h5py
    state, wrong = 0, []

    def visit(name, item):
        nonlocal state
        if not isinstance(item, h5py.Dataset):
            return
        if item.shape == ():
            found = xxh64(bytes(item[()]).split(b"\0")[0])
        else:
            title = name[len("model/"):] if name.startswith("model/") else name
            array = item[...]
            if item.id.get_type().get_size() == 2:  # bf16, which comes as float32
                array = (array.view("u4") >> 16).astype("u2")
            found = tensor_digest(title, array)
            state += found if name.startswith("model/") else 0
        if found != int(item.attrs["digest"]):
            wrong.append(name)

    with h5py.File(path, "r") as file:
        file.visititems(visit)
        if state & LONG != int(file.attrs["digest"]):
            wrong.append("digest")
        print(f"{state & LONG:016x} {int(file.attrs['data_hash']):016x}", *wrong)
    return bool(wrong)


def normed(x, w, b, m):
    if m["norm"] == "layer":
        x = x - x.mean(-1, keepdims=True)
    return w * x / np.sqrt((x * x).mean(-1, keepdims=True) + float(m["norm_eps"])) + b


def turned(x, m):  # (T, heads, head_dim)
    if m["positions"] != "rotary":
        return x
    half = int(float(m["rotary_fraction"]) * x.shape[2]) // 2
    j = np.arange(half)
    a = np.arange(len(x))[:, None, None] * float(m["rotary_base"]) ** (-j / half)
    u, v = x[..., :half], x[..., half:2 * half]
    return np.concatenate((u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a), x[..., 2 * half:]), -1)


def loss(path, corpus_path):
    import h5py
    with h5py.File(path, "r") as file:
        lines = bytes(file["config"][()]).split(b"\0")[0].decode().split("[model]")[1].split("\n[")[0].splitlines()
        m = {k.strip(): v.split(" ;")[0].strip() for k, v in (line.split("=", 1) for line in lines if "=" in line)}
        names = []
        file["model"].visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        weights = {name: file["model"][name][...].astype("f8") for name in names}
    with open(corpus_path, "rb") as f:
        tokens = np.frombuffer(f.read(), dtype="u1")
    places = len(tokens) - 1
    heads, kv_heads, head_dim = (int(m[k]) for k in ("heads", "kv_heads", "head_dim"))

    def w(name):
        return weights.get(name, 0.0)

    def linear(x, name):
        return x @ w(name + ".weight").T + w(name + ".bias")

    def norm(x, name):
        return normed(x, w(name + ".weight"), w(name + ".bias"), m)

    x = w("embedding.token.weight")[tokens[:-1]]
    if m["positions"] == "learned":
        x = x + w("embedding.position.weight")[:places]
    for n in range(int(m["layers"])):
        a, f = f"layers.{n}.attention.", f"layers.{n}.ffn."
        y = norm(x, a + "norm")
        q, k, v = (linear(y, a + c).reshape(places, -1, head_dim) for c in "qkv")
        if m["qk_norm"] == "yes":
            q, k = (normed(z, w(f"{a}{c}_norm.weight"), 0, dict(m, norm="rms")) for z, c in ((q, "q"), (k, "k")))
        q, k = turned(q, m), turned(k, m)
        out = np.empty_like(q)
        for h in range(heads):
            g = h * kv_heads // heads
            s = np.where(np.tri(places, dtype=bool), q[:, h] @ k[:, g].T / np.sqrt(head_dim), -np.inf)
            s = np.exp(s - s.max(-1, keepdims=True))
            out[:, h] = s / s.sum(-1, keepdims=True) @ v[:, g]
        x = x + linear(out.reshape(places, -1), a + "out")
        y = norm(x, f + "norm")
        if m["activation"] == "swiglu":
            z = linear(y, f + "gate")
            y = z / (1 + np.exp(-z)) * linear(y, f + "up")
        else:
            z = linear(y, f + "in")
            y = z / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z ** 3)))
        x = x + linear(y, f + "out")
    logits = norm(x, "head.norm") @ w("embedding.token.weight" if m["tied"] == "yes" else "head.weight").T
    top = logits.max(-1)
    each = np.log(np.exp(logits - top[:, None]).sum(-1)) + top - logits[np.arange(places), tokens[1:]]
    print(f"{each.mean():.12f}")


if __name__ == "__main__":
    command, arguments = sys.argv[1], sys.argv[2:]
    sys.exit({"samples": samples, "write": write, "check": check, "loss": loss}[command](*arguments))
