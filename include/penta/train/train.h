/* SPDX-License-Identifier: Apache-2.0 */
/* train.h — a training run (layer: train). */
#ifndef PENTA_TRAIN_H
#define PENTA_TRAIN_H

#include "penta/io/checkpoint.h"
#include "penta/data/data.h"
#include "penta/state/state.h"

/* Memory, traffic and work of one rank of a run, counted before it runs. */
typedef struct pt_plan {
    int ranks, rank;
    int64_t parameters;            /* of the whole model */
    int64_t bytes[PT_CLASS_COUNT]; /* of this rank's arenas */
    int64_t total_bytes;
    int64_t staging_bytes; /* of them, what transfers need */
    pt_traffic_t setup,
        step; /* this rank's traffic until the first step, and of one step */
    pt_op_count_t step_ops[PT_OP_COUNT];
    int64_t micro_batches;     /* a rank, a step */
    int64_t sequences, tokens; /* a step */
} pt_plan_t;

/* Plans rank `rank` of `ranks`: creates a trainer on the dry device and transport and
 * runs one step, so the numbers come from the arenas, shards, executor and engine of
 * the run and not from separate formulas.
 *   device   [in] device of the run, which prepares the matrix products of the step;
 * NULL: only a plan is wanted
 *   out      [out] the plan
 * Local. Fails: CONFIG, MEMORY (address space). */
pt_status_t pt_train_plan(const pt_config_t *config, int rank, int ranks,
                          pt_device_t *device, pt_plan_t *out);

/* Everything a step needs, created in one place. */
typedef struct pt_trainer {
    const pt_config_t *config; /* borrowed */
    pt_machine_t machine;
    pt_session_t session;
    pt_corpus_t *corpus;
    pt_validation_t *validation; /* of data.validation */
    int validations;
    pt_loader_t *loader;
    pt_loader_options_t loading;
    pt_plan_t plan; /* made before the session, which takes its staging from it */
    pt_state_t state;
    pt_tensor_t norm_sum; /* device accumulator */
    pt_tensor_t probe[3]; /* square matrices that measure the GEMM rate */
    char *hosts;          /* "rank host" lines on rank 0, "" elsewhere */
    pt_where_t where;
    /* Valid labels of all ranks in this step, and in step next_step; this rank's of the
     * batch ahead. */
    int64_t valid, next_valid, next_step, prefetched;
    double work_sec;    /* of the last step, without waiting for other ranks */
    pt_error_t ahead;   /* why this rank has no batch ahead; PT_OK: it has */
    uint64_t data_hash; /* pt_corpus_hash; 0 in a plan */
    /* State of training, what a checkpoint holds beside tensors: */
    int64_t step;          /* done, skipped ones included: places in the data */
    int64_t t;             /* updates done: places in the learning rate and in AdamW */
    int64_t tokens;        /* valid labels of the steps done */
    pt_loss_scale_t scale; /* of the next step; value 1 in all but fp16 */
    int64_t decay_steps;   /* length of the learning-rate schedule */
} pt_trainer_t;

/* Sets a run up, to placed arenas and initial weights. Collective (transport). On
 * failure everything is undone. Fails: CONFIG, MEMORY, IO, all agreed (COMMON). */
pt_status_t pt_trainer_create(const pt_config_t *config, pt_transport_t *transport,
                              pt_trainer_t *out);
/* The same in two parts. After the first the run is known to be possible and no memory
 * is allocated, so that the caller can open its files. If the second fails, everything
 * is undone as well. */
pt_status_t pt_trainer_prepare(const pt_config_t *config, pt_transport_t *transport,
                               pt_trainer_t *out);
pt_status_t pt_trainer_place(pt_trainer_t *trainer);
void pt_trainer_destroy(pt_trainer_t *trainer);

typedef struct pt_step_result {
    double loss, grad_norm, lr; /* lr: of the update, also of one that was skipped */
    double loss_scale;          /* of this step */
    bool skipped;               /* fp16 overflowed: no update */
    int64_t valid_tokens;       /* N */
    bool stop, save;            /* some rank asked */
    double step_sec, data_sec, comm_sec;
    double works_sec; /* of the step before, without waiting for others: sum over ranks; 0: none */
    int64_t slow_ranks; /* that report to be slow */
} pt_step_result_t;

/* What this rank requests at the end of a step. Asked for when its work is done, just
 * before the ranks exchange requests. */
typedef struct pt_step_request {
    bool stop, save;
    bool slow; /* it makes the others wait */
} pt_step_request_t;
typedef pt_step_request_t (*pt_step_request_fn)(void *self);
/* Does this rank request a stop? Called every few seconds of an evaluation. */
typedef bool (*pt_want_stop_fn)(void *self);

