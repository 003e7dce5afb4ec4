/* SPDX-License-Identifier: Apache-2.0 */
/* where.h — what this rank is doing now (layer: base).
 *
 * There is one struct per run. The step, the passes of the model and the training loop
 * write it; log lines, errors, status.json and injected failures read it. Plain data; a
 * field that does not apply is -1. */
#ifndef PENTA_WHERE_H
#define PENTA_WHERE_H

#include <stddef.h>
#include <stdint.h>

typedef enum pt_phase {
#define PT_PHASE(name, text) PT_PHASE_##name,
#include "penta/base/phase.def"
#undef PT_PHASE
    PT_PHASE_COUNT
} pt_phase_t;

typedef struct pt_where {
    pt_phase_t phase;
    int64_t step;
    int layer;
    int chunk;
    int micro_batch;
    const char *site; /* static text such as "attention"; NULL: none */
} pt_where_t;

#define PT_WHERE_INIT                                                                  \
    (pt_where_t)                                                                       \
    {                                                                                  \
        .phase = PT_PHASE_SETUP, .step = -1, .layer = -1, .chunk = -1,                 \
        .micro_batch = -1                                                              \
    }

const char *pt_phase_text(pt_phase_t phase);
/* "step 12, backward, layer 3, micro-batch 1, attention"; returns buffer. */
const char *pt_where_text(const pt_where_t *where, char *buffer, size_t size);

#endif
