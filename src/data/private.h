/* SPDX-License-Identifier: Apache-2.0 */
/* private.h — shared by the files of src/data only. */
#ifndef PENTA_DATA_PRIVATE_H
#define PENTA_DATA_PRIVATE_H

#include "penta/data/data.h"

#include <sys/types.h>

enum { PT_SPLITS = 2, PT_BLEND_TABLES = 2, PT_CORPUS_OPTION = PT_CONFIG_ORIGIN + 32 };

/* In place of a descriptor: more files than may be open at once are opened for each read. */
enum { PT_OPEN_TO_READ = -2 };

typedef struct pt_corpus_file {
    char *path;
    int descriptor; /* or PT_OPEN_TO_READ */
    dev_t device;
    ino_t inode;
    int64_t bytes;
    int64_t start, tokens; /* of the corpus: [start, start + tokens) */
    int width;             /* bytes of a token, little-endian */
    bool is_signed;
} pt_corpus_file_t;

/* An index as it lies in its file: never held in memory, since it may have 10^8 documents on each of many ranks of a
 * host, and never mapped, since a mapped file cut short would end the process. */
typedef struct pt_corpus_index {
    pt_corpus_file_t file; /* path NULL: the file of the corpus has none */
    int64_t sequences, documents;
    int64_t length_at, offset_at, document_at; /* bytes where the columns begin */
} pt_corpus_index_t;

/* What is cut into samples and shuffled by itself: all files, or each of a blend. */
typedef struct pt_corpus_part {
    const char *name;                             /* borrowed, for messages */
    int64_t start, tokens;                        /* of the corpus */
    int64_t weight;                               /* in a blend */
    int64_t first[PT_SPLITS], samples[PT_SPLITS]; /* in samples of the part */
    int64_t before[PT_SPLITS];                    /* samples of the parts before it */
} pt_corpus_part_t;

/* Sample n of a blend: from which part, and how many came from it before in this period. */
typedef struct pt_blend_turn {
    int32_t part, used;
} pt_blend_turn_t;

struct pt_corpus {
    pt_corpus_file_t *files; /* none: dry */
    int file_count;
    pt_corpus_file_t *masks;       /* of the files; path NULL: all labels count */
    int mask_count;                /* 0: all labels count everywhere */
    char option[PT_CORPUS_OPTION]; /* that names the files, for messages */
    int64_t tokens;
    int64_t documents;
    int64_t *document; /* first token of each, ascending, document[0] == 0; unless indexes tell */
    int64_t document_room;
    pt_corpus_index_t
        *indexes; /* of the files; NULL: nobody asks for documents of an .idx */
    int64_t sequence, vocab;
    pt_format_t format;
    pt_corpus_part_t *parts;
    int part_count;
    int64_t samples[PT_SPLITS]; /* of all parts */
    int64_t period;             /* of the blend: sum of the weights; 0: no blend */
    pt_blend_turn_t *turns[PT_BLEND_TABLES]; /* of the first period, of later ones */
    uint64_t seed;
    bool shuffle, document_mask;
};

/* ---- corpus.c ---- */
/* Corpus `index` of data.validation. Fails as pt_corpus_open. */
pt_status_t pt_corpus_open_validation(const pt_config_t *config, int64_t vocab,
                                      int index, bool check, pt_corpus_t **out);
/* Index of the file that holds a token. */
int pt_corpus_file_of(const pt_corpus_t *corpus, int64_t token);

/* ---- files.c ---- */
/* Opens a file that `option` names; it is closed by pt_corpus_close_file also after a failure. Fails:
 * CONFIG, IO. */
pt_status_t pt_corpus_open_file(const char *option, const char *path,
                                pt_corpus_file_t *file);
void pt_corpus_close_file(pt_corpus_file_t *file);
/* Bytes [offset, offset + count) of one file. Fails: IO. */
pt_status_t pt_corpus_read_file(const pt_corpus_file_t *file, int64_t offset,
                                int64_t count, uint8_t *out);
