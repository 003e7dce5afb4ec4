/* SPDX-License-Identifier: Apache-2.0 */
/* text.h — small text helpers (layer: base). */
#ifndef PENTA_TEXT_H
#define PENTA_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A string being built in a caller's buffer; always terminated; `truncated` tells. */
typedef struct pt_text {
    char *data;
    size_t size, length;
    bool truncated;
} pt_text_t;

pt_text_t pt_text_init(char *buffer, size_t size);
void pt_text_add(pt_text_t *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* What a terminal would obey rather than show becomes '?': control characters (but tab and newline) as bytes
 * or in UTF-8, those that turn the direction of the line, and bytes that are no UTF-8. */
void pt_text_printable(char *text);
/* The same bytes as UTF-8: what is none becomes U+FFFD, byte by byte. `out` has room for 3 bytes each and a NUL;
 * returns the bytes written. */
size_t pt_text_utf8(const char *bytes, size_t length, char *out);
/* "1.25 GiB", "1h 02m 03s", "8.03 B" (parameters): into buffer, which is returned. */
const char *pt_text_bytes(int64_t bytes, char *buffer, size_t size);
const char *pt_text_duration(double sec, char *buffer, size_t size);
const char *pt_text_count(double count, char *buffer, size_t size);
/* Damerau–Levenshtein distance, capped at 99; for "maybe: …?". */
int pt_text_distance(const char *a, const char *b);
/* Is it a slip of the finger in `word`, or a far-fetched guess? */
bool pt_text_is_near(const char *word, int distance);
/* Whole-text numbers: false on trailing text, overflow, empty. Accepts 1e6 and 2^20 for
 * integers when exact. */
bool pt_text_int(const char *text, int64_t *out);
/* Decimal and finite; a number that would become 0 without being it is none. */
bool pt_text_double(const char *text, double *out);

#endif
