/* SPDX-License-Identifier: Apache-2.0 */
/* data.h — from files to micro-batches (layer: data).
 *
 * A corpus is a sequence of tokens with document boundaries. Sample k of a corpus is
 * the tokens [kT, kT + T + 1): T inputs and their labels, shifted before any split. The
 * order of samples is a pure function of (seed, epoch, index), so it need not be saved
 * and does not depend on ranks.
 *
 * Megatron-LM selects samples differently: it concatenates shuffled documents of all
 * epochs, divides the result into samples, and stores three index files. A sample there
 * depends on the seed and the number of epochs. Here a sample is at the same position
 * of the files in every epoch and run, and is found by arithmetic.
 *
 * Global sample id g = epoch · samples + index in the order of the epoch.
 * Step s takes the ids [sG, (s+1)G).
 * Micro-batch i of replica r of W takes the ids sG + (iW + r)B … + B - 1.
 *
 * Ids from (s+1)G on are padding: sequences in which all labels are masked. With
 * data.weights each file has its own samples, order and epochs. The file of g, and the
 * number of samples taken from it before g, are a pure function of g and the weights
 * (doc/formats/corpus.md). */
#ifndef PENTA_DATA_H
#define PENTA_DATA_H

#include "penta/parallel/batch.h"
#include "penta/comm/comm.h"
#include "penta/config/config.h"

typedef struct pt_corpus pt_corpus_t;

/* Opens the files of data.path and data.mask and keeps them open; files near the limit
 * of open files (ulimit -n) are opened for each read instead.
 * config: data.format defines the content, see doc/formats/corpus.md.
 *   text: token = byte. A document is a file, or the text that data.separator
 *     (\n \t \\ \xHH) ends inside a file; the separator belongs to the document before.
 *   idx: documents as in the .idx. u16, u32: a document is a file.
 * vocab: token ids must be below it.
 * check: read the whole .idx, once and in pieces, and compare it with its .bin. One
 *   rank of each host checks, and no rank fills a sequence before all have agreed.
 * out: [out] closed by the caller.
 * Memory: 8 bytes a document of text; none for an .idx, which stays in its file; 16
 * bytes a sample of the period of a blend (at most PT_BLEND_PERIOD).
 * Local: every rank opens the files; the caller agrees. Fails, naming the file: IO,
 * CONFIG (a directory, an empty or damaged file, a wrong format, a mask without one
 * byte for each token, too few tokens for one sample). */
pt_status_t pt_corpus_open(const pt_config_t *config, int64_t vocab, bool check,
                           pt_corpus_t **out);
/* A corpus without files: one document of `tokens` tokens, for plans. */
pt_status_t pt_corpus_open_dry(const pt_config_t *config, int64_t tokens,
                               pt_corpus_t **out);
void pt_corpus_close(pt_corpus_t *corpus);

/* A corpus of data.validation. All of it is in the validation split. */
typedef struct pt_validation {
    char name[PT_VALIDATION_NAME];
    pt_corpus_t *corpus;
    uint64_t hash; /* pt_corpus_hash */
} pt_validation_t;
/* Opens all corpora of data.validation as pt_corpus_open does, masks included.
 * out: [out] array in the order of the option; NULL: none. The caller closes it.
 * count: [out] number of corpora.
 * Fails as pt_corpus_open. */
pt_status_t pt_validation_open(const pt_config_t *config, int64_t vocab, bool check,
                               pt_validation_t **out, int *count);
void pt_validation_close(pt_validation_t *list, int count);

int64_t pt_corpus_tokens(const pt_corpus_t *corpus);
/* Number of documents: files, unless data.document_mask is set. Documents of an .idx
 * that have no tokens count as well. */
int64_t pt_corpus_documents(const pt_corpus_t *corpus);

/* Hash of the tokens and masks at positions throughout the corpus, including the first
 * and the last. A different text or mask of the same length almost always has a
 * different hash.
 * Local. Fails: IO, CONFIG, as pt_corpus_fill. */
pt_status_t pt_corpus_hash(const pt_corpus_t *corpus, uint64_t *out);

