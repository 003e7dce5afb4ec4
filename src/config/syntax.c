/* SPDX-License-Identifier: Apache-2.0 */
/* Values with a syntax of their own. Each kind is read and written only here. */
#include "src/config/private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- times: [HH:]MM:SS, the format of Slurm ---- */

/* Reads exactly [HH:]MM:SS, more than 0. */
static bool syntax_read_clock(const char *text, int64_t *sec)
{
    int64_t part[3], all;
    int parts = 0;

    for (;;) {
        size_t digits = strspn(text, "0123456789");
        char number[8];

        if (digits == 0 || digits >= sizeof number || parts == 3)
            return false;
        snprintf(number, sizeof number, "%.*s", (int)digits, text);
        if (!pt_text_int(number, &part[parts++]))
            return false;
        text += digits;
        if (!*text)
            break;
        if (*text++ != ':')
            return false;
    }
    if (parts < 2 || part[parts - 1] > 59 || (parts == 3 && part[1] > 59))
        return false;
    all = part[parts - 1] + 60 * part[parts - 2] + (parts == 3 ? 3600 * part[0] : 0);
    if (all > 0)
        *sec = all;
    return all > 0;
}

static bool syntax_read_seconds(const char *text, const char *none, int64_t *sec,
                                char *what, size_t size)
{
    if (strcmp(text, none) == 0) {
        *sec = 0;
        return true;
    }
    if (syntax_read_clock(text, sec))
        return true;
    snprintf(what, size, "not a time of more than 0, such as 01:30:00 or 90:00%s%s",
             *none ? ", or " : "", none);
    return false;
}

static void syntax_write_seconds(int64_t sec, const char *none, char *buffer,
                                 size_t size)
{
    int minutes = (int)(sec / 60 % 60), seconds = (int)(sec % 60);

    if (sec == 0)
        snprintf(buffer, size, "%s", none);
    else if (sec < 3600)
        snprintf(buffer, size, "%02d:%02d", minutes, seconds);
    else
        snprintf(buffer, size, "%02lld:%02d:%02d", (long long)(sec / 3600), minutes,
                 seconds);
}

static bool syntax_read_time(const char *text, void *field, char *what, size_t size)
{
    return syntax_read_seconds(text, "", field, what, size);
}

static void syntax_write_time(const void *field, char *buffer, size_t size)
{
    syntax_write_seconds(*(const int64_t *)field, "", buffer, size);
}

const pt_syntax_t pt_syntax_time = {syntax_read_time, syntax_write_time};

static bool syntax_read_timeout(const char *text, void *field, char *what, size_t size)
{
    return syntax_read_seconds(text, "0", field, what, size);
}

static void syntax_write_timeout(const void *field, char *buffer, size_t size)
{
    syntax_write_seconds(*(const int64_t *)field, "0", buffer, size);
}

const pt_syntax_t pt_syntax_timeout = {syntax_read_timeout, syntax_write_timeout};

/* ---- the order of the axes: tensor,context,pipeline,data ---- */

static bool syntax_find_axis(const char *name, size_t length, pt_axis_t *out)
{
    for (*out = PT_AXIS_TENSOR; *out <= PT_AXIS_DATA; *out = (pt_axis_t)(*out + 1))
        if (strlen(pt_axis_name(*out)) == length &&
            strncmp(name, pt_axis_name(*out), length) == 0)
            return true;
    return false;
}

static bool syntax_read_axes(const char *text, pt_value_order_t *order)
{
    unsigned seen = 0;

    for (int i = 0; i < PT_CONFIG_AXES; i++) {
        size_t length = strcspn(text, ",");
        pt_axis_t *axis = &order->axis[i];

        if (!syntax_find_axis(text, length, axis) || (seen >> *axis & 1))
            return false;
        seen |= 1u << *axis;
        text += length;
        if (*text != (i + 1 < PT_CONFIG_AXES ? ',' : '\0'))
            return false;
        text++;
    }
    return true;
}

static bool syntax_read_order(const char *text, void *field, char *what, size_t size)
{
    pt_value_order_t order;

    if (syntax_read_axes(text, &order)) {
        *(pt_value_order_t *)field = order;
        return true;
    }
    snprintf(what, size,
             "must name tensor, context, pipeline and data once each, innermost first, "
             "such as tensor,context,pipeline,data");
    return false;
}

static void syntax_write_order(const void *field, char *buffer, size_t size)
{
    const pt_value_order_t *order = field;
    pt_text_t text = pt_text_init(buffer, size);

    for (int i = 0; i < PT_CONFIG_AXES; i++)
        pt_text_add(&text, "%s%s", i ? "," : "", pt_axis_name(order->axis[i]));
}

const pt_syntax_t pt_syntax_order = {syntax_read_order, syntax_write_order};

/* ---- recompute: none|selective|full|every:K ---- */

