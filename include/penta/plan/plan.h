/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h — what a run will need, before it runs (layer: plan).
 *
 * A plan is a dry run: the trainer is made on the dry device and wire and takes one step, so its
 * numbers come from the arenas, shards, executor and engine of the run, not from formulas beside
 * them. */
#ifndef PENTA_PLAN_H
#define PENTA_PLAN_H

#include "penta/train/train.h"

#include <jansson.h>

typedef struct pt_plan {
    int ranks, rank;
    int64_t parameters;            /* of the whole model */
    int64_t bytes[PT_CLASS_COUNT]; /* of this rank */
    int64_t total_bytes;
    pt_ledger_t setup,
        step; /* this rank's traffic until the first step, and of one step */
    pt_op_count_t step_ops[PT_OP_COUNT];
    int64_t micro_batches;     /* a rank, a step */
    int64_t sequences, tokens; /* a step */
} pt_plan_t;

/* Local: rank `rank` of `ranks`. Fails: CONFIG, MEMORY (address space). */
pt_status_t pt_plan_create(const pt_config_t *config, int rank, int ranks,
                           pt_plan_t *out);
json_t *pt_plan_json(const pt_plan_t *plan); /* caller's */

#endif
