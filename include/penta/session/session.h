/* SPDX-License-Identifier: Apache-2.0 */
/* session.h — the model of this rank and all it needs, assembled in one place (layer:
 * session).
 *
 * A machine is the device, stream, engine and mesh of this rank. A session is a model
 * on a machine: parameter table, schedule, units, model, optimizer, and the arenas that
 * hold their memory. Options select training or inference, the number of chunks, or a
 * cache for decoding. On a dry machine every byte and message of a session can be
 * counted, though nothing is computed. Users (a run, a plan, sampling, tests) read the
 * fields they need and add their own tensors to the layout. */
#ifndef PENTA_SESSION_H
#define PENTA_SESSION_H

#include "penta/comm/mesh.h"
#include "penta/comm/watch.h"
#include "penta/config/config.h"
#include "penta/model/arch.h"
#include "penta/model/model.h"
#include "penta/optim/optim.h"
#include "penta/parallel/schedule.h"
#include "penta/parallel/units.h"

/* ---- machine -------------------------------------------------------------------------------- */

typedef struct pt_machine_options {
    pt_device_kind_t device;
    pt_isa_t isa;
    pt_gpu_direct_t gpu_direct;
    int threads;
    uint64_t seed; /* of what the device does at random */
    int units;     /* of the parameter table, at most */
    const pt_config_t
        *layout; /* its parallel.* cut the world; NULL: the world is one rank */
} pt_machine_options_t;

/* Options as the configuration has them, except `units`. dry: the dry device, which
 * holds no memory and computes nothing. */
pt_machine_options_t pt_machine_options(const pt_config_t *config, bool dry);

typedef struct pt_machine {
    pt_device_t *device;
    pt_stream_t *stream; /* the one that computes */
    pt_engine_t *engine;
    pt_mesh_t mesh;
} pt_machine_t;

/* Opens device, engine and mesh. Warns if ranks compute with different instruction sets
 * or libraries.
 *   transport   [in] borrowed
 * Collective; all ranks succeed or none, and on failure nothing is left open. The
 * caller closes *out. Fails: CONFIG, MEMORY. */
pt_status_t pt_machine_open(pt_transport_t *transport,
                            const pt_machine_options_t *options, pt_machine_t *out);
void pt_machine_close(pt_machine_t *machine);

/* ---- session -------------------------------------------------------------------------------- */

/* Lays out the user's own tensors, after those of the session: called once to count and
 * once to place. */
typedef pt_status_t (*pt_session_layout_fn)(void *self,
                                            pt_arena_t arena[PT_CLASS_COUNT]);

typedef struct pt_session_options {
    const pt_arch_t *arch; /* copied */
    int stages, chunks;    /* of the pipeline; chunks of each stage. 0: one */
    int micro_batches; /* of a step on this rank; 0: inference, which has weights only */
    pt_schedule_kind_t schedule;
    void (*rearrange)(
        pt_schedule_t *schedule); /* its actions, before they are checked; NULL */
    pt_units_options_t units; /* weight_dtype, weights_only: the session's business */
    pt_model_options_t model; /* slots, fused, training: the session's business */
    const pt_config_t *optimizer; /* borrowed; NULL: there is none */
    pt_session_layout_fn own;     /* NULL: none */
    void *self;                   /* of `own` */
} pt_session_options_t;

typedef struct pt_session {
    pt_device_t *device; /* these four are the machine's, borrowed */
    pt_stream_t *stream;
    pt_engine_t *engine;
    const pt_mesh_t *mesh;
    pt_arch_t arch;
    pt_param_table_t table;
    pt_schedule_t schedule; /* of training; else zero */
    pt_schedule_facts_t facts;
    pt_units_t *units;
    pt_model_t *model;
    pt_optim_t *optim; /* NULL: none */
    pt_arena_t arena[PT_CLASS_COUNT];
    pt_tensor_t host_sums; /* host: [2, PT_SUM_WORDS] */
    pt_session_layout_fn own;
    void *self;
    void (*tick)(void *self); /* see pt_session_tick; NULL: nothing; set by the user */
    void *tick_self;
} pt_session_t;

/* Tells the run that this rank is alive. To be called regularly in long operations.
 * Local. */
static inline void pt_session_tick(const pt_session_t *session)
{
    pt_watch_beat();
    if (session->tick)
        session->tick(session->tick_self);
}

/* Creates everything except memory. *out must not be moved. Local: the caller agrees.
 * After a failure *out is as destroyed. Fails: CONFIG, MEMORY, INTERNAL. */
pt_status_t pt_session_create(pt_machine_t *machine,
                              const pt_session_options_t *options, pt_session_t *out);
/* Counts the memory of each arena (arena[].peak); memory that was placed before is
 * freed. Local. */
pt_status_t pt_session_count(pt_session_t *session);
/* Allocates the memory that was counted; weights, gradients and moments are zero.
 * Local. Fails: MEMORY. */
pt_status_t pt_session_place(pt_session_t *session);
/* To be called before the machine is closed. A zeroed session may be destroyed. */
void pt_session_destroy(pt_session_t *session);

/* Copies accumulators from the device to the host and waits for them.
 *   from   [in] `count` accumulators, at most 2·PT_SUM_WORDS words together
 *   out    [out] the accumulators one after the other; not written on a dry device
 * Local. */
pt_status_t pt_session_fetch(pt_session_t *session, const pt_tensor_t *from, int count,
                             void *out);

#endif
