/* SPDX-License-Identifier: Apache-2.0 */
#include "src/cmd/inspect.h"

#include "io/elements.h"
#include "penta/base/alloc.h"
#include "penta/io/rundir.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct difference {
    int64_t elements; /* elements with different bits */
    double max_abs;   /* infinite if an element is not finite */
    uint64_t max_ulp; /* equal types only */
} difference_t;

/* Maps numbers to integers in order: neighbours differ by 1, also -0 and 0. */
static int64_t inspect_order_f32(float x)
{
    int32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits < 0 ? -1 - (int64_t)(bits & INT32_MAX) : bits;
}

static int64_t inspect_order_f64(double x)
{
    int64_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits < 0 ? -1 - (bits & INT64_MAX) : bits;
}

static int64_t inspect_order_bf16(uint16_t bits)
{
    return bits & 0x8000 ? -1 - (int64_t)(bits & 0x7fff) : bits;
}

static void inspect_add_pair(difference_t *sum, double a, double b, int64_t order_a,
                             int64_t order_b)
{
    double distance = isfinite(a) && isfinite(b) ? fabs(a - b) : INFINITY;
    uint64_t ulp = order_a > order_b ? (uint64_t)order_a - (uint64_t)order_b
                                     : (uint64_t)order_b - (uint64_t)order_a;

    if (ulp == 0)
        return;
    sum->elements++;
    sum->max_abs = fmax(sum->max_abs, distance);
    if (ulp > sum->max_ulp)
        sum->max_ulp = ulp;
}

static void inspect_add_piece(difference_t *sum, pt_dtype_t dtype, const void *a,
                              const void *b, int64_t n)
{
    const double *a64 = a, *b64 = b;
    const float *a32 = a, *b32 = b;
    const uint16_t *a16 = a, *b16 = b;

    if (memcmp(a, b, (size_t)n * pt_dtype_size(dtype)) == 0)
        return;
    if (dtype == PT_F64)
        for (int64_t i = 0; i < n; i++)
            inspect_add_pair(sum, a64[i], b64[i], inspect_order_f64(a64[i]),
                             inspect_order_f64(b64[i]));
    else if (dtype == PT_F32)
        for (int64_t i = 0; i < n; i++)
            inspect_add_pair(sum, a32[i], b32[i], inspect_order_f32(a32[i]),
                             inspect_order_f32(b32[i]));
    else
        for (int64_t i = 0; i < n; i++)
            inspect_add_pair(sum, pt_float_get(dtype, a, i), pt_float_get(dtype, b, i),
                             inspect_order_bf16(a16[i]), inspect_order_bf16(b16[i]));
}

typedef struct pair {
    pt_checkpoint_reader_t *a, *b;
    char *piece_a, *piece_b;
} pair_t;

/* Tensors of different types are compared as fp64. */
static pt_status_t inspect_compare(const pair_t *pair, int ia, int ib, difference_t *out)
{
    const pt_checkpoint_tensor_t *a = pt_checkpoint_tensor(pair->a, ia);
    const pt_checkpoint_tensor_t *b = pt_checkpoint_tensor(pair->b, ib);
    pt_dtype_t dtype = a->dtype == b->dtype ? a->dtype : PT_F64;
    pt_hyperslab_t whole = pt_hyperslab_whole(a->ndim, a->shape);
    pt_hyperslab_walk_t walk =
        pt_hyperslab_walk(&whole, pt_dtype_size(dtype), PT_INSPECT_PIECE_BYTES);

    *out = (difference_t){0};
    while (pt_hyperslab_next(&walk)) {
        PT_TRY(pt_checkpoint_read(pair->a, ia, dtype, &walk.piece, true, pair->piece_a));
        PT_TRY(pt_checkpoint_read(pair->b, ib, dtype, &walk.piece, true, pair->piece_b));
        inspect_add_piece(out, dtype, pair->piece_a, pair->piece_b,
                          pt_hyperslab_elements(&walk.piece));
    }
    return PT_OK;
}

static void inspect_add_row(json_t *rows, const char *name, const char *what)
{
    json_t *row = json_object();

    json_object_set_new(row, "name", pt_json_text(name));
    json_object_set_new(row, "what", json_string(what));
    json_array_append_new(rows, row);
}

/* Adds nothing if the tensors are equal. */
static void inspect_add_difference(json_t *rows, const char *name,
                                   const difference_t *difference, bool same_type)
{
    json_t *row;

    if (difference->elements == 0) {
        if (!same_type)
            inspect_add_row(rows, name, "has another element type");
        return;
    }
    row = json_object();
    json_object_set_new(row, "name", pt_json_text(name));
    if (!same_type)
        json_object_set_new(row, "what", json_string("has another element type"));
    json_object_set_new(row, "elements", json_integer(difference->elements));
    json_object_set_new(row, "max_abs", pt_inspect_number(difference->max_abs));
    if (same_type)
        json_object_set_new(row, "max_ulp",
                            json_integer((json_int_t)difference->max_ulp));
    json_array_append_new(rows, row);
}