/* Puts an opened file into *out for several reads: opened once where it is opened for each read. Whatever it
 * returns, pt_corpus_return follows. Fails: IO. */
pt_status_t pt_corpus_borrow(const pt_corpus_file_t *file, pt_corpus_file_t *out);
void pt_corpus_return(const pt_corpus_file_t *file, pt_corpus_file_t *borrowed);
/* Tokens [first, first + count) of one file; raw: room for 8·count bytes. Fails: IO, CONFIG (a token
 * that is not below vocab). */
pt_status_t pt_corpus_read_file_tokens(const pt_corpus_file_t *file, int64_t vocab,
                                       int64_t first, int64_t count, void *raw,
                                       int32_t *out);

/* ---- index.c ---- */
/* Opens PATH.idx and PATH.bin, whose elements are as the index says. check: reads all of the index once, in pieces,
 * and compares it with the .bin. Both files are closed by their user also after a failure. Fails: CONFIG, IO, MEMORY. */
pt_status_t pt_corpus_open_indexed(const char *option, const char *path, bool check,
                                   pt_corpus_index_t *index, pt_corpus_file_t *bin);
/* First token of a document, counted in the .bin. Fails: IO. */
pt_status_t pt_corpus_index_start(const pt_corpus_index_t *index,
                                  const pt_corpus_file_t *bin, int64_t document,
                                  int64_t *out);
/* The first document that begins after `token`; index->documents where none does. Fails: IO. */
pt_status_t pt_corpus_index_after(const pt_corpus_index_t *index,
                                  const pt_corpus_file_t *bin, int64_t token,
                                  int64_t *document);

/* ---- documents.c ---- */
/* Adds the document that begins at token `start`, not below those there are. */
pt_status_t pt_corpus_add_document(pt_corpus_t *corpus, int64_t start);
/* Finds the documents of all files: the files, and those inside them where somebody asks, for that
 * reads all of the text. Fails: CONFIG (escape), IO, MEMORY. */
pt_status_t pt_corpus_find_documents(pt_corpus_t *corpus, const char *separator,
                                     bool inside);
/* Where the next document begins. */
typedef struct pt_boundary {
    int64_t token;    /* the number of tokens where there is none */
    int64_t document; /* of the corpus, or of the index of `file` */
    int file;
} pt_boundary_t;
/* The first boundary after `token`. Fails: IO (of an index). */
pt_status_t pt_corpus_seek_boundary(const pt_corpus_t *corpus, int64_t token,
                                    pt_boundary_t *out);
/* The one after it. */
pt_status_t pt_corpus_next_boundary(const pt_corpus_t *corpus, pt_boundary_t *boundary);

/* ---- mask.c ---- */
/* Opens the masks of the files, which are open: the items of option `id` from `first` on; none where it
 * is empty. Fails: CONFIG (not the size of its file), IO. */
pt_status_t pt_corpus_open_masks(pt_corpus_t *corpus, const pt_config_t *config,
                                 pt_option_id_t id, int first);
/* Of tokens [first, first + count), across files: 1 where a prediction of it counts, else 0. Fails: IO,
 * CONFIG (another byte: naming file and place). */
pt_status_t pt_corpus_read_masks(const pt_corpus_t *corpus, int64_t first,
                                 int64_t count, uint8_t *out);

/* ---- blend.c ---- */
/* Makes the tables from the weights of the parts: 16 bytes for each of their sum. Fails: MEMORY. */
pt_status_t pt_corpus_blend(pt_corpus_t *corpus);
/* Part of training sample `id`, and how many samples came from it before. Pure. */
int pt_corpus_turn(const pt_corpus_t *corpus, int64_t id, int64_t *use);

/* ---- sampler.c ---- */
/* Cuts the parts into samples, these into shares; train 0: there is no training. Fails: CONFIG (nothing to
 * train or, without training, to validate on). */
pt_status_t pt_corpus_cut(pt_corpus_t *corpus, double train, double validation);
/* First token of sample `index` of a split. Pure. */
int64_t pt_corpus_first_token(const pt_corpus_t *corpus, pt_split_t split,
                              int64_t index);

#endif
