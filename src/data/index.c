/* SPDX-License-Identifier: Apache-2.0 */
/* Reads .idx files of Megatron-LM, version 1 (doc/formats/corpus.md). Nothing in them
 * is trusted. */
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
    PIECE = 8192 /* numbers of a column per read */
};

/* A column of the index, read from its beginning. */
typedef struct column {
    int64_t at, left; /* byte offset in the file; numbers left to read */
    int width;
    int64_t held, used; /* numbers in `bytes` */
    uint8_t bytes[PIECE * 8];
} column_t;

/* State of the check of a whole index. */
typedef struct index_reader {
    const pt_corpus_index_t *index;
    int64_t document_numbers;
    column_t length, offset, document;
} index_reader_t;

static uint64_t index_count_at(const uint8_t *from)
{
    uint64_t bits;

    memcpy(&bits, from, sizeof bits);
    return le64toh(bits);
}

static pt_status_t index_next(index_reader_t *reader, column_t *column, int64_t *out)
{
    uint32_t narrow;
    const uint8_t *from;

    if (column->used == column->held) {
        column->held = column->left < PIECE ? column->left : PIECE;
        column->used = 0;
        PT_TRY(pt_corpus_read_file(&reader->index->file, column->at,
                                   column->held * column->width, column->bytes));
        column->at += column->held * column->width;
        column->left -= column->held;
    }
    from = column->bytes + column->used++ * column->width;
    if (column->width == LENGTH_BYTES) {
        memcpy(&narrow, from, sizeof narrow);
        *out = (int32_t)le32toh(narrow);
    } else {
        *out = (int64_t)index_count_at(from);
    }
    return PT_OK;
}

/* Codes of the element types; 6 and 7 are floating-point and refused. */
static pt_status_t index_take_type(const pt_corpus_index_t *index, int code,
                                   pt_corpus_file_t *bin)
{
    static const struct {
        int width;
        bool is_signed;
    } types[] = {{0, false}, {1, false}, {1, true},  {2, true}, {4, true},
                 {8, true},  {0, false}, {0, false}, {2, false}};

    PT_CHECK(code != 6 && code != 7, PT_CONFIG,
             "%s: elements of type code %d are floating-point numbers, not tokens",
             index->file.path, code);
    PT_CHECK(code >= 1 && code < (int)(sizeof types / sizeof types[0]), PT_CONFIG,
             "%s: unknown type code %d; tokens have 1, 2, 3, 4, 5 or 8",
             index->file.path, code);
    bin->width = types[code].width;
    bin->is_signed = types[code].is_signed;
    return PT_OK;
}

/* Compares the counts with the size of the file and computes the offsets of the
 * columns. */
static pt_status_t index_take_counts(pt_corpus_index_t *index, uint64_t sequences,
                                     uint64_t numbers)
{
    int64_t bytes = index->file.bytes, needed, n = (int64_t)sequences;
    const char *path = index->file.path;

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
    /* Optional: a byte for each sequence, its mode, which does not affect tokens. */
    PT_CHECK(
        bytes == needed || bytes == needed + n, PT_CONFIG,
        "%s: %lld sequences and a document index of %lld make %lld bytes (%lld with "
        "modes), but it has %lld: truncated or damaged",
        path, (long long)n, (long long)numbers, (long long)needed,
        (long long)(needed + n), (long long)bytes);
    index->sequences = n;
    index->documents = (int64_t)numbers - 1;
    index->length_at = HEADER_BYTES;
    index->offset_at = index->length_at + n * LENGTH_BYTES;
    index->document_at = index->offset_at + n * OFFSET_BYTES;
    return PT_OK;
}

