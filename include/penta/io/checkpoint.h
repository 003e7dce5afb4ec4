/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.h — checkpoint files in HDF5 (layer: io): bytes and formats, no policy.
 * The format is described in doc/formats/checkpoint.md.
 *
 *   /model/NAME, /optimizer/exp_avg/NAME,
 *   /optimizer/exp_avg_sq/NAME              global tensors, contiguous
 *   /config, /hosts                         texts
 *   root attributes                         see pt_checkpoint_header_t
 *   attribute `digest` of a tensor          uint64, of tensor NAME, as in digest.h
 *   attribute `digest` of a text            its XXH64
 *
 * A file is written as NAME.h5.partial and, once it is durable, published by renaming
 * it. A published file is never changed. Writers pass disjoint hyperslabs that together
 * cover every tensor. */
#ifndef PENTA_CHECKPOINT_H
#define PENTA_CHECKPOINT_H

#include "penta/base/hyperslab.h"
#include "penta/comm/comm.h"

enum { PT_CHECKPOINT_FORMAT = 1, PT_CHECKPOINT_TEXT = 256 };

typedef struct pt_checkpoint_header {
    int64_t step, samples, tokens; /* steps done, data consumed */
    int64_t adam_t, decay_steps;
    int64_t data_tokens; /* size of the corpus; it determines the order of samples */
    uint64_t data_hash;  /* pt_corpus_hash */
    double loss;
    double loss_scale;             /* fp16; otherwise 1 */
    int64_t loss_scale_good_steps; /* see pt_loss_scale_t in optim.h */
    int64_t loss_scale_hysteresis;
    uint64_t digest; /* of the weights: sum of the digests of the tensors */
    char precision[8];
    char build[PT_CHECKPOINT_TEXT];  /* version, revision, HDF5, MPI, BLAS, compiler */
    char layout[PT_CHECKPOINT_TEXT]; /* for information only */
} pt_checkpoint_header_t;

#define PT_CHECKPOINT_WEIGHTS "model" /* group of the weights */

typedef struct pt_checkpoint_tensor {
    char group[32]; /* PT_CHECKPOINT_WEIGHTS, "optimizer/exp_avg", … */
    char name[64];
    uint64_t id; /* pt_name_id of the name for weights, else of group/name */
    pt_dtype_t dtype;
    int ndim;
    int64_t shape[PT_HYPERSLAB_DIMS];
} pt_checkpoint_tensor_t;

bool pt_checkpoint_is_weight(const pt_checkpoint_tensor_t *tensor);

/* Must be called before MPI starts. It decouples the end of HDF5 from MPI_Finalize:
 * there HDF5 would crash after a file it could not close, for example on a full disk,
 * because it keeps a handle to freed memory. Local. */
void pt_checkpoint_before_mpi(void);

/* Versions of the libraries that write files: "HDF5 1.10.8, MPICH Version: 4.0.2". */
void pt_checkpoint_libraries(char *buffer, size_t size);

typedef struct pt_checkpoint_writer pt_checkpoint_writer_t;

/* Checks the free space and creates PATH.partial with all tensors allocated.
 * path: final name of the file.
 * tensors, count: borrowed until publish; the same on all ranks.
 * config_ini, hosts: the texts /config and /hosts.
 * out: [out] the writer, freed by pt_checkpoint_publish.
 * Collective; all ranks return the same status. Fails: IO (survivable). */
pt_status_t pt_checkpoint_create(pt_comm_t *comm, const char *path,
                                 const pt_checkpoint_tensor_t *tensors, int count,
                                 const char *config_ini, const char *hosts,
                                 pt_checkpoint_writer_t **out);
/* Writes a hyperslab and adds it to the digest of the tensor.
 * tensor: index in `tensors` of pt_checkpoint_create.
 * slab: global part; slab->local is ignored.
 * host: its elements, dense.
 * Local: ranks write independently, without MPI. */
pt_status_t pt_checkpoint_write(pt_checkpoint_writer_t *writer, int tensor,
                                const pt_hyperslab_t *slab, const void *host);
/* Sets the file that records the step when this checkpoint is published
 * (pt_published_read); the record outlives the checkpoint. A record that cannot be
 * written is a warning.
 * path: borrowed until publish; NULL: none.
 * Local. */
void pt_checkpoint_set_record(pt_checkpoint_writer_t *writer, const char *path);
/* Verification of a new file (checkpoint.verify): metadata; also the digests; also all
 * elements, which are read back. */
typedef enum pt_verify { PT_VERIFY_NONE, PT_VERIFY_DIGEST, PT_VERIFY_FULL } pt_verify_t;
/* Publishes the checkpoint: close and fsync on every rank; digests, header and fsync on
 * rank 0; reopen and verify; rename; fsync of the directory.
 * writer: freed in any case.
 * status: status of this rank so far. If any rank failed, all ranks return that failure
 *   and the partial file is removed.
 * header: [in,out] its digest is computed here.
 * verify: what is verified.
 * Collective. */
pt_status_t pt_checkpoint_publish(pt_checkpoint_writer_t *writer, pt_status_t status,
                                  pt_checkpoint_header_t *header, pt_verify_t verify);

typedef struct pt_checkpoint_reader pt_checkpoint_reader_t;

/* Opens a checkpoint; checks format, sizes and header. All ranks succeed, or none.
 * comm: a communicator of one rank for tools.
 * out: [out] closed by the caller.
 * Collective.
 * Fails: DAMAGED, naming file and defect; IO if a rank cannot read it, or if its format
 * is another one. */
