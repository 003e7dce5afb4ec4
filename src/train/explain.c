/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/private.h"

#include <math.h>
#include <stdio.h>

/* Flat values of a bucket, and the range they cover. */
typedef struct flat {
    pt_tensor_t (*values)(const pt_units_t *units, int bucket);
    pt_bucket_range_t (*range)(const pt_units_t *units, int bucket);
} flat_t;

static pt_bucket_range_t explain_whole(const pt_units_t *units, int bucket)
{
    return (pt_bucket_range_t){0, pt_bucket_elements(units, bucket)};
}

static const flat_t explain_grads = {pt_bucket_grads, pt_bucket_updated};
static const flat_t explain_weights = {pt_bucket_weights, explain_whole};

static pt_status_t explain_clear(pt_trainer_t *t)
{
    return pt_op_fill(t->session.device, t->session.stream,
                      &(pt_op_fill_t){.x = t->norm_sum});
}

static pt_status_t explain_add(pt_trainer_t *t, pt_tensor_t x)
{
    pt_op_sum_t sum = {.x = x, .accumulator = t->norm_sum};
    return pt_op_sum(t->session.device, t->session.stream, &sum);
}

static pt_status_t explain_is_finite(pt_trainer_t *t, bool *finite)
{
    pt_sum_t sum = {.nan = 0};
    PT_TRY(pt_session_fetch(&t->session, &t->norm_sum, 1, &sum));
    *finite = pt_sum_nonfinite(&sum) == 0;
    return PT_OK;
}

static pt_status_t explain_are_all_finite(pt_trainer_t *t, const flat_t *flat,
                                          bool *finite)
{
    PT_TRY(explain_clear(t));
    for (int b = 0; b < pt_units_buckets(t->session.units); b++)
        PT_TRY(explain_add(t, flat->values(t->session.units, b)));
    return explain_is_finite(t, finite);
}

/* Adds what this rank has of a parameter. */
static pt_status_t explain_add_param(pt_trainer_t *t, const flat_t *flat, int param)
{
    const pt_units_t *units = t->session.units;
    int bucket = pt_units_bucket_of(units, param);
    pt_tensor_t local = pt_units_local_shape(units, param);
    pt_bucket_range_t range = flat->range(units, bucket);
    pt_bucket_range_t mine =
        pt_bucket_common(range, (pt_bucket_range_t){pt_units_offset(units, param),
                                                    pt_tensor_count(&local)});
    if (mine.count == 0)
        return PT_OK;
    return explain_add(t, pt_tensor_slice(flat->values(units, bucket), 0,
                                          mine.first - range.first, mine.count));
}

/* First parameter in table order whose values are not finite on this rank, -1 if
 * none. */
static pt_status_t explain_find(pt_trainer_t *t, const flat_t *flat, int *param)
{
    bool finite;
    *param = -1;
    /* Usually all values are finite: one wait says so. */
    PT_TRY(explain_are_all_finite(t, flat, &finite));
    for (int p = 0; p < t->session.table.count && !finite && *param < 0; p++) {
        bool fine = true;
        if (pt_units_bucket_of(t->session.units, p) < 0)
            continue;
        PT_TRY(explain_clear(t));
        PT_TRY(explain_add_param(t, flat, p));
        PT_TRY(explain_is_finite(t, &fine));
        if (!fine)
            *param = p;
    }
    return PT_OK;
}

/* The first of all ranks' by name, NULL if none: an injected or local fault shows on
 * one only. */
static pt_status_t explain_find_everywhere(pt_trainer_t *t, const flat_t *flat,
                                           const char **name)
{
    int param = -1;
    pt_status_t status = explain_find(t, flat, &param);
    int64_t first = param >= 0 ? -(int64_t)param : -INT64_MAX;
    PT_TRY(pt_comm_agree(t->session.mesh->world, status, false));
    PT_TRY(pt_comm_max_int64(t->session.mesh->world, &first, 1));
    *name = first == -INT64_MAX ? NULL : t->session.table.params[-first].part[0].name;
    return PT_OK;
}

/* What could be tried, by precision: with fp16 the loss scale has been through all it
 * may. */
static const char *explain_advice(const pt_trainer_t *t, char *buffer, size_t size)
{
    if (t->session.arch.dtype != PT_F16)
        return "Lower train.lr, lengthen train.warmup, or look at the data of this "
               "step";
    if (t->scale.dynamic)
        return "fp16 overflows even with a loss scale of 1: take "
               "train.precision=bf16, lower train.lr, or lengthen train.warmup";
    snprintf(buffer, size,
             "%d steps in a row overflowed with train.loss_scale=%.0f: take "
             "train.loss_scale=dynamic or a smaller one, or train.precision=bf16",
             PT_SCALE_PATIENCE, t->scale.value);
    return buffer;
}

pt_status_t pt_train_explain_nonfinite(pt_trainer_t *t, const pt_step_result_t *step)
{
    char buffer[192];
    const char *name = NULL;
    PT_TRY(explain_find_everywhere(t, &explain_grads, &name));
    return PT_FAIL_COMMON(
        PT_NUMERIC,
        "step %lld: loss %g, gradient norm %g; first gradient that is not finite: "
        "%s. The weights are those before this step. %s",
        (long long)t->step + 1, step->loss, step->grad_norm, name ? name : "none",
        explain_advice(t, buffer, sizeof buffer));
}

pt_status_t pt_train_check_weights(pt_trainer_t *t)
{
    const char *name = NULL;
    PT_TRY(pt_units_settle(t->session.units, t->session.stream));
    PT_TRY(explain_find_everywhere(t, &explain_weights, &name));
    PT_CHECK_COMMON(
        name == NULL, PT_NUMERIC,
        "after step %lld the weights are not finite, first %s: nothing is "
        "saved. Lower train.lr or lengthen train.warmup, and start again from "
        "the last checkpoint",
        (long long)t->step, name);
    return PT_OK;
}
