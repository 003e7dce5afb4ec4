/* TEST timeout=30 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Texts as JSON: what a JSON parser reads back, from bytes that need not be UTF-8. */
#include "regression/tap.h"
#include "src/cmd/sample.h"

#include <jansson.h>
#include <string.h>
#include <unistd.h>

#define BAD "\xef\xbf\xbd" /* U+FFFD */

/* Unicode 15.0, section 3.9, tables 3-7 and 3-8, but with one replacement a byte. */
static const struct {
    const char *name, *bytes, *wanted;
} cases[] = {
    {"ASCII and controls", "a\"\\\n\x01\x7f", "a\"\\\n\x01\x7f"},
    {"two, three and four bytes", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
     "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
    {"the ends of the ranges",
     "\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf4\x8f\xbf\xbf",
     "\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf4\x8f\xbf\xbf"},
    {"around the surrogates", "\xed\x9f\xbf\xee\x80\x80", "\xed\x9f\xbf\xee\x80\x80"},
    {"surrogates", "\xed\xa0\x80.\xed\xbf\xbf", BAD BAD BAD "." BAD BAD BAD},
    {"too long forms", "\xc1\xbf\xe0\x9f\xbf\xf0\x8f\xbf\xbf",
     BAD BAD BAD BAD BAD BAD BAD BAD BAD},
    {"beyond the last", "\xf4\x90\x80\x80\xff\xf8", BAD BAD BAD BAD BAD BAD},
    {"lonely bytes", "\x80z\xbf\xc3z", BAD "z" BAD BAD "z"},
    {"cut off", "z\xf0\x9f\x98", "z" BAD BAD BAD},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static pt_status_t write_all(void)
{
    pt_output_t output = {.json = true};

    for (int c = 0; c < CASES; c++)
        PT_TRY(pt_output_text(&output, cases[c].name, (const uint8_t *)cases[c].bytes,
                              (int64_t)strlen(cases[c].bytes), c, 1));
    PT_TRY(pt_output_text(&output, "", (const uint8_t *)"\0x", 2, CASES, 1));
    return pt_output_end(&output);
}

static bool is_text(json_t *row, const char *key, const char *wanted, size_t length)
{
    json_t *value = json_object_get(row, key);

    return json_is_string(value) && json_string_length(value) == length &&
           memcmp(json_string_value(value), wanted, length) == 0;
}

int main(void)
{
    FILE *file = tmpfile();
    int terminal = dup(STDOUT_FILENO);

    if (!file || terminal < 0 || dup2(fileno(file), STDOUT_FILENO) < 0)
        return 1;
    pt_status_t status = write_all();
    if (dup2(terminal, STDOUT_FILENO) < 0)
        return 1;
    rewind(file);
    json_t *rows = json_loadf(file, JSON_ALLOW_NUL, NULL);
    tap_ok(status == PT_OK && json_array_size(rows) == CASES + 1,
           "an array of all texts");
    for (size_t c = 0; c < CASES; c++) {
        json_t *row = json_array_get(rows, c);

        tap_ok(is_text(row, "prompt", cases[c].name, strlen(cases[c].name)) &&
                   is_text(row, "text", cases[c].wanted, strlen(cases[c].wanted)),
               "%s", cases[c].name);
    }
    tap_ok(is_text(json_array_get(rows, CASES), "text", "\0x", 2), "a NUL byte");
    json_decref(rows);
    (void)fclose(file);
    (void)close(terminal);
    return tap_done();
}
