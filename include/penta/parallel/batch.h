/* SPDX-License-Identifier: Apache-2.0 */
/* batch.h — the tokens of a micro-batch (layer: parallel). Plain data. */
#ifndef PENTA_BATCH_H
#define PENTA_BATCH_H

#include "penta/base/tensor.h"

/* One micro-batch on the device, n = B·T rows. All int32 [n] unless said; borrowed. */
typedef struct pt_batch_view {
    pt_tensor_t token, label;
    pt_tensor_t place; /* index in the sample: order for causality, dropout coordinate */
    pt_tensor_t position; /* rotary or learned position */
    pt_tensor_t document; /* data NULL: one document a sequence */
    pt_tensor_t sample;   /* int64 [n] global sample id */
    pt_tensor_t mask;     /* uint8 [n]: 1 where the label counts */
    int64_t sequences;    /* B */
    int64_t step;         /* for dropout */
    bool training;        /* false: no dropout, nothing kept */
    double loss_scale;    /* gradient of the loss sum: 1/N (times the fp16 scale) */
} pt_batch_view_t;

#endif
