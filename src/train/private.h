/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of train.h. */
#ifndef PENTA_TRAIN_PRIVATE_H
#define PENTA_TRAIN_PRIVATE_H

#include "penta/comm/watch.h"
#include "penta/train/train.h"

#include <sched.h>

enum { PT_MAX_MICRO_BATCHES = 65536, PT_PROBE = 384 /* width of the GEMM probe */ };

/* A trainer of which every byte, message and op can be counted, though nothing is
 * computed and no data is read. Warns of what a user may not have meant. Local
 * (transport: dry). */
pt_status_t pt_trainer_create_dry(const pt_config_t *config, pt_transport_t *transport,
                                  pt_trainer_t *out);

/* Counted arenas against the memory of this host, before anything is placed. Local.
 * Fails: MEMORY. */
pt_status_t pt_train_check_memory(const pt_trainer_t *trainer);

/* Warns, once, where threads have to take turns on the CPUs of a host; gives each rank
 * CPUs of its own where there are just enough and run.bind allows. Local. */
void pt_train_settle_threads(const pt_trainer_t *trainer);
/* Pure: the CPUs of rank `rank` of the `ranks` of a host, all of which may use
 * `allowed`. False where there are fewer or more than they have threads (other work may
 * want the rest), or where the launcher has bound them. */
bool pt_train_choose_cpus(const cpu_set_t *allowed, int ranks, int rank, int threads,
                          cpu_set_t *out);

/* Does this run go on from that file: options that must stay the same, and the text?
 * *decay_steps becomes the length of the schedule to go on with. Fails: CONFIG
 * (common), naming what differs. */
pt_status_t pt_train_check_belongs(const pt_trainer_t *trainer,
                                   const pt_checkpoint_reader_t *reader,
                                   const char *path, int64_t *decay_steps);
/* Asks that of the file a resume will take, as far as it can be read, before memory is
 * placed: loading says the rest. Collective. Fails: CONFIG (common). */
pt_status_t pt_train_look_ahead(pt_trainer_t *trainer);

/* A rank's valid labels, or 0 where another rank counts the same ones: summed over the
 * world. */
int64_t pt_train_counted(const pt_trainer_t *trainer, int64_t valid);

/* Names the first parameter whose gradient is not finite on this rank, else says so;
 * raises NUMERIC. */
pt_status_t pt_train_explain_nonfinite(pt_trainer_t *trainer,
                                       const pt_step_result_t *step);

/* Before a save: weights that are not finite would only push good checkpoints out.
 * NUMERIC, common. */
pt_status_t pt_train_check_weights(pt_trainer_t *trainer);

/* "penta 0.1.0 (revision), HDF5 …, MPI …, BLAS …, compiler". */
void pt_train_build_text(const pt_trainer_t *trainer, char *buffer, size_t size);
/* "0 host\n1 host\n…" on rank 0, "" elsewhere. Collective. Caller frees with
 * pt_free. */
pt_status_t pt_train_host_map(pt_trainer_t *trainer, char **out);

/* Rate of matrix products, FLOP/s, summed over ranks: what MFU is measured against on a
 * device whose peak is not known. Collective. */
pt_status_t pt_train_measure_peak(pt_trainer_t *trainer, double *flops);

#endif
