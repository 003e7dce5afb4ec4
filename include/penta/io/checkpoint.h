/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.h — the HDF5 file (layer: io). Bytes and formats, no policy; format in
 * doc/formats/checkpoint.md.
 *
 *   /model/NAME, /optimizer/exp_avg/NAME, /optimizer/exp_avg_sq/NAME   global tensors, contiguous
 *   /config, /hosts                                                   texts
 *   root attributes: see pt_checkpoint_header_t
 *   per tensor: attribute `digest` (uint64, digest.h of the dataset's tensor NAME); per text: its
 *   XXH64
 *
 * A file is written as NAME.h5.partial and published by rename once it is durable; a published
 * file is never touched. Writers pass disjoint hyperslabs that cover every tensor. */
#ifndef PENTA_CHECKPOINT_H
#define PENTA_CHECKPOINT_H

#include "penta/base/hyperslab.h"
#include "penta/comm/comm.h"

enum { PT_CHECKPOINT_FORMAT = 1, PT_CHECKPOINT_TEXT = 256 };

typedef struct pt_checkpoint_header {
    int64_t step, samples, tokens; /* done and consumed */
    int64_t adam_t, decay_steps;
    int64_t data_tokens; /* in the corpus: with another number, samples come in another order */
    uint64_t data_hash; /* pt_corpus_hash */
    double loss;
    double loss_scale;             /* fp16; 1 otherwise */
    int64_t loss_scale_good_steps; /* its counters, pt_loss_scale_t of optim.h */
    int64_t loss_scale_hysteresis;
    uint64_t digest; /* of the model group: sum of its tensors' digests */
    char precision[8];
    char build[PT_CHECKPOINT_TEXT];  /* version, revision, HDF5, MPI, BLAS, compiler */
    char layout[PT_CHECKPOINT_TEXT]; /* provenance only */
} pt_checkpoint_header_t;

#define PT_CHECKPOINT_WEIGHTS "model" /* group of the weights */

typedef struct pt_checkpoint_tensor {
    char group[32]; /* PT_CHECKPOINT_WEIGHTS, "optimizer/exp_avg", … */
    char name[64];
    uint64_t id; /* pt_name_id of group/name for moments, of name for weights */
    pt_dtype_t dtype;
    int ndim;
    int64_t shape[PT_HYPERSLAB_DIMS];
} pt_checkpoint_tensor_t;

bool pt_checkpoint_is_weight(const pt_checkpoint_tensor_t *tensor);

/* Before MPI starts: HDF5 then does not end together with MPI, where a file that it could not close, on a full disk
 * say, would crash it (it keeps a handle to freed memory). Local. */
void pt_checkpoint_before_mpi(void);

/* "HDF5 1.10.8, MPICH Version: 4.0.2": the libraries that make files here. */
void pt_checkpoint_libraries(char *buffer, size_t size);

typedef struct pt_checkpoint_writer pt_checkpoint_writer_t;

/* Collective. Checks free space, creates PATH.partial with all tensors allocated. `tensors` borrowed
 * until publish; same on all ranks. All ranks return the same status. Fails: IO (survivable). */
pt_status_t pt_checkpoint_create(pt_comm_t *comm, const char *path,
                                 const pt_checkpoint_tensor_t *tensors, int count,
                                 const char *config_ini, const char *hosts,
                                 pt_checkpoint_writer_t **out);
/* Local (independent writes, no MPI): a hyperslab, whose elements are `host`, dense (slab->local is not
 * looked at); adds to the tensor's digest. */
pt_status_t pt_checkpoint_write(pt_checkpoint_writer_t *writer, int tensor,
                                const pt_hyperslab_t *slab, const void *host);
/* As soon as the file is published its step is put on record in the file `path` (pt_published_read), which is
 * to outlive it; a record that cannot be written is a warning. Borrowed until publish; NULL: none. Local. */
void pt_checkpoint_set_record(pt_checkpoint_writer_t *writer, const char *path);
/* Collective; consumes the writer whatever happens. `status` is this rank's outcome so far: any
 * failure removes the partial file and is returned by all. Otherwise: close, fsync on every rank;
 * rank 0 adds digests and header (its digest is filled in), fsync; reopen and check (verify:
 * PT_VERIFY of config.h as int); rename, fsync of the directory. */
pt_status_t pt_checkpoint_publish(pt_checkpoint_writer_t *writer, pt_status_t status,
                                  pt_checkpoint_header_t *header, int verify);

typedef struct pt_checkpoint_reader pt_checkpoint_reader_t;

/* Collective: opens and checks format, sizes and header; on all ranks or on none. comm of one rank
 * serves tools. Fails: DAMAGED, naming file and defect; IO where a rank cannot read it, or where it is of
 * another format. */
pt_status_t pt_checkpoint_open(pt_comm_t *comm, const char *path,
                               pt_checkpoint_reader_t **out);
void pt_checkpoint_close(pt_checkpoint_reader_t *reader); /* Collective */
const pt_checkpoint_header_t *pt_checkpoint_header(const pt_checkpoint_reader_t *reader);
/* Texts, borrowed until close. */
const char *pt_checkpoint_config(const pt_checkpoint_reader_t *reader);
const char *pt_checkpoint_hosts(const pt_checkpoint_reader_t *reader);
int pt_checkpoint_tensors(const pt_checkpoint_reader_t *reader);
const pt_checkpoint_tensor_t *pt_checkpoint_tensor(const pt_checkpoint_reader_t *reader,
                                                   int index);
uint64_t pt_checkpoint_tensor_digest(const pt_checkpoint_reader_t *reader,
                                     int index); /* as stored */
int pt_checkpoint_find_tensor(const pt_checkpoint_reader_t *reader, const char *group,
                              const char *name); /* -1 */
/* Local: a hyperslab into dense host memory, as above, converted to `dtype` when it differs: exactly, to a type
 * that holds all numbers of the stored one. counts: adds the stored elements to this reader's digest of the
 * tensor; of ranks that read the same ones, one does. Fails: IO, DAMAGED (IO also when `dtype` is too narrow, unless rounding is allowed). */
pt_status_t pt_checkpoint_read(pt_checkpoint_reader_t *reader, int tensor,
                               pt_dtype_t dtype, const pt_hyperslab_t *slab,
                               bool counts, void *host);
/* From here on a narrower type gets the nearest numbers: for weights to begin with, not to resume. Local. */
void pt_checkpoint_allow_rounding(pt_checkpoint_reader_t *reader);
/* Collective: compares the digests of what was read (each element by exactly one rank) with the stored
 * ones. Fails: DAMAGED, naming the first tensor that differs. */
pt_status_t pt_checkpoint_verify_read(pt_checkpoint_reader_t *reader);

/* ---- directory ---------------------------------------------------------------------------------- */

typedef struct pt_checkpoint_entry {
    char path[4096];
    int64_t step;
} pt_checkpoint_entry_t;

/* checkpoints/ of a run directory; into buffer, returned. */
const char *pt_checkpoint_directory(const char *run_dir, char *buffer, size_t size);
/* step_00000100.h5 in `directory`; into buffer, returned. */
const char *pt_checkpoint_path(const char *directory, int64_t step, char *buffer,
                               size_t size);
/* Published files by falling step (names only, nothing opened). A missing directory: none. Local.
 * Caller frees *out with pt_free. */
pt_status_t pt_checkpoint_list(const char *directory, pt_checkpoint_entry_t **out,
                               int *count);
/* The record of what was published: one object, with `step` and `time`. Local. Fails: IO. */
pt_status_t pt_published_write(const char *path, int64_t step);
/* Step of the file published last; -1: there is no such record. Local. */
int64_t pt_published_read(const char *path);

/* DAMAGED: another file may be tried. */
typedef pt_status_t (*pt_checkpoint_try_fn)(const char *path, void *self);
/* Such a function: is the file intact, as far as its metadata tell? Elements are not read. */
pt_status_t pt_checkpoint_look(const char *path, void *unused);
/* Gives `attempt` the published files of `directory`, the newest first, until one is not DAMAGED; those
 * that are, and those whose name says another step than their header, are named in warnings and skipped.
 * A file that vanished since it was listed is no failure: the directory is listed again. *found: the file
 * that was taken; its path is "" when there is none. attempt NULL: the newest, damaged or not; advice
 * NULL: without warnings. Collective, by rank 0's view of the directory; comm NULL: of this process alone.
 * Fails: IO (all are damaged: says so, and `advice`; or one cannot be read), or as attempt does. */
pt_status_t pt_checkpoint_newest(pt_comm_t *comm, const char *directory,
                                 const char *advice, pt_checkpoint_try_fn attempt,
                                 void *self, pt_checkpoint_entry_t *found);
/* Before `step` is published by a run whose last file is that of step `last`: files of the steps between and of
 * `step` itself are not its own (damaged ones that it skipped, copies). Each is renamed to NAME.h5.kept-1, or
 * the first number that is free, with a warning, and is nobody's from then on. What is no regular file stays.
 * One rank. Fails: IO. */
pt_status_t pt_checkpoint_set_aside(const char *directory, int64_t last, int64_t step);
/* After `step` was published: removes stale .partial files and, of the published ones up to that
 * step, those beyond the newest `keep`, sparing multiples of keep_every (0: none). Files of later
 * steps stay: a run that started again from an older file did not make them, and they must not push
 * out what it just saved. Only what by its metadata is an intact file of the step in its name, with the data of
 * the one just published, counts and is removed; what is not is set aside as above, what cannot be read
 * stays. One rank. Failures are warnings. */
void pt_checkpoint_retain(const char *directory, int64_t step, int64_t keep,
                          int64_t keep_every);

#endif