pt_status_t pt_checkpoint_open(pt_comm_t *comm, const char *path,
                               pt_checkpoint_reader_t **out);
void pt_checkpoint_close(pt_checkpoint_reader_t *reader); /* Collective */
const pt_checkpoint_header_t *pt_checkpoint_header(const pt_checkpoint_reader_t *reader);
/* Texts of the file, borrowed until close. */
const char *pt_checkpoint_config(const pt_checkpoint_reader_t *reader);
const char *pt_checkpoint_hosts(const pt_checkpoint_reader_t *reader);
int pt_checkpoint_tensors(const pt_checkpoint_reader_t *reader);
const pt_checkpoint_tensor_t *pt_checkpoint_tensor(const pt_checkpoint_reader_t *reader,
                                                   int index);
uint64_t pt_checkpoint_tensor_digest(const pt_checkpoint_reader_t *reader,
                                     int index); /* as stored */
int pt_checkpoint_find_tensor(const pt_checkpoint_reader_t *reader, const char *group,
                              const char *name); /* -1: none */
/* Reads a hyperslab into dense host memory.
 * tensor: index in the file.
 * dtype: type of `host`. Conversion from the stored type is exact; a narrower type is
 *   refused, unless pt_checkpoint_allow_rounding was called.
 * slab: global part; slab->local is ignored.
 * counts: add the stored elements to the digest of the tensor. If several ranks read
 *   the same elements, exactly one of them sets it.
 * host: [out] the elements.
 * Local. Fails: IO, also for a type that is too narrow; DAMAGED. */
pt_status_t pt_checkpoint_read(pt_checkpoint_reader_t *reader, int tensor,
                               pt_dtype_t dtype, const pt_hyperslab_t *slab,
                               bool counts, void *host);
/* Allows rounding to the nearest number of a narrower type: for initial weights, not
 * for a resume. Local. */
void pt_checkpoint_allow_rounding(pt_checkpoint_reader_t *reader);
/* Compares the digests of all elements read with the stored digests. Each element must
 * have been counted by exactly one rank.
 * Collective. Fails: DAMAGED, naming the first tensor that differs. */
pt_status_t pt_checkpoint_verify_read(pt_checkpoint_reader_t *reader);

/* ---- directory ------------------------------------------------------------------- */

typedef struct pt_checkpoint_entry {
    char path[4096];
    int64_t step;
} pt_checkpoint_entry_t;

/* The directory checkpoints/ of a run directory. Returns `buffer`. */
const char *pt_checkpoint_directory(const char *run_dir, char *buffer, size_t size);
/* The path of a checkpoint: step_00000100.h5 in `directory`. Returns `buffer`. */
const char *pt_checkpoint_path(const char *directory, int64_t step, char *buffer,
                               size_t size);
/* Lists published files by falling step, without opening them. A missing directory has
 * none. out: [out] the caller frees it with pt_free.
 * Local. */
pt_status_t pt_checkpoint_list(const char *directory, pt_checkpoint_entry_t **out,
                               int *count);
/* Records the step published last: a JSON object with `step` and `time`.
 * Local. Fails: IO. */
pt_status_t pt_published_write(const char *path, int64_t step);
/* Step of that record; -1: none. Local. */
int64_t pt_published_read(const char *path);

/* Tries a checkpoint. DAMAGED: the next file may be tried. */
typedef pt_status_t (*pt_checkpoint_try_fn)(const char *path, void *self);
/* A pt_checkpoint_try_fn that checks only metadata, not elements. */
pt_status_t pt_checkpoint_look(const char *path, void *unused);
/* Finds the newest usable checkpoint: passes the published files to `attempt`, the
 * newest first, until it returns another status than DAMAGED. Skips, with a warning,
 * damaged files and files whose name does not match the step in their header. If a file
 * has disappeared since it was listed, the directory is listed again.
 * comm: rank 0 lists the directory for all ranks; NULL: this process alone.
 * advice: text of the error if all files are damaged; NULL: no warnings.
 * attempt: NULL: take the newest file without trying it.
 * self: passed to `attempt`.
 * found: [out] the file; its path is "" if there is none.
 * Collective.
 * Fails: IO (all files are damaged, or one cannot be read), or as `attempt`. */
pt_status_t pt_checkpoint_newest(pt_comm_t *comm, const char *directory,
                                 const char *advice, pt_checkpoint_try_fn attempt,
                                 void *self, pt_checkpoint_entry_t *found);
/* Sets aside files that this run neither read nor wrote, such as damaged ones it
 * skipped and copies: files of steps after `last`, the last one of the run, up to
 * `step`, which is published next. Each is renamed, with a warning, to NAME.h5.kept-1,
 * or the first free number; no run uses it afterwards. Files that are not regular stay.
 * One rank. Fails: IO. */
pt_status_t pt_checkpoint_set_aside(const char *directory, int64_t last, int64_t step);
/* Removes old files after `step` was published: stale .partial files, and published
 * files up to that step beyond the newest `keep`.
 * keep_every: keep multiples of this step; 0: none.
 * Files of later steps stay: they belong to an earlier run that went further, and must
 * not displace new files. Only an intact file, by its metadata, with the step of its
 * name and the data of the file just published, counts and is removed. Others are set
 * aside as by pt_checkpoint_set_aside; a file that cannot be read stays.
 * One rank. Failures are warnings. */
void pt_checkpoint_retain(const char *directory, int64_t step, int64_t keep,
                          int64_t keep_every);

#endif
