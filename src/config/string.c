/* SPDX-License-Identifier: Apache-2.0 */
/* A growing text. */
#include "src/config/private.h"
#include "penta/base/alloc.h"

#include <stdio.h>
#include <string.h>

static bool string_reserve(pt_string_t *string, size_t more)
{
    size_t need = string->length + more + 1, size = string->size ? string->size : 1024;
    void *data = string->data;

    if (string->status != PT_OK)
        return false;
    if (need <= string->size)
        return true;
    while (size < need)
        size *= 2;
    string->status = pt_realloc("text", string->size, size, 1, &data);
    if (string->status != PT_OK)
        return false;
    string->data = data;
    string->size = size;
    return true;
}

void pt_string_add_bytes(pt_string_t *string, const char *bytes, size_t count)
{
    if (!string_reserve(string, count))
        return;
    if (count > 0)
        memcpy(string->data + string->length, bytes, count);
    string->length += count;
    string->data[string->length] = '\0';
}

void pt_string_add(pt_string_t *string, const char *format, ...)
{
    va_list args, again;
    int length;

    va_start(args, format);
    va_copy(again, args);
    length = vsnprintf(NULL, 0, format, args);
    if (length >= 0 && string_reserve(string, (size_t)length)) {
        vsnprintf(string->data + string->length, (size_t)length + 1, format, again);
        string->length += (size_t)length;
    }
    va_end(again);
    va_end(args);
}

void pt_string_add_wrapped(pt_string_t *string, const char *indent, const char *text,
                           size_t width)
{
    size_t column = 0, margin = strlen(indent);

    while (*text) {
        size_t word = strcspn(text, " ");

        if (column > 0 && column + 1 + word > width) {
            pt_string_add(string, "\n");
            column = 0;
        }
        pt_string_add(string, "%s%.*s", column ? " " : indent, (int)word, text);
        column = (column ? column + 1 : margin) + word;
        text += word;
        text += strspn(text, " ");
    }
    pt_string_add(string, "\n");
}

pt_status_t pt_string_take(pt_string_t *string, char **out)
{
    *out = NULL;
    pt_string_add_bytes(string, "", 0);
    if (string->status != PT_OK) {
        pt_free(string->data);
        string->data = NULL;
        return pt_error_trace(string->status, __FILE__, __LINE__);
    }
    *out = string->data;
    *string = (pt_string_t){0};
    return PT_OK;
}
