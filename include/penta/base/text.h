/* SPDX-License-Identifier: Apache-2.0 */
/* text.h — small text helpers (layer: base). */
#ifndef PENTA_TEXT_H
#define PENTA_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A string that is built in the caller's buffer. It is always terminated; `truncated`
 * says whether text is missing. */
typedef struct pt_text {
    char *data;
    size_t size, length;
    bool truncated;
} pt_text_t;

pt_text_t pt_text_init(char *buffer, size_t size);
void pt_text_add(pt_text_t *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Replaces by '?' what a terminal would obey rather than show: control characters
 * (except tab and newline) as bytes or in UTF-8, characters that change the writing
 * direction, and bytes that are not valid UTF-8. */
void pt_text_printable(char *text);
/* Converts bytes to UTF-8: each invalid byte becomes U+FFFD. `out` needs 3 bytes for
 * each byte and one for a NUL. Returns the number of bytes written. */
size_t pt_text_utf8(const char *bytes, size_t length, char *out);
/* Write "1.25 GiB", "1h 02m 03s" or "8.03 B" (parameters) into buffer and return it. */
const char *pt_text_bytes(int64_t bytes, char *buffer, size_t size);
const char *pt_text_duration(double sec, char *buffer, size_t size);
const char *pt_text_count(double count, char *buffer, size_t size);
/* Damerau-Levenshtein distance, at most 99; for "maybe: …?". */
int pt_text_distance(const char *a, const char *b);
/* Whether a word at this distance is likely what the user meant when typing `word`. */
bool pt_text_is_near(const char *word, int distance);
/* Parses the whole text as an integer; false if it is empty, overflows, or has trailing
 * text. Accepts 1e6 and 2^20 if exact. */
bool pt_text_int(const char *text, int64_t *out);
/* Parses the whole text as a finite decimal number; false if a nonzero number would
 * underflow to 0. */
bool pt_text_double(const char *text, double *out);

#endif
