#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes regression/golden/corpus: two small corpora, by the builder of Megatron Core.

    pip download --no-deps megatron-core==0.16.1 && unzip megatron_core*.whl -d FOLDER
    PYTHONPATH=FOLDER python make_corpus.py      (needs torch and numpy)

What the files hold is told by Megatron Core's own reader, one document a line.
"""

import os

import numpy
import torch
from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")
# Tokens of the sequences of each document; the second name has modes as well.
CORPORA = {
    "u16": (numpy.uint16, False, 60000, [[17], [1], [0], [5, 0, 9], [], [40, 3], [2]]),
    "i32modes": (numpy.int32, True, 120000, [[0, 4], [31], [1, 1, 1], [0], [22]]),
}


def write(name, dtype, multimodal, vocab, documents):
    draw = numpy.random.default_rng(7)
    prefix = os.path.join(FOLDER, name)
    builder = IndexedDatasetBuilder(prefix + ".bin", dtype=dtype, multimodal=multimodal)
    for document in documents:
        for length in document:
            tokens = torch.from_numpy(draw.integers(0, vocab, length))
            builder.add_item(tokens, *([1] if multimodal else []))
        builder.end_document()
    builder.finalize(prefix + ".idx")


def tell(name, multimodal):
    prefix = os.path.join(FOLDER, name)
    data = IndexedDataset(prefix, multimodal=multimodal, mmap=False)
    with open(prefix + ".txt", "w", encoding="ascii") as out:
        border = data.document_indices
        for first, end in zip(border[:-1], border[1:]):
            tokens = []
            for sequence in range(first, end):
                item = data.get(sequence)
                tokens.extend(int(t) for t in (item[0] if multimodal else item))
            print(*tokens, file=out)


os.makedirs(FOLDER, exist_ok=True)
for key, (dtype, multimodal, vocab, documents) in CORPORA.items():
    write(key, dtype, multimodal, vocab, documents)
    tell(key, multimodal)
