/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/text.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DISTANCE_CAP = 99, DISTANCE_ROW = 128 };

pt_text_t pt_text_init(char *buffer, size_t size)
{
    if (size > 0)
        buffer[0] = '\0';
    return (pt_text_t){.data = buffer, .size = size};
}

void pt_text_add(pt_text_t *text, const char *format, ...)
{
    size_t room = text->size - text->length;
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(room > 0 ? text->data + text->length : NULL, room, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= room) {
        text->truncated = true;
        text->length = text->size > 0 ? text->size - 1 : 0;
    } else {
        text->length += (size_t)length;
    }
}

/* Returns the length in bytes of the UTF-8 character at the start of `text`, and its
 * number in *code; 0 if the bytes are not valid UTF-8 (RFC 3629). */
static size_t text_take_character(const char *text, size_t left, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *bytes = (const unsigned char *)text;
    size_t length = bytes[0] < 0x80         ? 1
                    : bytes[0] >> 5 == 0x06 ? 2
                    : bytes[0] >> 4 == 0x0e ? 3
                    : bytes[0] >> 3 == 0x1e ? 4
                                            : 0;

    if (length == 0 || length > left)
        return 0;
    *code = length == 1 ? bytes[0] : bytes[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if (bytes[i] >> 6 != 2)
            return 0;
        *code = *code << 6 | (bytes[i] & 0x3f);
    }
    bool is_surrogate = *code >= 0xd800 && *code < 0xe000;
    return *code < least[length] || *code > 0x10ffff || is_surrogate ? 0 : length;
}

/* Control characters C0 and C1, line separators, and characters that change the writing
 * direction. */
static bool text_is_obeyed(uint32_t code)
{
    return (code < 0x20 && code != '\t' && code != '\n') ||
           (code >= 0x7f && code < 0xa0) || code == 0x200e || code == 0x200f ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

void pt_text_printable(char *text)
{
    uint32_t code;

    while (*text) {
        size_t length = text_take_character(text, 4, &code); /* stops at a NUL */

        if (length == 0 || text_is_obeyed(code))
            memset(text, '?', length > 0 ? length : 1);
        text += length > 0 ? length : 1;
    }
}

size_t pt_text_utf8(const char *bytes, size_t length, char *out)
{
    static const char replacement[3] = {'\xef', '\xbf', '\xbd'};
    size_t kept = 0;
    uint32_t code;

    for (size_t i = 0; i < length;) {
        size_t count = text_take_character(bytes + i, length - i, &code);

        if (count > 0)
            memcpy(out + kept, bytes + i, count);
        else
            memcpy(out + kept, replacement, sizeof replacement);
        kept += count > 0 ? count : sizeof replacement;
        i += count > 0 ? count : 1;
    }
    out[kept] = '\0';
    return kept;
}

const char *pt_text_bytes(int64_t bytes, char *buffer, size_t size)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes / 1024;
    size_t unit = 0;

    if (bytes > -1024 && bytes < 1024) {
        snprintf(buffer, size, "%d B", (int)bytes);
        return buffer;
    }
    /* Printed with two decimals, 1023.995 would become 1024.00. */
    while (fabs(value) >= 1023.995 && unit < sizeof units / sizeof *units - 1) {
        value /= 1024;
        unit++;
    }
    snprintf(buffer, size, "%.2f %s", value, units[unit]);
    return buffer;
}

const char *pt_text_duration(double sec, char *buffer, size_t size)
{
    double whole = floor(sec + 0.5);

    if (!(fabs(sec) < 1e15)) {
        snprintf(buffer, size, "unknown");
    } else if (whole < 60) {
        if (sec == 0)
            snprintf(buffer, size, "0 s");
        else if (fabs(sec) < 0.9995e-3)
            snprintf(buffer, size, "%.0f us", sec * 1e6);
        else if (fabs(sec) < 0.9995)
            snprintf(buffer, size, "%.3g ms", sec * 1e3);
        else
            snprintf(buffer, size, "%.3g s", sec);
    } else {
        long long s = (long long)whole;
        if (s < 3600)
            snprintf(buffer, size, "%lldm %02llds", s / 60, s % 60);
        else if (s < 86400)
            snprintf(buffer, size, "%lldh %02lldm %02llds", s / 3600, s / 60 % 60,
                     s % 60);
        else
            snprintf(buffer, size, "%lldd %02lldh %02lldm", s / 86400, s / 3600 % 24,
                     s / 60 % 60);
    }
    return buffer;
}

const char *pt_text_count(double count, char *buffer, size_t size)
{
    static const char *const units[] = {"K", "M", "B", "T", "Q"};
    double value = count / 1000;
    size_t unit = 0;

    if (!(fabs(count) >= 999.5)) {
        snprintf(buffer, size, "%.3g", count);
        return buffer;
    }
    while (fabs(value) >= 999.995 && unit < sizeof units / sizeof *units - 1) {
        value /= 1000;
        unit++;
    }
    snprintf(buffer, size, "%.2f %s", value, units[unit]);
    return buffer;
}