/* One step. Collective. ask NULL: no requests. Fails: NUMERIC (common): non-finite loss
 * or norm, naming where; the state is then that before the step. IO, CONFIG (common):
 * the batch of this step cannot be read (the state is that before it), or that of the
 * next: then this one is done, `step` says so, and *out is filled. In fp16 such a step
 * is skipped on all ranks, and fails only where pt_loss_scale_next has no other scale
 * to try. */
pt_status_t pt_train_step(pt_trainer_t *trainer, pt_step_request_fn ask, void *self,
                          pt_step_result_t *out);
/* Mean loss over the labels that count of the validation split of data.path (which 0),
 * or of corpus which - 1 of data.validation; NaN where there are none. Collective.
 * Before each forward pass the ranks agree that all have read what it takes, and
 * whether to stop: asked before the first pass of the latter and every few seconds
 * (want_stop NULL: never); *stopped: cut short, no loss. Fails: NUMERIC (common) when
 * it is not finite; IO, CONFIG (common) when a rank cannot read. */
pt_status_t pt_train_evaluate(pt_trainer_t *trainer, int which,
                              pt_want_stop_fn want_stop, void *self, double *loss,
                              bool *stopped);
/* Whether it has sequences to validate on; `which` as above. */
bool pt_train_can_evaluate(const pt_trainer_t *trainer, int which);

/* Saves to a file and publishes it; `record`: as in pt_checkpoint_set_record. *digest:
 * of the weights. Collective; all ranks return the same. */
pt_status_t pt_train_save(pt_trainer_t *trainer, const char *path, const char *record,
                          double loss, uint64_t *digest);
/* Loads and verifies a file; *loss: as stored. Collective, agreed. Fails: IO (damaged,
 * survivable), CONFIG (it was made with other fixed options: names them). */
pt_status_t pt_train_load(pt_trainer_t *trainer, const char *path, double *loss);

typedef struct pt_resumed {
    char path[4096]; /* "": the run does not resume */
    double loss;
} pt_resumed_t;
/* By checkpoint.resume: newest complete file of `directory` (damaged ones are named and
 * skipped; only damaged ones: IO), a named file, or none (CONFIG when `directory` holds
 * a later one). Collective. */
pt_status_t pt_train_resume(pt_trainer_t *trainer, const char *directory,
                            pt_resumed_t *out);

typedef struct pt_initial {
    char path[4096]; /* "": the weights are drawn */
    int64_t step;    /* of that file */
    uint64_t digest; /* of the weights now in memory: that of the file, if it has their precision */
} pt_initial_t;
/* By train.init_from: the weights, and nothing else, of a checkpoint file or of the
 * newest complete one of a run directory (damaged ones are named and skipped).
 * Collective. Fails: CONFIG (no such file; another model: names the first tensor or
 * option that differs), IO (damaged). */
pt_status_t pt_train_init_from(pt_trainer_t *trainer, pt_initial_t *out);

typedef struct pt_train_result {
    int64_t step;
    double loss, validation_loss; /* NaN: none */
    uint64_t digest;
    pt_traffic_t traffic;
    int64_t peak_bytes[PT_CLASS_COUNT];
} pt_train_result_t;

/* The whole of `penta train`: header, loop, metrics, saves, stop logic, summary.
 * Re-entrant: several runs may follow each other in one process. Collective
 * (transport). `result` optional. Returns OK (finished), STOPPED (durable checkpoint),
 * or a failure: an agreed one (COMMON), or this rank's own (LOCAL: fatal; ABORTED is
 * one). */
pt_status_t pt_train_run(const pt_config_t *config, pt_transport_t *transport,
                         pt_train_result_t *result);

/* The stop flag: set by handlers of SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGXCPU and
 * SIGHUP.
 *
 * In the loop a SIGINT when it is set already means ABORTED, within a micro-batch.
 * Before the loop the ranks agree between the stages of set-up; a second signal of any
 * kind, or 20 s after the first one, ends the process by `leave`: whatever set-up waits
 * for may never come. */
typedef void (*pt_stop_leave_fn)(int exit_code); /* safe in a handler; does not return */
/* Blocks these signals: one that comes before pt_stop_install waits for it, also across
 * exec. */
void pt_stop_hold(void);
/* `leave` NULL: the process is never ended. hangup_is_ignored: SIGHUP stays as it is.
 * Unblocks them. */
void pt_stop_install(pt_stop_leave_fn leave, bool hangup_is_ignored);
/* What a run tells before its loop: the code to leave with (130 unless told), and, on
 * rank 0, the text that then replaces the file `path`. */
void pt_stop_set_exit_code(int code);
void pt_stop_set_last_words(const char *path, const char *text);
/* From here on signals do not end the process. */
void pt_stop_enter_loop(void);
int pt_stop_requested(void); /* number of requests */
/* The first signal, and when it came in seconds since 1970; false: none came. */
bool pt_stop_heard(int *signal_number, double *wall);

#endif
