/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.h — what a pipeline stage does, in order, as data (layer: parallel).
 *
 * A schedule is a list per stage of actions; sends and receives follow from it. One checker, one
 * simulator (plans), one executor. With one stage it is a list of F, B and W. */
#ifndef PENTA_SCHEDULE_H
#define PENTA_SCHEDULE_H

#include "penta/parallel/cut.h"
#include <stdbool.h>

typedef enum pt_action_kind { PT_ACTION_F, PT_ACTION_B, PT_ACTION_W } pt_action_kind_t;

typedef struct pt_action {
    pt_action_kind_t kind;
    int position;    /* of the cut, one of this stage's */
    int micro_batch; /* 0 … micro_batches-1 */
    /* Filled by pt_schedule_check: */
    int input_slot;  /* of the chunk's activations that dx needs: held from F to B */
    int weight_slot; /* of what dW needs: held from F to W; lowest free ones first */
    bool fused;      /* B and W: the W of this B follows at once, one pass does both */
    bool last;       /* F, W and a fused B: none of its kind follows at this position */
} pt_action_t;

typedef struct pt_schedule {
    const pt_cut_t *cut; /* borrowed */
    int stages; /* of the cut, which may be gone when the schedule is destroyed */
    int micro_batches;
    int *count;            /* actions of each stage; owned */
    pt_action_t **actions; /* [stage][count]; owned */
    /* Filled by pt_schedule_check for its stage, per position: slots in use at once, at most. */
    int *input_slots, *weight_slots;
} pt_schedule_t;

/* Values of parallel.schedule, in the order of the option table. */
typedef enum pt_schedule_kind {
    PT_SCHEDULE_1F1B,
    PT_SCHEDULE_GPIPE
} pt_schedule_kind_t;

/* Local. This version: several stages of one chunk, or one stage of several. Caller destroys. */
pt_status_t pt_schedule_create(pt_schedule_kind_t kind, const pt_cut_t *cut,
                               int micro_batches, pt_schedule_t *out);
void pt_schedule_destroy(pt_schedule_t *schedule);

typedef struct pt_schedule_facts {
    bool fused; /* every B is followed at once by its own W: output gradients need not be kept */
    bool ascending; /* W of each chunk and F of the last position come in ascending micro-batch order (R2) */
} pt_schedule_facts_t;

/* Every F, B, W exactly once, in dependency order, and no stage waits for ever (sends are begun, never
 * waited for there); fills the derived fields of `stage`'s actions and its facts. Local. Fails: CONFIG (common), naming the first
 * action at fault; MEMORY. */
pt_status_t pt_schedule_check(pt_schedule_t *schedule, int stage,
                              pt_schedule_facts_t *facts);

/* What the executor calls; `self` is the caller's. A fused B does its W in the same pass, layer by
 * layer; that W is then not called. The callbacks post and end what crosses stages: `action`
 * points into the stage's list, so they see what comes next and can post its receives ahead. */
typedef struct pt_executor_ops {
    void *self;
    pt_status_t (*forward)(void *self, const pt_action_t *action);
    pt_status_t (*backward)(void *self, const pt_action_t *action);
    pt_status_t (*weight)(void *self, const pt_action_t *action);
} pt_executor_ops_t;

/* Runs the stage's list. Collective over the axes its callbacks communicate on. */
pt_status_t pt_schedule_run(const pt_schedule_t *schedule, int stage,
                            const pt_executor_ops_t *ops);

#endif