static pt_status_t diff_tensor(const pair_t *pair, int ia, json_t *rows)
{
    const pt_checkpoint_tensor_t *a = pt_checkpoint_tensor(pair->a, ia), *b;
    int ib = pt_checkpoint_find_tensor(pair->b, a->group, a->name);
    difference_t difference;
    char name[128];

    pt_inspect_name(a, name);
    if (ib < 0) {
        inspect_add_row(rows, name, "only in the first");
        return PT_OK;
    }
    b = pt_checkpoint_tensor(pair->b, ib);
    if (a->ndim != b->ndim ||
        memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof a->shape[0]) != 0) {
        inspect_add_row(rows, name, "has another shape");
        return PT_OK;
    }
    PT_TRY(inspect_compare(pair, ia, ib, &difference));
    inspect_add_difference(rows, name, &difference, a->dtype == b->dtype);
    return PT_OK;
}

static pt_status_t diff_tensors(const pair_t *pair, json_t *rows)
{
    char name[128];

    for (int i = 0; i < pt_checkpoint_tensors(pair->a); i++)
        PT_TRY(diff_tensor(pair, i, rows));
    for (int i = 0; i < pt_checkpoint_tensors(pair->b); i++) {
        const pt_checkpoint_tensor_t *b = pt_checkpoint_tensor(pair->b, i);
        if (pt_checkpoint_find_tensor(pair->a, b->group, b->name) < 0)
            inspect_add_row(rows, pt_inspect_name(b, name), "only in the second");
    }
    return PT_OK;
}

/* ---- header and configuration ---- */

static void inspect_add_values(json_t *rows, const char *name, json_t *a, json_t *b)
{
    json_t *row = json_object();

    if (json_equal(a, b)) {
        json_decref(row);
        json_decref(a);
        json_decref(b);
        return;
    }
    json_object_set_new(row, "name", pt_json_text(name));
    json_object_set_new(row, "first", a);
    json_object_set_new(row, "second", b);
    json_array_append_new(rows, row);
}

static void diff_header(const pt_checkpoint_header_t *a,
                        const pt_checkpoint_header_t *b, json_t *rows)
{
#define INTEGER(field_)                                                                \
    inspect_add_values(rows, #field_, json_integer(a->field_), json_integer(b->field_))
#define NUMBER(field_)                                                                 \
    inspect_add_values(rows, #field_, pt_inspect_number(a->field_),                    \
                       pt_inspect_number(b->field_))
#define STRING(field_)                                                                 \
    inspect_add_values(rows, #field_, pt_json_text(a->field_), pt_json_text(b->field_))
    INTEGER(step);
    INTEGER(samples);
    INTEGER(tokens);
    INTEGER(adam_t);
    INTEGER(decay_steps);
    NUMBER(loss);
    NUMBER(loss_scale);
    INTEGER(loss_scale_good_steps);
    INTEGER(loss_scale_hysteresis);
    inspect_add_values(rows, "digest", pt_inspect_hex(a->digest),
                       pt_inspect_hex(b->digest));
    STRING(precision);
    STRING(build);
    STRING(layout);
#undef INTEGER
#undef NUMBER
#undef STRING
}

static bool inspect_has_line(const char *text, const char *line, size_t length)
{
    for (; text; text = strchr(text, '\n') ? strchr(text, '\n') + 1 : NULL)
        if (strncmp(text, line, length) == 0 &&
            (text[length] == '\n' || text[length] == '\0'))
            return true;
    return false;
}

/* Adds the lines of `text` that `other` does not have. */
static void inspect_add_lines(json_t *rows, const char *sign, const char *text,
                              const char *other)
{
    char line[512];

    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        if (!inspect_has_line(other, text, length)) {
            snprintf(line, sizeof line, "%s %.*s", sign,
                     length < 480 ? (int)length : 480, text);
            json_array_append_new(rows, pt_json_text(line));
        }
        text += length + (text[length] == '\n');
    }
}

pt_status_t pt_inspect_diff(pt_checkpoint_reader_t *a, pt_checkpoint_reader_t *b,
                            json_t *out)
{
    pair_t pair = {.a = a, .b = b};
    json_t *rows = json_array(), *header = json_array(), *config = json_array();
    const char *config_a = pt_checkpoint_config(a), *config_b = pt_checkpoint_config(b);
    pt_status_t status;
    void *pieces;

    json_object_set_new(out, "tensors_that_differ", rows);
    json_object_set_new(out, "header_differences", header);
    json_object_set_new(out, "config_differences", config);
    diff_header(pt_checkpoint_header(a), pt_checkpoint_header(b), header);
    inspect_add_lines(config, "-", config_a, config_b);
    inspect_add_lines(config, "+", config_b, config_a);
    PT_TRY(pt_alloc("pieces of tensors", 2, PT_INSPECT_PIECE_BYTES, &pieces));
    pair.piece_a = pieces;
    pair.piece_b = pair.piece_a + PT_INSPECT_PIECE_BYTES;
    status = diff_tensors(&pair, rows);
    pt_free(pieces);
    PT_TRY(status);
    json_object_set_new(out, "equal", json_boolean(json_array_size(rows) == 0));
    PT_CHECK_COMMON(json_array_size(rows) == 0, PT_NUMERIC, "%zu tensors differ",
                    json_array_size(rows));
    return PT_OK;
}
