/* SPDX-License-Identifier: Apache-2.0 */
/* private.h — shared by the files of src/data only. */
#ifndef PENTA_DATA_PRIVATE_H
#define PENTA_DATA_PRIVATE_H

#include "penta/data/data.h"

#include <sys/types.h>

enum { PT_SPLITS = 2, PT_BLEND_TABLES = 2, PT_CORPUS_OPTION = PT_CONFIG_ORIGIN + 32 };

/* In place of a descriptor: the file is opened for each read, because of the limit of
 * open files. */
enum { PT_OPEN_TO_READ = -2 };

typedef struct pt_corpus_file {
    char *path;
    int descriptor; /* or PT_OPEN_TO_READ */
    dev_t device;
    ino_t inode;
    int64_t bytes;
    int64_t start, tokens; /* in the corpus: [start, start + tokens) */
    int width;             /* bytes of a token, little-endian */
    bool is_signed;
} pt_corpus_file_t;

/* An index, read from its file when needed. It is never held in memory, since it may
 * have 10^8 documents on each of many ranks of a host, and never mapped, since
 * truncation of a mapped file would kill the process. */
typedef struct pt_corpus_index {
    pt_corpus_file_t file; /* path NULL: the corpus file has no index */
    int64_t sequences, documents;
    int64_t length_at, offset_at, document_at; /* byte offsets of the columns */
} pt_corpus_index_t;

/* The unit of sampling and shuffling: all files, or each file of a blend. */
typedef struct pt_corpus_part {
    const char *name;                             /* borrowed, for messages */
    int64_t start, tokens;                        /* of the corpus */
    int64_t weight;                               /* in a blend */
    int64_t first[PT_SPLITS], samples[PT_SPLITS]; /* in samples of the part */
    int64_t before[PT_SPLITS];                    /* samples of earlier parts */
} pt_corpus_part_t;

/* Sample n of a blend: its part, and the samples taken from that part earlier in the
 * period. */
typedef struct pt_blend_turn {
    int32_t part, used;
} pt_blend_turn_t;

struct pt_corpus {
    pt_corpus_file_t *files; /* NULL: dry */
    int file_count;
    pt_corpus_file_t *masks;       /* of the files; path NULL: all labels count */
    int mask_count;                /* 0: all labels count everywhere */
    char option[PT_CORPUS_OPTION]; /* the option that names the files, for messages */
    int64_t tokens;
    int64_t documents;
    int64_t *document; /* first token of each, ascending, [0] == 0; not with indexes */
    int64_t document_room;
    pt_corpus_index_t *indexes; /* of the files; NULL: their documents are not needed */
    int64_t sequence, vocab;
    pt_format_t format;
    pt_corpus_part_t *parts;
    int part_count;
    int64_t samples[PT_SPLITS]; /* of all parts */
    int64_t period;             /* of the blend: sum of the weights; 0: no blend */
    pt_blend_turn_t *turns[PT_BLEND_TABLES]; /* of the first period; of later periods */
    uint64_t seed;
    bool shuffle, document_mask;
};

/* ---- corpus.c ---- */
/* Opens corpus `index` of data.validation. Fails as pt_corpus_open. */
pt_status_t pt_corpus_open_validation(const pt_config_t *config, int64_t vocab,
                                      int index, bool check, pt_corpus_t **out);
/* Index of the file that holds a token. */
int pt_corpus_file_of(const pt_corpus_t *corpus, int64_t token);

/* ---- files.c ---- */
/* Opens a file named by `option`. pt_corpus_close_file closes it, also after a failure.
 * Fails: CONFIG, IO. */
pt_status_t pt_corpus_open_file(const char *option, const char *path,
                                pt_corpus_file_t *file);
void pt_corpus_close_file(pt_corpus_file_t *file);
/* Reads bytes [offset, offset + count) of a file. Fails: IO. */
pt_status_t pt_corpus_read_file(const pt_corpus_file_t *file, int64_t offset,
                                int64_t count, uint8_t *out);
/* Opens a file once for several reads, if it would be opened for each read. out: [out]
 * the file to read. pt_corpus_return must follow, also after a failure.
 * Fails: IO. */
