/* SPDX-License-Identifier: Apache-2.0 */
/* data.h — from files to micro-batches (layer: data).
 *
 * A corpus is a run of tokens with document boundaries. Sample k of a corpus of n tokens is tokens
 * [kT, kT + T + 1): T inputs and their labels, shifted before any split. The order of samples is
 * a pure function of (seed, epoch, index): nothing to save, independent of ranks. (Not the samples
 * of Megatron-LM, which shuffles documents, runs them together for all epochs and cuts that, so that
 * a sample depends on seed and number of epochs, and keeps three index files on disk. Here a sample
 * is one place of the files in every epoch and run, and is found by arithmetic.)
 * Global sample id g = epoch · samples + index in the epoch's order; step s takes ids [sG, (s+1)G).
 * With data.weights every file is cut and shuffled by itself and has its own epochs; the file of g, and
 * the samples taken from it before g, are a pure function of g and the weights (doc/formats/corpus.md).
 * Micro-batch i of replica r of W takes ids sG + (iW + r)B … + B - 1; ids past (s+1)G are padding:
 * wholly masked sequences. */
#ifndef PENTA_DATA_H
#define PENTA_DATA_H

#include "penta/parallel/batch.h"
#include "penta/comm/comm.h"
#include "penta/config/config.h"

typedef struct pt_corpus pt_corpus_t;

/* Opens the files of data.path and data.mask (a directory, an unreadable or an empty file, a mask that
 * has not a byte for each token: CONFIG or IO, naming it) and keeps them open, but for those near the limit of open
 * files (ulimit -n), which are opened for each read. What is in them: data.format, doc/formats/corpus.md. text: token = byte; a
 * document is a file, or what data.separator (\n \t \\ \xHH) ends inside a file; its bytes belong to
 * the document before it. idx: documents as the .idx says. u16, u32: a document is a file. Memory: 8 bytes a
 * document of text, none for those of an index, which stays in its file; 16 a sample of a blend's period (at most
 * PT_BLEND_PERIOD).
 * check: all of an .idx is read, once and in pieces, and compared with its .bin: one rank of each host does, and no
 * rank fills a sequence before all have agreed.
 * Local; every rank opens the files itself; the caller agrees. Caller closes. Fails: IO, CONFIG (too
 * short for one sample: says how many tokens are needed; files of a wrong or damaged format). */
pt_status_t pt_corpus_open(const pt_config_t *config, int64_t vocab, bool check,
                           pt_corpus_t **out);
/* No files: `tokens` tokens of one document, for plans. */
pt_status_t pt_corpus_open_dry(const pt_config_t *config, int64_t tokens,
                               pt_corpus_t **out);
void pt_corpus_close(pt_corpus_t *corpus);

/* A corpus of data.validation: all of it is the validation split, nothing the training split. */
typedef struct pt_validation {
    char name[PT_VALIDATION_NAME];
    pt_corpus_t *corpus;
    uint64_t hash; /* pt_corpus_hash */
} pt_validation_t;
/* All of them, in the order of the option, each opened as pt_corpus_open does, masks included; none:
 * NULL and 0. The caller closes. Fails as pt_corpus_open. */
pt_status_t pt_validation_open(const pt_config_t *config, int64_t vocab, bool check,
                               pt_validation_t **out, int *count);
void pt_validation_close(pt_validation_t *list, int count);

int64_t pt_corpus_tokens(const pt_corpus_t *corpus);
/* Files, unless data.document_mask asks for those inside files; those of an .idx that have no token count, too. */
int64_t pt_corpus_documents(const pt_corpus_t *corpus);

/* Hash of the tokens and their masks at positions throughout the corpus, the first and the last included. Another text
 * or mask of the same length almost always has another hash. Local. Fails: IO, CONFIG, as pt_corpus_fill. */
pt_status_t pt_corpus_hash(const pt_corpus_t *corpus, uint64_t *out);