static pt_status_t index_read_header(pt_corpus_index_t *index, pt_corpus_file_t *bin)
{
    uint8_t header[HEADER_BYTES];
    const char *path = index->file.path;

    PT_CHECK(index->file.bytes >= HEADER_BYTES, PT_CONFIG,
             "%s: %lld bytes are less than the header of an index: truncated", path,
             (long long)index->file.bytes);
    PT_TRY(pt_corpus_read_file(&index->file, 0, HEADER_BYTES, header));
    PT_CHECK(memcmp(header, MAGIC, MAGIC_BYTES) == 0, PT_CONFIG,
             "%s: not an index of Megatron-LM: it does not begin with MMIDIDX", path);
    PT_CHECK(index_count_at(header + MAGIC_BYTES) == 1, PT_CONFIG,
             "%s: version %llu of the index format; this program reads version 1", path,
             (unsigned long long)index_count_at(header + MAGIC_BYTES));
    PT_TRY(index_take_type(index, header[MAGIC_BYTES + 8], bin));
    return index_take_counts(index, index_count_at(header + MAGIC_BYTES + 9),
                             index_count_at(header + MAGIC_BYTES + 17));
}

/* Checks one sequence. end: [in,out] byte of the .bin where the sequence before
 * ended. */
static pt_status_t index_take_sequence(index_reader_t *reader,
                                       const pt_corpus_file_t *bin, int64_t sequence,
                                       int64_t *end)
{
    const char *path = reader->index->file.path;
    int64_t length, offset;

    PT_TRY(index_next(reader, &reader->length, &length));
    PT_TRY(index_next(reader, &reader->offset, &offset));
    PT_CHECK(length >= 0, PT_CONFIG, "%s: sequence %lld has the length %lld: damaged",
             path, (long long)sequence, (long long)length);
    PT_CHECK(offset == *end, PT_CONFIG,
             "%s: sequence %lld begins at byte %lld of %s, the one before ends at "
             "%lld: damaged, or not written in order",
             path, (long long)sequence, (long long)offset, bin->path, (long long)*end);
    PT_CHECK(length <= (bin->bytes - offset) / bin->width, PT_CONFIG,
             "%s: sequence %lld needs %lld tokens from byte %lld on, but %s has %lld "
             "bytes: truncated, or of another index",
             path, (long long)sequence, (long long)length, (long long)offset, bin->path,
             (long long)bin->bytes);
    *end = offset + length * bin->width;
    return PT_OK;
}

/* Reads the next number of the document index: the first sequence of a document. */
static pt_status_t index_next_document(index_reader_t *reader, int64_t *first)
{
    int64_t before = *first, number = reader->document_numbers;

    PT_TRY(index_next(reader, &reader->document, first));
    PT_CHECK(*first >= before && *first <= reader->index->sequences, PT_CONFIG,
             "%s: number %lld of the document index is %lld, after %lld and of %lld "
             "sequences: damaged",
             reader->index->file.path, (long long)number, (long long)*first,
             (long long)before, (long long)reader->index->sequences);
    PT_CHECK((number > 0 || *first == 0) && (number < reader->index->documents ||
                                             *first == reader->index->sequences),
             PT_CONFIG,
             "%s: the document index goes from 0 to the number of sequences, %lld, but "
             "its number %lld is %lld: sequences without a document",
             reader->index->file.path, (long long)reader->index->sequences,
             (long long)number, (long long)*first);
    reader->document_numbers++;
    return PT_OK;
}

/* Checks all columns. */
static pt_status_t index_walk(index_reader_t *reader, const pt_corpus_file_t *bin)
{
    int64_t end = 0, first = 0;

    for (int64_t s = 0; s < reader->index->sequences; s++)
        PT_TRY(index_take_sequence(reader, bin, s, &end));
    for (int64_t d = 0; d <= reader->index->documents; d++)
        PT_TRY(index_next_document(reader, &first));
    PT_CHECK(end == bin->bytes, PT_CONFIG,
             "%s: its sequences end at byte %lld of %s, which has %lld: truncated, or "
             "of another index",
             reader->index->file.path, (long long)end, bin->path, (long long)bin->bytes);
    return PT_OK;
}