pt_status_t pt_corpus_borrow(const pt_corpus_file_t *file, pt_corpus_file_t *out);
void pt_corpus_return(const pt_corpus_file_t *file, pt_corpus_file_t *borrowed);
/* Reads tokens [first, first + count) of a file. raw: scratch of 8·count bytes.
 * Fails: IO, CONFIG (a token not below vocab). */
pt_status_t pt_corpus_read_file_tokens(const pt_corpus_file_t *file, int64_t vocab,
                                       int64_t first, int64_t count, void *raw,
                                       int32_t *out);

/* ---- index.c ---- */
/* Opens PATH.idx and PATH.bin; the index gives the type of the tokens. The caller
 * closes both files, also after a failure.
 * check: read the whole index once, in pieces, and compare it with the .bin.
 * Fails: CONFIG, IO, MEMORY. */
pt_status_t pt_corpus_open_indexed(const char *option, const char *path, bool check,
                                   pt_corpus_index_t *index, pt_corpus_file_t *bin);
/* First token of a document, counted from the beginning of the .bin. Fails: IO. */
pt_status_t pt_corpus_index_start(const pt_corpus_index_t *index,
                                  const pt_corpus_file_t *bin, int64_t document,
                                  int64_t *out);
/* The first document that begins after `token`; index->documents: none. Fails: IO. */
pt_status_t pt_corpus_index_after(const pt_corpus_index_t *index,
                                  const pt_corpus_file_t *bin, int64_t token,
                                  int64_t *document);

/* ---- documents.c ---- */
/* Adds the document that begins at token `start`, which must not be below earlier
 * ones. */
pt_status_t pt_corpus_add_document(pt_corpus_t *corpus, int64_t start);
/* Finds the documents of all files: each file and, if `inside`, the documents separated
 * inside it, for which all text is read.
 * Fails: CONFIG (escape), IO, MEMORY. */
pt_status_t pt_corpus_find_documents(pt_corpus_t *corpus, const char *separator,
                                     bool inside);
/* The beginning of the next document. */
typedef struct pt_boundary {
    int64_t token;    /* number of tokens: there is none */
    int64_t document; /* in the corpus, or in the index of `file` */
    int file;
} pt_boundary_t;
/* Finds the first boundary after `token`. Fails: IO (of an index). */
pt_status_t pt_corpus_seek_boundary(const pt_corpus_t *corpus, int64_t token,
                                    pt_boundary_t *out);
/* Moves to the next boundary. Fails: IO (of an index). */
pt_status_t pt_corpus_next_boundary(const pt_corpus_t *corpus, pt_boundary_t *boundary);

/* ---- mask.c ---- */
/* Opens the masks of the open files: items of option `id`, from `first` on; none if the
 * option is empty.
 * Fails: CONFIG (size differs from the number of tokens), IO. */
pt_status_t pt_corpus_open_masks(pt_corpus_t *corpus, const pt_config_t *config,
                                 pt_option_id_t id, int first);
/* Reads the masks of tokens [first, first + count), across files: 1 if the prediction
 * of the token counts, else 0.
 * Fails: IO, CONFIG (another byte: naming file and position). */
pt_status_t pt_corpus_read_masks(const pt_corpus_t *corpus, int64_t first,
                                 int64_t count, uint8_t *out);

/* ---- blend.c ---- */
/* Computes the tables from the weights of the parts: 16 bytes per unit of their sum.
 * Fails: MEMORY. */
pt_status_t pt_corpus_blend(pt_corpus_t *corpus);
/* Part of training sample `id`. use: [out] samples taken from that part before it.
 * Pure. */
int pt_corpus_turn(const pt_corpus_t *corpus, int64_t id, int64_t *use);

/* ---- sampler.c ---- */
/* Divides the parts into samples, and these into the splits. train: 0 for a corpus of
 * validation.
 * Fails: CONFIG (no sample to train on; without training, none to validate on). */
pt_status_t pt_corpus_cut(pt_corpus_t *corpus, double train, double validation);
/* First token of sample `index` of a split. Pure. */
int64_t pt_corpus_first_token(const pt_corpus_t *corpus, pt_split_t split,
                              int64_t index);

#endif
