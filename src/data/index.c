/* SPDX-License-Identifier: Apache-2.0 */
/* The .idx files of Megatron-LM, version 1 (doc/formats/corpus.md): trusted in nothing. */
#include "src/data/private.h"

#include "penta/base/alloc.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

#define MAGIC "MMIDIDX\0"
enum {
    MAGIC_BYTES = 9,
    HEADER_BYTES = MAGIC_BYTES + 8 + 1 + 8 + 8,
    LENGTH_BYTES = 4,
    OFFSET_BYTES = 8,
    DOCUMENT_BYTES = 8,
    PIECE = 8192 /* numbers of a column read at once */
};

/* A column of the index, read from its beginning on. */
typedef struct column {
    int64_t at, left; /* byte in the file, numbers not read yet */
    int width;
    int64_t held, used; /* numbers in `bytes` */
    uint8_t bytes[PIECE * 8];
} column_t;

typedef struct index_reader {
    pt_corpus_file_t file; /* the .idx */
    int64_t sequences, documents, document_numbers;
    column_t length, offset, document;
} index_reader_t;

static pt_status_t next(index_reader_t *reader, column_t *column, int64_t *out)
{
    uint64_t wide;
    uint32_t narrow;
    const uint8_t *from;

    if (column->used == column->held) {
        column->held = column->left < PIECE ? column->left : PIECE;
        column->used = 0;
        PT_TRY(pt_corpus_read_file(&reader->file, column->at,
                                   column->held * column->width, column->bytes));
        column->at += column->held * column->width;
        column->left -= column->held;
    }
    from = column->bytes + column->used++ * column->width;
    if (column->width == LENGTH_BYTES) {
        memcpy(&narrow, from, sizeof narrow);
        *out = (int32_t)le32toh(narrow);
    } else {
        memcpy(&wide, from, sizeof wide);
        *out = (int64_t)le64toh(wide);
    }
    return PT_OK;
}

/* Codes of element types; 6 and 7 are floating-point. */
static pt_status_t take_type(const index_reader_t *reader, int code,
                             pt_corpus_file_t *bin)
{
    static const struct {
        int width;
        bool is_signed;
    } types[] = {{0, false}, {1, false}, {1, true},  {2, true}, {4, true},
                 {8, true},  {0, false}, {0, false}, {2, false}};

    PT_CHECK(code != 6 && code != 7, PT_CONFIG,
             "%s: elements of type code %d are floating-point numbers, no tokens",
             reader->file.path, code);
    PT_CHECK(code >= 1 && code < (int)(sizeof types / sizeof types[0]), PT_CONFIG,
             "%s: unknown type code %d; tokens have 1, 2, 3, 4, 5 or 8",
             reader->file.path, code);
    bin->width = types[code].width;
    bin->is_signed = types[code].is_signed;
    return PT_OK;
}

static uint64_t count_at(const uint8_t *from)
{
    uint64_t bits;

    memcpy(&bits, from, sizeof bits);
    return le64toh(bits);
}

/* Compares the counts with the size of the file and lays out the columns. */
static pt_status_t take_counts(index_reader_t *reader, uint64_t sequences,
                               uint64_t numbers)
{
    int64_t bytes = reader->file.bytes, needed, n = (int64_t)sequences;
    const char *path = reader->file.path;

    PT_CHECK(sequences <= (uint64_t)bytes / (LENGTH_BYTES + OFFSET_BYTES) &&
                 numbers <= (uint64_t)bytes / DOCUMENT_BYTES,
             PT_CONFIG,
             "%s: %llu sequences and a document index of %llu need more than its %lld "
             "bytes: truncated or damaged",
             path, (unsigned long long)sequences, (unsigned long long)numbers,
             (long long)bytes);
    PT_CHECK(sequences > 0 && numbers > 0, PT_CONFIG, "%s: no %s", path,
             sequences == 0 ? "sequences in it" : "document index");
    needed = HEADER_BYTES + n * (LENGTH_BYTES + OFFSET_BYTES) +
             (int64_t)numbers * DOCUMENT_BYTES;
    /* One more byte a sequence: modes, which say nothing of tokens. */
    PT_CHECK(
        bytes == needed || bytes == needed + n, PT_CONFIG,
        "%s: %lld sequences and a document index of %lld make %lld bytes (%lld with "
        "modes), but it has %lld: truncated or damaged",
        path, (long long)n, (long long)numbers, (long long)needed,
        (long long)(needed + n), (long long)bytes);
    reader->sequences = n;
    reader->documents = (int64_t)numbers - 1;
    reader->length.at = HEADER_BYTES;
    reader->length.width = LENGTH_BYTES;
    reader->length.left = n;
    reader->offset.at = reader->length.at + n * LENGTH_BYTES;
    reader->offset.width = OFFSET_BYTES;
    reader->offset.left = n;
    reader->document.at = reader->offset.at + n * OFFSET_BYTES;
    reader->document.width = DOCUMENT_BYTES;
    reader->document.left = (int64_t)numbers;
    return PT_OK;
}