static bool syntax_read_recompute(const char *text, void *field, char *what, size_t size)
{
    static const struct {
        const char *word;
        int64_t value;
    } words[] = {{"none", 0}, {"selective", -1}, {"full", 1}};
    char nearest[32];
    int64_t k;

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(text, words[i].word) == 0) {
            *(int64_t *)field = words[i].value;
            return true;
        }
    if (strncmp(text, "every:", 6) == 0 && pt_text_int(text + 6, &k)) {
        if (k >= 1)
            *(int64_t *)field = k;
        else
            snprintf(what, size, "K must be 1 to the number of layers");
        return k >= 1;
    }
    if (pt_nearest_word("none|selective|full|every:K", text, nearest, sizeof nearest))
        snprintf(what, size, "not a choice, maybe: %s?", nearest);
    else
        snprintf(what, size, "not a choice");
    return false;
}

static void syntax_write_recompute(const void *field, char *buffer, size_t size)
{
    int64_t k = *(const int64_t *)field;

    if (k > 1)
        snprintf(buffer, size, "every:%lld", (long long)k);
    else
        snprintf(buffer, size, "%s", k == 1 ? "full" : k == 0 ? "none" : "selective");
}

const pt_syntax_t pt_syntax_recompute = {syntax_read_recompute, syntax_write_recompute};

/* ---- scale: dynamic|VALUE ---- */

/* Division by a power of two is exact, so the scale does not change norms and
 * updates. */
static bool syntax_read_scale(const char *text, void *field, char *what, size_t size)
{
    double largest = ldexp(1, PT_LOSS_SCALE_BITS), scale = 0, fraction;
    char nearest[32];
    int exponent;

    if (strcmp(text, "dynamic") == 0) {
        *(double *)field = 0;
        return true;
    }
    if (!pt_text_double(text, &scale)) {
        snprintf(what, size, "not a number%s",
                 pt_nearest_word("dynamic", text, nearest, sizeof nearest)
                     ? ", maybe: dynamic?"
                     : ": give dynamic, or a power of two such as 65536");
        return false;
    }
    fraction = scale > 0 ? frexp(scale, &exponent) : 0;
    if (fraction == 0.5 && scale >= 1 && scale <= largest) {
        *(double *)field = scale;
        return true;
    }
    snprintf(what, size, "must be a power of two, 1 to 2^%d: nearest is %.0f",
             PT_LOSS_SCALE_BITS, fmin(exp2(round(log2(fmax(scale, 1)))), largest));
    return false;
}

static void syntax_write_scale(const void *field, char *buffer, size_t size)
{
    double scale = *(const double *)field;

    if (scale == 0)
        snprintf(buffer, size, "dynamic");
    else
        snprintf(buffer, size, "%.0f", scale);
}

const pt_syntax_t pt_syntax_scale = {syntax_read_scale, syntax_write_scale};

/* ---- split: TRAIN,VALIDATION ---- */

static bool syntax_read_shares(const char *text, pt_value_split_t *split)
{
    const char *comma = strchr(text, ','), *second;
    char first[64];
    size_t length;

    if (!comma || comma - text >= (ptrdiff_t)sizeof first)
        return false;
    length = (size_t)(comma - text);
    while (length > 0 && text[length - 1] == ' ')
        length--;
    snprintf(first, sizeof first, "%.*s", (int)length, text);
    second = comma + 1 + strspn(comma + 1, " ");
    return pt_text_double(first, &split->train) &&
           pt_text_double(second, &split->validation);
}

static bool syntax_read_split(const char *text, void *field, char *what, size_t size)
{
    pt_value_split_t split;
    double train, validation; /* the nearest valid shares */

    if (!syntax_read_shares(text, &split)) {
        snprintf(what, size, "must be two numbers, such as 0.95,0.05");
        return false;
    }
    train = fmin(fmax(split.train, 0), 1);
    validation = fmin(fmax(split.validation, 0), 1 - train);
    if (train != split.train || split.validation < 0 || split.validation > 1 ||
        split.train + split.validation > 1 + 1e-12) {
        snprintf(what, size,
                 "shares must be 0 to 1, their sum at most 1; nearest is %g,%g", train,
                 validation);
        return false;
    }
    /* Adding 0.0 changes -0.0, which would be another value, to 0.0. */
    *(pt_value_split_t *)field =
        (pt_value_split_t){split.train + 0.0, split.validation + 0.0};
    return true;
}

static void syntax_write_split(const void *field, char *buffer, size_t size)
{
    const pt_value_split_t *split = field;
    char train[32], validation[32];

    snprintf(buffer, size, "%s,%s", pt_real_text(split->train, train, sizeof train),
             pt_real_text(split->validation, validation, sizeof validation));
}

const pt_syntax_t pt_syntax_split = {syntax_read_split, syntax_write_split};
