/* SPDX-License-Identifier: Apache-2.0 */
/* state.h — parameters and files (layer: state).
 *
 * A checkpoint has a dataset for each part of each parameter, and one for each of its
 * moments. A rank holds hyperslabs of them in the flat buffers of its buckets. Only
 * this module maps one to the other; save, load, initial weights, sampling, digest and
 * replica check use it. Its users decide when to save and what to load. */
#ifndef PENTA_STATE_H
#define PENTA_STATE_H

#include "penta/io/checkpoint.h"
#include "penta/session/session.h"

/* ---- datasets: of the table alone ----------------------------------------------------------------- */

/* Number of datasets of one kind of state. */
int64_t pt_state_datasets(const pt_param_table_t *table);
/* Lists the datasets of a kind, in the order of the table.
 *   dtype   [in] element type in the file
 *   out     [out] pt_state_datasets entries */
void pt_state_list(const pt_param_table_t *table, pt_state_kind_t kind,
                   pt_dtype_t dtype, pt_checkpoint_tensor_t *out);
/* Checks that a file has the weights of this model, by name and shape, and no others.
 * Local. Fails: CONFIG (common), naming the first difference. */
pt_status_t pt_state_check_model(const pt_param_table_t *table,
                                 const pt_checkpoint_reader_t *reader, const char *path);

/* ---- the mapping ------------------------------------------------------------------------------- */

typedef struct pt_stored {
    const pt_part_t *part;
    int64_t dataset; /* of those of a kind, as listed */
    bool owner; /* this rank owns these elements: it writes them and counts them in digests */
    pt_hyperslab_t
        slab; /* of the dataset; .local counts from the first element of the rank's range of the bucket */
} pt_stored_t;
typedef pt_status_t (*pt_stored_fn)(void *self, const pt_stored_t *stored);

/* The range of a bucket that this rank exchanges with files: its shard or, without an
 * optimizer, all of it. */
pt_bucket_range_t pt_state_range(const pt_session_t *session, int bucket);
/* Calls `visit` for each hyperslab in that range, until one fails. Local. */
pt_status_t pt_state_visit(const pt_session_t *session, int bucket, pt_stored_fn visit,
                           void *self);

/* ---- a session's state ------------------------------------------------------------------------- */

typedef struct pt_state {
    pt_session_t *session;  /* borrowed; set by the user */
    pt_tensor_t digest_sum; /* device accumulator */
    pt_tensor_t
        wide; /* device: a bucket as a file has it, where nothing else has that type; or absent */
    void *snapshot; /* host: this rank's range of one bucket, in the type of files */
} pt_state_t;

/* Lays out its memory; to be called from pt_session_layout_fn of the session's user. */
pt_status_t pt_state_layout(pt_state_t *state, pt_arena_t arena[PT_CLASS_COUNT]);

/* Gathers the first `kinds` states from the shards, after they were loaded or
 * initialised, on every replica, and computes weights from master weights. Collective.
 * Requires an optimizer. */
pt_status_t pt_state_gather(pt_state_t *state, int kinds);

typedef struct pt_state_file {
    const char *path, *config, *hosts; /* texts of the file */
    const char *record;                /* as in pt_checkpoint_set_record; or NULL */
    pt_verify_t verify;                /* as in pt_checkpoint_publish */
} pt_state_file_t;
/* Writes weights and moments to a new file and publishes it; fills in header->digest.
 * Collective; all ranks return the same. Fails: IO (survivable), MEMORY. */
pt_status_t pt_state_save(pt_state_t *state, const pt_state_file_t *file,
                          pt_checkpoint_header_t *header);
/* Reads the first `kinds` states (weights, then moments) of all parameters, verified
 * and whole on every replica. Collective, agreed. Fails: DAMAGED (a dataset is missing
 * or has another shape; elements are not those written), IO. */
pt_status_t pt_state_load(pt_state_t *state, pt_checkpoint_reader_t *reader,
                          const char *path, int kinds);

/* State digest of the weights (sum over owned elements of all ranks). Collective. */
pt_status_t pt_state_digest(pt_state_t *state, uint64_t *out);
/* Compares digests of every replica, of all that replicas have in common; `step` is for
 * the message. INTERNAL (common) naming both, or the minority of three and more.
 * Collective. */
pt_status_t pt_state_check_replicas(pt_state_t *state, int64_t step);

#endif
