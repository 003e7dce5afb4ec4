/* SPDX-License-Identifier: Apache-2.0 */
/* session.h — a model at work on this rank, assembled in one place (layer: session).
 *
 * A machine is where it works: device, stream, engine, mesh. A session is what works there: parameter
 * table, schedule, units, model, optimizer, and the arenas in which all of it lies. Options say what is
 * wanted: training or inference, how many chunks, a cache for decoding; a dry machine makes a
 * session of which every byte and message can be counted, though nothing is computed. Users (a run, a
 * plan, sampling, tests) read what they need from the structs, and add their own tensors to the
 * layout. */
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
    char device[32], isa[32]; /* as run.device, run.isa */
    pt_gpu_direct_t gpu_direct;
    int threads;
    uint64_t seed; /* of what the device does at random */
    int units;     /* of the parameter table, at most */
    const pt_config_t
        *layout; /* its parallel.* cut the world; NULL: the world is one rank */
} pt_machine_options_t;

/* What the configuration asks for, but for `units`; dry: the dry device, which neither holds nor computes
 * anything. */
pt_machine_options_t pt_machine_options(const pt_config_t *config, bool dry);

typedef struct pt_machine {
    pt_device_t *device;
    pt_stream_t *stream; /* the one that computes */
    pt_engine_t *engine;
    pt_mesh_t mesh;
} pt_machine_t;

/* Collective (transport, borrowed). All ranks succeed or none; on failure nothing is left open. Warns where ranks
 * compute with different instructions or libraries. Fails: CONFIG, MEMORY. Caller closes. */
pt_status_t pt_machine_open(pt_transport_t *transport,
                            const pt_machine_options_t *options, pt_machine_t *out);
void pt_machine_close(pt_machine_t *machine);

/* ---- session -------------------------------------------------------------------------------- */

/* A user's own tensors, after the session's: called once to count and once to place. */
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

/* Tells the run that this rank is alive: called every now and then in whatever takes long. Local. */
static inline void pt_session_tick(const pt_session_t *session)
{
    pt_watch_beat();
    if (session->tick)
        session->tick(session->tick_self);
}

/* Everything but memory. *out must not move. Local: the caller agrees. On failure *out is as destroyed.
 * Fails: CONFIG, MEMORY, INTERNAL. */
pt_status_t pt_session_create(pt_machine_t *machine,
                              const pt_session_options_t *options, pt_session_t *out);
/* How much memory it wants: arena[].peak. What was placed is freed. Local. */
pt_status_t pt_session_count(pt_session_t *session);
/* Takes the memory that was counted; weights, gradients and moments are zero. Local. Fails: MEMORY. */
pt_status_t pt_session_place(pt_session_t *session);
/* Before the machine is closed. A zeroed session is no harm. */
void pt_session_destroy(pt_session_t *session);

/* Accumulators on the device, of 2·PT_SUM_WORDS words together, one behind the other to `out`; waits for
 * them. Of a dry device nothing comes. Local. */
pt_status_t pt_session_fetch(pt_session_t *session, const pt_tensor_t *from, int count,
                             void *out);

#endif
