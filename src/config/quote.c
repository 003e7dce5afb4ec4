/* SPDX-License-Identifier: Apache-2.0 */
/* The spelling of values in files and arguments. Plain text is written as it is; text
 * that inih or a line would change is quoted. */
#include "src/config/private.h"

#include <stdio.h>
#include <string.h>

enum { LINE_BYTES = 150 }; /* of a value, per line of a file; inih reads 197 in all */

static int quote_hex_digit(char c)
{
    const char *digits = "0123456789abcdef", *found;

    if (c >= 'A' && c <= 'F')
        c = (char)(c - 'A' + 'a');
    found = c ? strchr(digits, c) : NULL;
    return found ? (int)(found - digits) : -1;
}

/* Decodes the character after a backslash and moves *text behind it. False: no valid
 * escape, or NUL. */
static bool quote_unescape(const char **text, char *out)
{
    const char *at = *text;
    int high, low;

    switch (*at) {
    case '"':
    case '\\': *out = *at; break;
    case 'n': *out = '\n'; break;
    case 't': *out = '\t'; break;
    case 'x':
        high = quote_hex_digit(at[1]);
        low = high < 0 ? -1 : quote_hex_digit(at[2]);
        if (low < 0 || high + low == 0)
            return false;
        *out = (char)(high * 16 + low);
        at += 2;
        break;
    default: return false;
    }
    *text = at + 1;
    return true;
}

void pt_unescape_all(const char *text, char out[PT_CONFIG_TEXT])
{
    size_t n = 0;

    while (*text && n + 1 < PT_CONFIG_TEXT) {
        char c = *text++;

        if (c == '\\')
            (void)quote_unescape(&text, &c);
        out[n++] = c;
    }
    out[n] = '\0';
}

/* Whether the text looks quoted but its quotes would become part of the value. */
static bool quote_is_half_quoted(const char *text, size_t length)
{
    size_t quotes = 0;

    for (const char *c = text; *c; c++)
        quotes += *c == '"';
    return length > 0 && (text[0] == '"' || (quotes == 1 && text[length - 1] == '"') ||
                          (length > 1 && text[0] == '\'' && text[length - 1] == '\''));
}

bool pt_unquote(const char *spelling, char *out, size_t size)
{
    size_t length = strlen(spelling), n = 0;
    const char *end = spelling + length;

    if (length < 2 || spelling[0] != '"' || end[-1] != '"') {
        if (length >= size || quote_is_half_quoted(spelling, length))
            return false;
        memcpy(out, spelling, length + 1);
        return true;
    }
    spelling++, end--;
    while (spelling < end) {
        char c = *spelling++;

        if (c == '"' || n + 1 >= size)
            return false;
        /* The closing quote must not be escaped. */
        if (c == '\\' && (!quote_unescape(&spelling, &c) || spelling > end))
            return false;
        out[n++] = c;
    }
    out[n] = '\0';
    return true;
}

/* Writes byte `at` in its escaped form to `out`; returns the length of that. */
static size_t quote_escape(const char *value, size_t at, char out[8])
{
    char c = value[at];
    unsigned char byte = (unsigned char)c;

    if (c == '\n' || c == '\t')
        return (size_t)snprintf(out, 8, "\\%c", c == '\n' ? 'n' : 't');
    if (c == '"' || c == '\\')
        return (size_t)snprintf(out, 8, "\\%c", c);
    if (byte < 0x20 || byte == 0x7f || pt_home_is_meant(value, at) ||
        c == ';') /* inih: " ;" begins a comment, quoted or not */
        return (size_t)snprintf(out, 8, "\\x%02x", byte);
    out[0] = c, out[1] = '\0';
    return 1;
}

static bool quote_must(const char *value)
{
    size_t length = strlen(value);

    if (length == 0)
        return false;
    if (quote_is_half_quoted(value, length) || value[0] == ' ' ||
        value[length - 1] == ' ')
        return true;
    for (const char *c = value; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f || *c == ';' ||
            pt_home_is_meant(value, (size_t)(c - value)))
            return true;
    return false;
}

const char *pt_quote(const char *value, char *buffer, size_t size)
{
    pt_text_t text = pt_text_init(buffer, size);
    char piece[8];

    if (!quote_must(value)) {
        pt_text_add(&text, "%s", value);
        return buffer;
    }
    pt_text_add(&text, "\"");
    for (size_t at = 0; value[at]; at++) {
        quote_escape(value, at, piece);
        pt_text_add(&text, "%s", piece);
    }
    pt_text_add(&text, "\"");
    return buffer;
}

void pt_string_add_value(pt_string_t *string, const char *key, const char *value)
{
    char piece[8];
    size_t column = 0;

    if (!quote_must(value) && strlen(value) <= LINE_BYTES) {
        pt_string_add(string, *value ? "%s = %s" : "%s =%s", key, value);
        return;
    }
    pt_string_add(string, "%s = \"", key);
    for (size_t at = 0; value[at]; at++) {
        if (column + 4 > LINE_BYTES) {
            pt_string_add(string, "\"\n    \"");
            column = 0;
        }
        column += quote_escape(value, at, piece);
        pt_string_add(string, "%s", piece);
    }
    pt_string_add(string, "\"");
}

const char *pt_show(const char *text, char *buffer, size_t size)
{
    pt_text_t out = pt_text_init(buffer, size);

    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;

        if (out.length + 8 > size) {
            pt_text_add(&out, "...");
            break;
        }
        if (byte < 0x20 || byte >= 0x7f)
            pt_text_add(&out, "\\x%02x", byte);
        else
            pt_text_add(&out, "%c", byte);
    }
    return buffer;
}
