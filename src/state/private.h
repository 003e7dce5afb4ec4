/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of state.h. */
#ifndef PENTA_STATE_PRIVATE_H
#define PENTA_STATE_PRIVATE_H

#include "penta/state/state.h"

/* The first dataset of which the file has none, or one of another shape. */
typedef struct pt_state_mismatch {
    int64_t dataset; /* -1: the file has all of them */
    pt_checkpoint_tensor_t wanted;
    const pt_checkpoint_tensor_t *found; /* of the reader; NULL: none */
} pt_state_mismatch_t;
/* Looks up the datasets of a kind: index[i] is the reader's tensor of dataset i (NULL:
 * not wanted), up to the first mismatch. Local. Fails: MEMORY. */
pt_status_t pt_state_match(const pt_param_table_t *table,
                           const pt_checkpoint_reader_t *reader, pt_state_kind_t kind,
                           int *index, pt_state_mismatch_t *first);

/* This rank's range of a state of a bucket on the device, in the type of files. */
pt_tensor_t pt_state_view(const pt_state_t *state, pt_state_kind_t kind, int bucket);

#endif