static pt_status_t read_header(index_reader_t *reader, pt_corpus_file_t *bin)
{
    uint8_t header[HEADER_BYTES];
    const char *path = reader->file.path;

    PT_CHECK(reader->file.bytes >= HEADER_BYTES, PT_CONFIG,
             "%s: %lld bytes are less than the header of an index: truncated", path,
             (long long)reader->file.bytes);
    PT_TRY(pt_corpus_read_file(&reader->file, 0, HEADER_BYTES, header));
    PT_CHECK(memcmp(header, MAGIC, MAGIC_BYTES) == 0, PT_CONFIG,
             "%s: no index of Megatron-LM: it does not begin with MMIDIDX", path);
    PT_CHECK(count_at(header + MAGIC_BYTES) == 1, PT_CONFIG,
             "%s: version %llu of the index format; this program reads version 1", path,
             (unsigned long long)count_at(header + MAGIC_BYTES));
    PT_TRY(take_type(reader, header[MAGIC_BYTES + 8], bin));
    return take_counts(reader, count_at(header + MAGIC_BYTES + 9),
                       count_at(header + MAGIC_BYTES + 17));
}

/* One sequence: it begins where the one before ended, at byte *end of the .bin. */
static pt_status_t take_sequence(index_reader_t *reader, const pt_corpus_file_t *bin,
                                 int64_t sequence, int64_t *end)
{
    const char *path = reader->file.path;
    int64_t length, offset;

    PT_TRY(next(reader, &reader->length, &length));
    PT_TRY(next(reader, &reader->offset, &offset));
    PT_CHECK(length >= 0, PT_CONFIG, "%s: sequence %lld has the length %lld: damaged",
             path, (long long)sequence, (long long)length);
    PT_CHECK(
        offset == *end, PT_CONFIG,
        "%s: sequence %lld begins at byte %lld of %s, the one before ends at %lld: "
        "damaged, or not written one after the other",
        path, (long long)sequence, (long long)offset, bin->path, (long long)*end);
    PT_CHECK(length <= (bin->bytes - offset) / bin->width, PT_CONFIG,
             "%s: sequence %lld needs %lld tokens from byte %lld on, but %s has %lld "
             "bytes: truncated, or of another index",
             path, (long long)sequence, (long long)length, (long long)offset, bin->path,
             (long long)bin->bytes);
    *end = offset + length * bin->width;
    return PT_OK;
}

/* The next number of the document index: the sequence a document begins with. */
static pt_status_t next_document(index_reader_t *reader, int64_t *first)
{
    int64_t before = *first, number = reader->document_numbers;

    PT_TRY(next(reader, &reader->document, first));
    PT_CHECK(*first >= before && *first <= reader->sequences, PT_CONFIG,
             "%s: number %lld of the document index is %lld, after %lld and of %lld "
             "sequences: damaged",
             reader->file.path, (long long)number, (long long)*first, (long long)before,
             (long long)reader->sequences);
    PT_CHECK((number > 0 || *first == 0) &&
                 (number < reader->documents || *first == reader->sequences),
             PT_CONFIG,
             "%s: the document index goes from 0 to the number of sequences, %lld, but "
             "its number %lld is %lld: sequences without a document",
             reader->file.path, (long long)reader->sequences, (long long)number,
             (long long)*first);
    reader->document_numbers++;
    return PT_OK;
}

/* Walks the columns side by side. Documents without tokens are none. */
static pt_status_t walk(index_reader_t *reader, pt_corpus_t *corpus,
                        bool with_documents, const pt_corpus_file_t *bin)
{
    int64_t end = 0, first = 0;
    bool begins = false; /* a document, with the next token */

    PT_TRY(next_document(reader, &first));
    for (int64_t s = 0; s < reader->sequences; s++) {
        int64_t start = end;
        for (; first == s && reader->document_numbers <= reader->documents;
             begins = true)
            PT_TRY(next_document(reader, &first));
        PT_TRY(take_sequence(reader, bin, s, &end));
        if (begins && end > start) {
            if (with_documents)
                PT_TRY(pt_corpus_add_document(corpus, bin->start + start / bin->width));
            begins = false;
        }
    }
    while (reader->document_numbers <= reader->documents)
        PT_TRY(next_document(reader, &first));
    PT_CHECK(end == bin->bytes, PT_CONFIG,
             "%s: its sequences end at byte %lld of %s, which has %lld: truncated, or "
             "of another index",
             reader->file.path, (long long)end, bin->path, (long long)bin->bytes);
    return PT_OK;
}

/* PATH.idx, PATH.bin and PATH name the same pair. */
static void name_pair(const char *path, char idx[PT_CONFIG_TEXT + 8],
                      char bin[PT_CONFIG_TEXT + 8])
{
    size_t length = strlen(path);

    if (length > 4 && (strcmp(path + length - 4, ".idx") == 0 ||
                       strcmp(path + length - 4, ".bin") == 0))
        length -= 4;
    snprintf(idx, PT_CONFIG_TEXT + 8, "%.*s.idx", (int)length, path);
    snprintf(bin, PT_CONFIG_TEXT + 8, "%.*s.bin", (int)length, path);
}

pt_status_t pt_corpus_open_indexed(pt_corpus_t *corpus, const char *path,
                                   bool with_documents, pt_corpus_file_t *file)
{
    pt_status_t status = PT_OK;
    index_reader_t *reader = NULL;
    char idx[PT_CONFIG_TEXT + 8], bin[PT_CONFIG_TEXT + 8];

    name_pair(path, idx, bin);
    PT_TRY(PT_NEW("index of a corpus file", 1, &reader));
    PT_TRY_GOTO(release, pt_corpus_open_file(corpus->option, idx, &reader->file));
    PT_TRY_GOTO(release, pt_corpus_open_file(corpus->option, bin, file));
    PT_TRY_GOTO(release, read_header(reader, file));
    PT_TRY_GOTO(release, walk(reader, corpus, with_documents, file));
release:
    pt_corpus_close_file(&reader->file);
    pt_free(reader);
    return status;
}