typedef enum pt_split { PT_SPLIT_TRAIN, PT_SPLIT_VALIDATION } pt_split_t;
int64_t pt_corpus_samples(const pt_corpus_t *corpus,
                          pt_split_t split); /* in an epoch; blend: sum over files */

/* Sample number, in the corpus, of global id `id` of the training split. Pure. */
int64_t pt_corpus_sample_of(const pt_corpus_t *corpus, int64_t id);

/* One sequence of a batch: host arrays of T elements. */
typedef struct pt_sequence {
    int32_t *token, *label, *place, *position;
    int32_t *document; /* from 0 in each sequence; unused without data.document_mask */
    int64_t *sample;
    uint8_t *mask;
} pt_sequence_t;
/* Fills a sequence.
 * split, index: sample `index` of the split; -1: padding (token 0, mask 0).
 * id: key of dropout.
 * out: [out] token, label and mask NULL: the text is not read, and *valid is 0.
 * valid: [out] labels that count, which are those with mask 1. A label counts if
 *   data.mask counts its own token and, with data.document_mask, if it is in the
 *   document of the token before it.
 * Local.
 * Fails: IO, naming the file (unreadable, or shorter than when it was opened); CONFIG,
 * naming file, position and value (a token not below model.vocab, a mask other than 0
 * and 1). */
pt_status_t pt_corpus_fill(const pt_corpus_t *corpus, pt_split_t split, int64_t index,
                           int64_t id, const pt_sequence_t *out, int64_t *valid);

/* The batches of a rank: host staging and device copies of all micro-batches of a step.
 * The next step can be read ahead. */
typedef struct pt_loader pt_loader_t;
typedef struct pt_loader_options {
    int64_t global_batch, micro_batch, sequence;
    int replicas, replica; /* size and index on the data axis */
    int contexts, context; /* zigzag shards of a sequence (this version: 1 and 0) */
    bool no_text;          /* for middle pipeline stages: no tokens, labels and masks */
    pt_engine_t *engine;   /* borrowed, waits for copies; NULL: stream_sync */
} pt_loader_options_t;

/* ceil(G / (W·B)) */
int64_t pt_loader_micro_batches(const pt_loader_options_t *options);
/* Global id of (step, micro-batch, sequence) of a replica; -1: padding. Pure. */
int64_t pt_loader_id(const pt_loader_options_t *options, int64_t step,
                     int64_t micro_batch, int64_t sequence);

pt_status_t pt_loader_create(const pt_corpus_t *corpus,
                             const pt_loader_options_t *options, pt_device_t *device,
                             pt_loader_t **out);
void pt_loader_destroy(pt_loader_t *loader);
/* batch: device memory; staging: host memory. */
pt_status_t pt_loader_layout(pt_loader_t *loader, pt_arena_t *batch,
                             pt_arena_t *staging);
/* Reads the sequences of `step` into host staging, unless they were read ahead, and
 * enqueues the copies to the device.
 * stream: outlives the loader.
 * valid: [out] valid labels of this rank; the caller sums them over data × context.
 * Local. Fails: IO, CONFIG (step × global batch beyond 64 bits). */
pt_status_t pt_loader_load(pt_loader_t *loader, int64_t step, pt_stream_t *stream,
                           int64_t *valid);
/* Reads `step` ahead into the free half of host staging, while the device computes;
 * pt_loader_load then only copies. Optional. A validation in between does not discard
 * it.
 * valid: [out] as for pt_loader_load.
 * Local. Fails as pt_loader_load. */
pt_status_t pt_loader_prefetch(pt_loader_t *loader, int64_t step, int64_t *valid);
/* View of a micro-batch of the step loaded last. The caller sets loss_scale. */
pt_batch_view_t pt_loader_view(const pt_loader_t *loader, int64_t micro_batch);
/* Loads sequences [first, first + B) of the validation split as micro-batch 0; from
 * `end` on they are padding.
 * corpus: opened with the same options as the corpus of the loader.
 * Otherwise as pt_loader_load. */
pt_status_t pt_loader_load_validation(pt_loader_t *loader, const pt_corpus_t *corpus,
                                      int64_t first, int64_t end, pt_stream_t *stream,
                                      int64_t *valid);

#endif