static pt_status_t index_check(const pt_corpus_index_t *index,
                               const pt_corpus_file_t *bin)
{
    pt_status_t status;
    index_reader_t *reader = NULL;

    PT_TRY(PT_NEW("check of an index", 1, &reader));
    reader->index = index;
    reader->length = (column_t){
        .at = index->length_at, .left = index->sequences, .width = LENGTH_BYTES};
    reader->offset = (column_t){
        .at = index->offset_at, .left = index->sequences, .width = OFFSET_BYTES};
    reader->document = (column_t){.at = index->document_at,
                                  .left = index->documents + 1,
                                  .width = DOCUMENT_BYTES};
    status = index_walk(reader, bin);
    pt_free(reader);
    return status;
}

/* The paths of a pair named as PATH.idx, PATH.bin or PATH. */
static void index_name_pair(const char *path, char idx[PT_CONFIG_TEXT + 8],
                            char bin[PT_CONFIG_TEXT + 8])
{
    size_t length = strlen(path);

    if (length > 4 && (strcmp(path + length - 4, ".idx") == 0 ||
                       strcmp(path + length - 4, ".bin") == 0))
        length -= 4;
    snprintf(idx, PT_CONFIG_TEXT + 8, "%.*s.idx", (int)length, path);
    snprintf(bin, PT_CONFIG_TEXT + 8, "%.*s.bin", (int)length, path);
}

pt_status_t pt_corpus_open_indexed(const char *option, const char *path, bool check,
                                   pt_corpus_index_t *index, pt_corpus_file_t *bin)
{
    char idx[PT_CONFIG_TEXT + 8], tokens[PT_CONFIG_TEXT + 8];

    index_name_pair(path, idx, tokens);
    PT_TRY(pt_corpus_open_file(option, idx, &index->file));
    PT_TRY(pt_corpus_open_file(option, tokens, bin));
    PT_TRY(index_read_header(index, bin));
    return check ? index_check(index, bin) : PT_OK;
}

/* ---- documents ------------------------------------------------------------------- */

/* Reads number `at` of the column that begins at byte `from`. It was 0 to `most` when
 * the index was checked. */
static pt_status_t index_number_of(const pt_corpus_file_t *idx, int64_t from,
                                   int64_t at, int64_t most, int64_t *out)
{
    uint8_t bytes[8];

    PT_TRY(pt_corpus_read_file(idx, from + at * (int64_t)sizeof bytes, sizeof bytes,
                               bytes));
    *out = (int64_t)index_count_at(bytes);
    PT_CHECK(*out >= 0 && *out <= most, PT_IO,
             "%s: byte %lld is not what it was when the run began: do not change the "
             "files of a corpus during a run",
             idx->path, (long long)(from + at * (int64_t)sizeof bytes));
    return PT_OK;
}

static pt_status_t index_start_of(const pt_corpus_index_t *index,
                                  const pt_corpus_file_t *idx,
                                  const pt_corpus_file_t *bin, int64_t document,
                                  int64_t *out)
{
    int64_t sequence;

    *out = bin->tokens;
    PT_TRY(index_number_of(idx, index->document_at, document, index->sequences,
                           &sequence));
    if (sequence == index->sequences)
        return PT_OK;
    PT_TRY(index_number_of(idx, index->offset_at, sequence, bin->bytes, out));
    *out /= bin->width;
    return PT_OK;
}

pt_status_t pt_corpus_index_start(const pt_corpus_index_t *index,
                                  const pt_corpus_file_t *bin, int64_t document,
                                  int64_t *out)
{
    return index_start_of(index, &index->file, bin, document, out);
}

pt_status_t pt_corpus_index_after(const pt_corpus_index_t *index,
                                  const pt_corpus_file_t *bin, int64_t token,
                                  int64_t *document)
{
    int64_t high = index->documents, start; /* the result is in *document … high */
    pt_corpus_file_t idx;
    pt_status_t status = pt_corpus_borrow(&index->file, &idx);

    *document = 0;
    while (status == PT_OK && *document < high) {
        int64_t middle = *document + (high - *document) / 2;
        status = index_start_of(index, &idx, bin, middle, &start);
        if (status == PT_OK && start <= token)
            *document = middle + 1;
        else
            high = middle;
    }
    pt_corpus_return(&index->file, &idx);
    return status;
}
