/* SPDX-License-Identifier: Apache-2.0 */
/* Finds where documents begin: at every file, and after every separator inside one. */
#include "src/data/private.h"

#include "penta/base/alloc.h"

#include <ctype.h>
#include <string.h>

enum { SCAN_BLOCK = 1 << 20, FIRST_ROOM = 64 };

typedef struct separator {
    char bytes[PT_CONFIG_TEXT];
    size_t length;
} separator_t;

static int documents_hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *found = c ? strchr(digits, tolower((unsigned char)c)) : NULL;

    return found ? (int)(found - digits) : -1;
}

/* Decodes the escape after a backslash; returns its length, 0: invalid. */
static size_t documents_take_escape(const char *text, char *out)
{
    int high, low;

    switch (text[0]) {
    case 'n': *out = '\n'; return 1;
    case 't': *out = '\t'; return 1;
    case '\\': *out = '\\'; return 1;
    case 'x':
        high = documents_hex_digit(text[1]);
        low = high < 0 ? -1 : documents_hex_digit(text[2]);
        *out = (char)(high * 16 + low);
        return low < 0 ? 0 : 3;
    }
    return 0;
}

static pt_status_t documents_decode(const char *text, separator_t *out)
{
    const char *rest = text;

    PT_REQUIRE(strlen(text) < sizeof out->bytes);
    out->length = 0;
    while (*rest) {
        char byte = *rest++;
        if (byte == '\\') {
            size_t taken = documents_take_escape(rest, &byte);
            PT_CHECK(taken > 0, PT_CONFIG,
                     "data.separator: \"%s\": a backslash is followed by n, t, another "
                     "backslash, or x and two hexadecimal digits",
                     text);
            rest += taken;
        }
        out->bytes[out->length++] = byte;
    }
    return PT_OK;
}

pt_status_t pt_corpus_add_document(pt_corpus_t *corpus, int64_t start)
{
    if (corpus->documents == corpus->document_room) {
        int64_t room = corpus->document_room ? 2 * corpus->document_room : FIRST_ROOM;
        PT_TRY(pt_realloc("documents", (size_t)corpus->document_room, (size_t)room,
                          sizeof *corpus->document, (void **)&corpus->document));
        corpus->document_room = room;
    }
    corpus->document[corpus->documents++] = start;
    return PT_OK;
}

/* Finds the documents inside a file. block: scratch of SCAN_BLOCK bytes and a
 * separator. */
static pt_status_t documents_scan_file(pt_corpus_t *corpus, const pt_corpus_file_t *file,
                                       const separator_t *separator, uint8_t *block)
{
    int64_t done = 0,
            held = 0; /* block[0 … held): the unsearched bytes before `done` */

    while (done < file->bytes) {
        int64_t part = file->bytes - done, origin = done - held;
        uint8_t *from = block, *end, *found;
        if (part > SCAN_BLOCK)
            part = SCAN_BLOCK;
        PT_TRY(pt_corpus_read_file(file, done, part, block + held));
        done += part;
        end = block + held + part;
        while ((found = memmem(from, (size_t)(end - from), separator->bytes,
                               separator->length))) {
            from = found + separator->length;
            if (origin + (from - block) < file->bytes)
                PT_TRY(pt_corpus_add_document(corpus,
                                              file->start + origin + (from - block)));
        }
        /* The rest may hold the beginning of a separator. */
        if (end - from >= (int64_t)separator->length)
            from = end - (separator->length - 1);
        held = end - from;
        memmove(block, from, (size_t)held);
    }
    return PT_OK;
}

pt_status_t pt_corpus_find_documents(pt_corpus_t *corpus, const char *text, bool inside)
{
    pt_status_t status = PT_OK;
    separator_t separator;
    uint8_t *block = NULL;

    if (corpus->indexes)
        return PT_OK;
    PT_TRY(documents_decode(text, &separator));
    PT_TRY(PT_NEW("block of the search for documents", SCAN_BLOCK + sizeof separator,
                  &block));
    for (int i = 0; i < corpus->file_count; i++) {
        const pt_corpus_file_t *file = &corpus->files[i];
        PT_TRY_GOTO(release, pt_corpus_add_document(corpus, file->start));
        if (inside && separator.length > 0 && corpus->format == PT_FORMAT_TEXT)
            PT_TRY_GOTO(release, documents_scan_file(corpus, file, &separator, block));
    }
release:
    pt_free(block);
    return status;
}

/* The first document, of those in memory, that begins after `token`. */
static int64_t documents_listed_after(const pt_corpus_t *corpus, int64_t token)
{
    int64_t low = 0, high = corpus->documents; /* the result is in low … high */

    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (corpus->document[middle] <= token)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Computes the token of a boundary from its document; the next file is a boundary as
 * well. */
static pt_status_t documents_find_token(const pt_corpus_t *corpus, pt_boundary_t *b)
{
    const pt_corpus_file_t *file = &corpus->files[b->file];

    if (!corpus->indexes) {
        b->token = b->document < corpus->documents ? corpus->document[b->document]
                                                   : corpus->tokens;
        return PT_OK;
    }
    if (b->document < corpus->indexes[b->file].documents)
        PT_TRY(pt_corpus_index_start(&corpus->indexes[b->file], file, b->document,
                                     &b->token));
    else
        b->token = file->tokens;
    b->token += file->start;
    if (b->token == file->start + file->tokens && b->file + 1 < corpus->file_count) {
        b->file++;
        b->document = 0;
    }
    return PT_OK;
}

pt_status_t pt_corpus_seek_boundary(const pt_corpus_t *corpus, int64_t token,
                                    pt_boundary_t *out)
{
    *out = (pt_boundary_t){.file = pt_corpus_file_of(corpus, token)};
    const pt_corpus_file_t *file = &corpus->files[out->file];

    if (!corpus->indexes)
        out->document = documents_listed_after(corpus, token);
    else
        PT_TRY(pt_corpus_index_after(&corpus->indexes[out->file], file,
                                     token - file->start, &out->document));
    return documents_find_token(corpus, out);
}

pt_status_t pt_corpus_next_boundary(const pt_corpus_t *corpus, pt_boundary_t *boundary)
{
    int64_t before = boundary->token;

    /* A document without tokens begins where the next one begins. */
    while (boundary->token <= before && before < corpus->tokens) {
        boundary->document++;
        PT_TRY(documents_find_token(corpus, boundary));
    }
    return PT_OK;
}