typedef enum pt_split { PT_SPLIT_TRAIN, PT_SPLIT_VALIDATION } pt_split_t;
int64_t pt_corpus_samples(
    const pt_corpus_t *corpus,
    pt_split_t split); /* in one epoch; in a blend the sum of all files */

/* Sample number in the corpus of global id `id` of the training split. Pure. */
int64_t pt_corpus_sample_of(const pt_corpus_t *corpus, int64_t id);

/* One sequence, host arrays of T: what a batch carries. */
typedef struct pt_sequence {
    int32_t *token, *label, *place, *position;
    int32_t *document; /* counted from 0 in each sequence; unused without data.document_mask */
    int64_t *sample;
    uint8_t *mask;
} pt_sequence_t;
/* token, label and mask NULL: no text is wanted, and none is read; *valid is 0.
 * Fills a sequence from sample number `index` of `split`; id is what dropout is keyed by. index -1:
 * padding (token 0, mask 0). mask and *valid: labels that count, that is by data.mask of the label's own
 * token and, with data.document_mask, in the document of the token before it. Local. Fails: IO (naming
 * the file: unreadable, or shorter than when it was opened), CONFIG (a token that is not below
 * model.vocab, a mask that is neither 0 nor 1: naming file, place and value). */
pt_status_t pt_corpus_fill(const pt_corpus_t *corpus, pt_split_t split, int64_t index,
                           int64_t id, const pt_sequence_t *out, int64_t *valid);

/* The rank's batches: host staging and device copies of all micro-batches of a step, next step read
 * ahead. */
typedef struct pt_loader pt_loader_t;
typedef struct pt_loader_options {
    int64_t global_batch, micro_batch, sequence;
    int replicas, replica; /* size and index on the data axis */
    int contexts, context; /* zigzag cut of each sequence (this version: 1 and 0) */
    bool no_text; /* for a pipeline stage between the first and the last: no tokens, labels and masks */
    pt_engine_t
        *engine; /* borrowed: waits for copies; NULL: by stream_sync (tools, tests) */
} pt_loader_options_t;

int64_t pt_loader_micro_batches(const pt_loader_options_t *options); /* ceil(G / (W·B)) */
/* Global id of (step, micro-batch, sequence) of a replica; -1 for padding. Pure. */
int64_t pt_loader_id(const pt_loader_options_t *options, int64_t step,
                     int64_t micro_batch, int64_t sequence);

pt_status_t pt_loader_create(const pt_corpus_t *corpus,
                             const pt_loader_options_t *options, pt_device_t *device,
                             pt_loader_t **out);
void pt_loader_destroy(pt_loader_t *loader);
/* batch: device; staging: host. */
pt_status_t pt_loader_layout(pt_loader_t *loader, pt_arena_t *batch,
                             pt_arena_t *staging);
/* Reads step's sequences into host staging (unless read ahead) and puts the copies on `stream`, which
 * outlives the loader; *valid: this rank's valid labels, to be summed over data × context by the
 * caller. Local. Fails: IO, CONFIG (step x global batch beyond 64 bits). */
pt_status_t pt_loader_load(pt_loader_t *loader, int64_t step, pt_stream_t *stream,
                           int64_t *valid);
/* Reads `step` ahead into the half of host staging that is free, while the device computes; load of
 * that step then only copies. *valid as load gives. Never needed; a validation between them does not
 * disturb it. Local. */
pt_status_t pt_loader_prefetch(pt_loader_t *loader, int64_t step, int64_t *valid);
/* View of a micro-batch loaded last; loss_scale as the caller sets. */
pt_batch_view_t pt_loader_view(const pt_loader_t *loader, int64_t micro_batch);
/* Validation: sequences [first, first + B) of the validation split of `corpus`, opened with the options
 * of the loader's (past `end`: padding), as micro-batch 0. */
pt_status_t pt_loader_load_validation(pt_loader_t *loader, const pt_corpus_t *corpus,
                                      int64_t first, int64_t end, pt_stream_t *stream,
                                      int64_t *valid);

#endif
