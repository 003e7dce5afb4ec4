/* SPDX-License-Identifier: Apache-2.0 */
/* data.weights: decimal numbers, converted exactly to whole numbers. */
#include "src/config/private.h"

#include <string.h>

enum { DIGITS = 6, MILLION = 1000000 };
#define BLANKS " \t\r\n"

/* Reads and counts the digits at *text; -1: none, or more than DIGITS. */
static int64_t weights_take_digits(const char **text, int *digits)
{
    int64_t value = 0;

    for (*digits = 0; **text >= '0' && **text <= '9'; (*text)++, (*digits)++)
        if (*digits < DIGITS)
            value = value * 10 + (**text - '0');
    return *digits >= 1 && *digits <= DIGITS ? value : -1;
}

/* Reads a weight in millionths. Returns its end, a comma or the end of the text; NULL:
 * invalid. */
static const char *weights_take(const char *text, int64_t *out)
{
    int digits;
    int64_t whole, fraction = 0;

    text += strspn(text, BLANKS);
    whole = weights_take_digits(&text, &digits);
    if (*text == '.') {
        text++;
        fraction = weights_take_digits(&text, &digits);
        for (; fraction >= 0 && digits < DIGITS; digits++)
            fraction *= 10;
    }
    text += strspn(text, BLANKS);
    *out = whole * MILLION + fraction;
    return whole < 0 || fraction < 0 || *out == 0 || (*text && *text != ',') ? NULL
                                                                             : text;
}

static int64_t weights_common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

pt_status_t pt_config_weights(const pt_config_t *config, int count, int64_t *out)
{
    const char *text = config->data.weights;
    int64_t weight, divisor = 0, sum = 0;
    int found = 0;
    char cited[PT_CITED];

    pt_cite(config, PT_OPTION_data_weights, cited, sizeof cited);
    do {
        text = weights_take(text, &weight);
        PT_CHECK_COMMON(text, PT_CONFIG,
                        "%s: number %d must be above 0, with at most %d digits before "
                        "and after the point, such as 0.7,0.3 or 7,3",
                        cited, found + 1, DIGITS);
        divisor = weights_common_divisor(divisor, weight);
        sum += weight;
        if (found < count && out)
            out[found] = weight;
        found++;
    } while (*text++);
    PT_CHECK_COMMON(
        found == count, PT_CONFIG,
        "%s has %d numbers, but data.path names %d files: give each a weight", cited,
        found, count);
    PT_CHECK_COMMON(sum / divisor <= PT_BLEND_PERIOD, PT_CONFIG,
                    "%s: as whole numbers these add up to %lld; at most %d: give fewer "
                    "digits",
                    cited, (long long)(sum / divisor), PT_BLEND_PERIOD);
    for (int i = 0; out && i < count; i++)
        out[i] /= divisor;
    return PT_OK;
}