static int text_least(int a, int b)
{
    return a < b ? a : b;
}

/* Optimal string alignment, the restricted form: no letter is edited twice. */
static int text_distance_of(const char *a, int rows, const char *b, int cols)
{
    int row[3][DISTANCE_ROW + 1];
    int *before = row[0], *last = row[1], *now = row[2], *spare;

    for (int j = 0; j <= cols; j++)
        last[j] = j;
    for (int i = 1; i <= rows; i++) {
        now[0] = i;
        for (int j = 1; j <= cols; j++) {
            int best = last[j - 1] + (a[i - 1] != b[j - 1]);
            best = text_least(best, text_least(last[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = text_least(best, before[j - 2] + 1);
            now[j] = best;
        }
        spare = before, before = last, last = now, now = spare;
    }
    return last[cols];
}

int pt_text_distance(const char *a, const char *b)
{
    size_t rows, cols;

    for (; *a != '\0' && *a == *b; a++)
        b++;
    rows = strlen(a);
    cols = strlen(b);
    while (rows > 0 && cols > 0 && a[rows - 1] == b[cols - 1]) {
        rows--;
        cols--;
    }
    if (rows > DISTANCE_ROW || cols > DISTANCE_ROW)
        return DISTANCE_CAP;
    return text_least(text_distance_of(a, (int)rows, b, (int)cols), DISTANCE_CAP);
}

bool pt_text_is_near(const char *word, int distance)
{
    return distance <= 1 + (int)(strlen(word) / 4);
}

/* Appends the digits from *text on to *value; false on overflow or without digits. */
static bool text_take_digits(const char **text, uint64_t *value, int *count)
{
    const char *first = *text;

    for (; isdigit((unsigned char)**text); (*text)++)
        if (__builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, (uint64_t)(**text - '0'), value))
            return false;
    *count = (int)(*text - first);
    return *count > 0;
}

static bool text_raise_to(uint64_t base, uint64_t exponent, uint64_t *out)
{
    *out = 1;
    if (base <= 1) {
        *out = exponent == 0 ? 1 : base;
        return true;
    }
    for (uint64_t i = 0; i < exponent; i++)
        if (__builtin_mul_overflow(*out, base, out))
            return false;
    return true;
}

/* Multiplies the value by ten to the power `exponent`; false unless the result is an
 * integer of 64 bits. */
static bool text_scale_ten(uint64_t *value, bool negative, uint64_t exponent,
                           int fraction)
{
    uint64_t power;

    if (*value == 0)
        return true;
    if (exponent > 64)
        return false;
    if (!negative && exponent >= (uint64_t)fraction)
        return text_raise_to(10, exponent - (uint64_t)fraction, &power) &&
               !__builtin_mul_overflow(*value, power, value);
    exponent = negative ? exponent + (uint64_t)fraction : (uint64_t)fraction - exponent;
    if (!text_raise_to(10, exponent, &power) || *value % power != 0)
        return false;
    *value /= power;
    return true;
}

/* Parses the rest of "1.5e6" after the whole digits: ".5e6" or "e6". */
static bool text_take_scientific(const char **text, uint64_t *value)
{
    uint64_t exponent = 0;
    int fraction = 0, digits;
    bool negative;

    if (**text == '.') {
        (*text)++;
        if (!text_take_digits(text, value, &fraction))
            return false;
    }
    if (**text != 'e' && **text != 'E')
        return false;
    (*text)++;
    negative = **text == '-';
    if (**text == '-' || **text == '+')
        (*text)++;
    return text_take_digits(text, &exponent, &digits) &&
           text_scale_ten(value, negative, exponent, fraction);
}

bool pt_text_int(const char *text, int64_t *out)
{
    bool negative = *text == '-';
    uint64_t value = 0, exponent = 0;
    int digits;

    if (*text == '-' || *text == '+')
        text++;
    if (!text_take_digits(&text, &value, &digits))
        return false;
    if (*text == '^') {
        text++;
        if (!text_take_digits(&text, &exponent, &digits) ||
            !text_raise_to(value, exponent, &value))
            return false;
    } else if (*text != '\0' && !text_take_scientific(&text, &value)) {
        return false;
    }
    if (*text != '\0' || value > (uint64_t)INT64_MAX + negative)
        return false;
    *out = (int64_t)(negative ? -value : value);
    return true;
}

bool pt_text_double(const char *text, double *out)
{
    char *end;
    double value;

    /* Decimal numbers only: no 0x10. The check for finite values refuses inf and
     * nan. */
    if (*text == '\0' || isspace((unsigned char)*text) || strpbrk(text, "xX"))
        return false;
    errno = 0;
    value = strtod(text, &end);
    if (*end != '\0' || !isfinite(value) || (value == 0 && errno == ERANGE))
        return false;
    *out = value;
    return true;
}
